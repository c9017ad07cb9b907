// Reads the flatbuffer of a checkpoint. A flatbuffer has tables, whose fields
// are found through offsets. Every offset is checked against the file's size
// before use.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/RuntimeCheckpoint.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace mpc::runtime::train {

// The numbers of the fields in the tables that mpc reads, as in the schema.
enum CheckpointField { kVersion, kModuleState };
enum ModuleStateField { kTrained, kFrozen, kIsNominal, kHasExternalData };
enum TensorField { kName, kDocString, kDims, kDataType, kRawData };

// The numbers that ONNX gives to element types.
static constexpr std::pair<int32_t, ElementType> kElementTypes[] = {
    {1, ElementType::F32},   {2, ElementType::U8},   {3, ElementType::I8},
    {4, ElementType::U16},   {5, ElementType::I16},  {6, ElementType::I32},
    {7, ElementType::I64},   {9, ElementType::Bool}, {10, ElementType::F16},
    {11, ElementType::F64},  {12, ElementType::U32}, {13, ElementType::U64},
    {16, ElementType::BF16},
};

bool looksLikeRuntimeCheckpoint(const std::byte *data, size_t size) {
  return size >= 8 && std::memcmp(data + 4, "ODTC", 4) == 0;
}

namespace {
/// The position of a vector in the file: `count` elements from byte `begin` on.
struct Elements {
  size_t begin = 0, count = 0;
};

/// Reads numbers, tables and vectors of a flatbuffer. A read outside the file
/// sets `isDamaged` and returns 0.
class FlatBufferReader {
public:
  FlatBufferReader(const std::byte *data, size_t size)
      : data(data), size(size) {}

  bool isDamaged = false;

  template <typename T>
  T read(size_t at) {
    T value{};
    if (at > size || size - at < sizeof(T))
      isDamaged = true;
    else
      std::memcpy(&value, data + at, sizeof(T));
    return value;
  }

  /// Returns the position to which the offset at byte `at` points.
  size_t follow(size_t at) { return at + read<uint32_t>(at); }

  /// Returns the position of field number `index` in the table at byte `table`;
  /// 0 if the table lacks the field.
  size_t findField(size_t table, unsigned index) {
    const int64_t fields = int64_t(table) - read<int32_t>(table);
    if (fields < 0) {
      isDamaged = true;
      return 0;
    }
    const size_t entry = 4 + 2 * size_t(index);
    if (entry + 2 > read<uint16_t>(fields))
      return 0;
    const uint16_t offset = read<uint16_t>(size_t(fields) + entry);
    return offset == 0 ? 0 : table + offset;
  }

  /// Returns the position of a field that is a vector of elements of `width`
  /// bytes. Empty if the field is absent or does not fit the file.
  Elements findVector(size_t table, unsigned index, size_t width) {
    const size_t field = findField(table, index);
    if (field == 0)
      return {};
    const size_t vector = follow(field);
    const Elements found{vector + 4, read<uint32_t>(vector)};
    if (!isDamaged && found.count > (size - found.begin) / width)
      isDamaged = true;
    return isDamaged ? Elements() : found;
  }

private:
  const std::byte *data;
  size_t size;
};
} // namespace

/// Limit on the length of a parameter's name, in bytes.
static constexpr size_t kMaxNameBytes = 4096;

// Reads the tensor whose table begins at byte `table`. Uses the values in
// place.
static StatusOr<Array> readTensor(FlatBufferReader &reader, size_t table,
                                  const std::byte *data,
                                  const std::string &where) {
  Array array;
  const Elements name = reader.findVector(table, kName, 1);
  // In a hostile file, many tensors can share the bytes of one long name. The
  // limit bounds the memory for the copies.
  if (name.count > kMaxNameBytes)
    return invalid(
        where, "a parameter's name has " + std::to_string(name.count) +
                   " bytes, expected at most " + std::to_string(kMaxNameBytes));
  array.name.assign(reinterpret_cast<const char *>(data + name.begin),
                    name.count);
  const std::string what = "parameter '" + array.name + "'";

  const size_t typeField = reader.findField(table, kDataType);
  const int32_t number = typeField == 0 ? 0 : reader.read<int32_t>(typeField);
  const auto *type =
      std::find_if(std::begin(kElementTypes), std::end(kElementTypes),
                   [&](const auto &known) { return known.first == number; });
  if (!reader.isDamaged && type == std::end(kElementTypes))
    return Status(StatusCode::Unsupported,
                  where + ": " + what + " has element type " +
                      std::to_string(number) + " of ONNX");

  const Elements dims = reader.findVector(table, kDims, sizeof(int64_t));
  const Elements bytes = reader.findVector(table, kRawData, 1);
  if (reader.isDamaged)
    return array;
  if (dims.count > kMaxRank)
    return invalid(where, what + " has " + std::to_string(dims.count) +
                              " dimensions, expected at most " +
                              std::to_string(kMaxRank));
  array.type = type->second;
  int64_t expected = sizeOf(array.type);
  for (size_t i = 0; i < dims.count; ++i) {
    const auto extent = reader.read<int64_t>(dims.begin + i * sizeof(int64_t));
    if (extent < 0 || __builtin_mul_overflow(expected, extent, &expected))
      return invalid(where, what +
                                " has an impossible shape: expected extents of "
                                "at least 0 and less than 2^63 bytes, found " +
                                std::to_string(extent) + " along axis " +
                                std::to_string(i));
    array.shape.push_back(extent);
  }

  if (bytes.count != size_t(expected))
    return invalid(where, what + " of " + toString(array.shape) + " " +
                              std::string(nameOf(array.type)) + " takes " +
                              std::to_string(expected) + " bytes, it has " +
                              std::to_string(bytes.count));
  array.data = data + bytes.begin;
  return array;
}

StatusOr<std::vector<Array>>
parseRuntimeCheckpoint(const std::byte *data, size_t size,
                       const std::shared_ptr<const void> &owner,
                       const std::string &where) {
  // The offsets of a damaged file may point anywhere. The reader then sets
  // `isDamaged`, and nothing of the file is used.
  FlatBufferReader reader(data, size);
  const Status damaged = invalid(
      where, "damaged or truncated: an offset of the checkpoint leads out of "
             "its " +
                 std::to_string(size) + " bytes");
  const size_t moduleField = reader.findField(reader.follow(0), kModuleState);
  if (reader.isDamaged)
    return damaged;
  if (moduleField == 0)
    return invalid(where, "the checkpoint has no parameters");
  // Refuse checkpoints that have no values in this file.
  const size_t module = reader.follow(moduleField);
  for (unsigned index : {kIsNominal, kHasExternalData}) {
    const size_t field = reader.findField(module, index);
    if (field != 0 && reader.read<uint8_t>(field) != 0)
      return Status(StatusCode::Unsupported,
                    where + (index == kIsNominal
                                 ? ": a nominal checkpoint, which has no values"
                                 : ": the checkpoint has its values in another "
                                   "file"));
  }

  // Trained and frozen parameters must not share a name.
  std::vector<Array> arrays;
  std::set<std::string> names;
  for (unsigned index : {kTrained, kFrozen}) {
    const Elements tables = reader.findVector(module, index, 4);
    for (size_t i = 0; i < tables.count && !reader.isDamaged; ++i) {
      StatusOr<Array> array =
          readTensor(reader, reader.follow(tables.begin + 4 * i), data, where);
      if (reader.isDamaged)
        return damaged;
      if (!array.ok())
        return array.status();
      if (!names.insert(array->name).second)
        return invalid(where, "parameter '" + array->name + "' occurs twice");
      array->owner = owner;
      arrays.push_back(std::move(*array));
    }
  }
  if (reader.isDamaged)
    return damaged;
  return arrays;
}

} // namespace mpc::runtime::train
