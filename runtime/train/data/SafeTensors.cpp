// Parses safetensors files, enforces every rule of the format, and lays out new
// files.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/SafeTensors.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace mpc::runtime::train {

using nlohmann::json;

static constexpr uint64_t kMaxSafeTensorsHeader = 100'000'000;
static constexpr size_t kLengthBytes = 8;

static const std::pair<std::string_view, ElementType> kTypeNames[] = {
    {"BOOL", ElementType::Bool}, {"U8", ElementType::U8},
    {"I8", ElementType::I8},     {"U16", ElementType::U16},
    {"I16", ElementType::I16},   {"U32", ElementType::U32},
    {"I32", ElementType::I32},   {"U64", ElementType::U64},
    {"I64", ElementType::I64},   {"F16", ElementType::F16},
    {"BF16", ElementType::BF16}, {"F32", ElementType::F32},
    {"F64", ElementType::F64},
};

static uint64_t headerLength(const std::byte *data) {
  uint64_t length = 0;
  for (size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | uint64_t(data[i]);
  return length;
}

bool looksLikeSafeTensors(const std::byte *data, size_t size) {
  return size > kLengthBytes && headerLength(data) <= size - kLengthBytes &&
         data[kLengthBytes] == std::byte('{');
}

static constexpr size_t kDeepestHeader = 8;

/// Parses the header as JSON.
static StatusOr<json> parseHeader(std::string_view text,
                                  const std::string &where) {
  StrictDocument header = parseStrictJSON(text, kDeepestHeader);
  if (!header.problem.empty())
    return invalid(where, "the header is not a JSON object: " + header.problem);
  return std::move(header.json);
}

/// Reads an offset or extent: a non-negative integer below 2^63. nullopt for
/// any other value.
static std::optional<int64_t> toExtent(const json &value) {
  if (!value.is_number_unsigned() ||
      value.get<uint64_t>() > uint64_t(INT64_MAX))
    return std::nullopt;
  return int64_t(value.get<uint64_t>());
}

namespace {
struct TensorEntry {
  Array array;
  int64_t begin = 0, end = 0;
};
} // namespace

static StatusOr<TensorEntry> parseEntry(const std::string &name,
                                        const json &value,
                                        const std::string &where) {
  const std::string what = "tensor '" + name + "'";
  for (const char *key : {"dtype", "shape", "data_offsets"})
    if (!value.is_object() || !value.contains(key))
      return invalid(where, what + " lacks " + key);
  TensorEntry entry;
  entry.array.name = name;

  const json &dtype = value["dtype"];
  const auto *type =
      std::find_if(std::begin(kTypeNames), std::end(kTypeNames),
                   [&](const auto &known) { return dtype == known.first; });
  if (type == std::end(kTypeNames))
    return Status(
        dtype.is_string() ? StatusCode::Unsupported : StatusCode::InvalidInput,
        where + ": " + what + " has the unknown dtype " +
            dtype.dump(-1, ' ', true, json::error_handler_t::replace));
  entry.array.type = type->second;

  const json &shape = value["shape"];
  // Check for overflow: a huge shape could otherwise pass with small offsets.
  int64_t bytes = sizeOf(entry.array.type);
  if (!shape.is_array())
    return invalid(where, what + " has a shape that is not a list, found " +
                              shape.type_name());
  for (const json &dimension : shape) {
    const std::optional<int64_t> extent = toExtent(dimension);
    if (!extent || __builtin_mul_overflow(bytes, *extent, &bytes))
      return invalid(where, what + " has an impossible shape: expected extents "
                                   "of at least 0 and less than 2^63 bytes");
    entry.array.shape.push_back(*extent);
  }

  const json &offsets = value["data_offsets"];
  std::optional<int64_t> begin, end;
  if (offsets.is_array() && offsets.size() == 2) {
    begin = toExtent(offsets[0]);
    end = toExtent(offsets[1]);
  }
  if (!begin || !end || *begin > *end)
    return invalid(where,
                   what +
                       " has impossible data_offsets: expected [begin, end] "
                       "with 0 <= begin <= end" +
                       (begin && end ? ", found [" + std::to_string(*begin) +
                                           ", " + std::to_string(*end) + "]"
                                     : std::string()));
  if (*end - *begin != bytes)
    return invalid(where, what + " of " + toString(entry.array.shape) + " " +
                              std::string(nameOf(entry.array.type)) +
                              " takes " + std::to_string(bytes) +
                              " bytes, its data_offsets span " +
                              std::to_string(*end - *begin));
  entry.begin = *begin;
  entry.end = *end;
  return entry;
}

/// Checks that the tensors cover the bytes [0, size) without holes or overlaps.
static Status checkCoverage(const std::vector<TensorEntry> &entries,
                            uint64_t size, const std::string &where) {
  // Sort by position, so that each tensor must begin where the one before ends.
  std::vector<const TensorEntry *> sorted;
  for (const TensorEntry &entry : entries)
    sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(),
            [](const TensorEntry *a, const TensorEntry *b) {
              return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
            });
  int64_t covered = 0;
  for (const TensorEntry *entry : sorted) {
    // A hole could hide data. Bytes of an overlap would belong to two tensors.
    if (entry->begin != covered)
      return invalid(where, "tensor '" + entry->array.name + "' begins at " +
                                std::to_string(entry->begin) +
                                (entry->begin < covered
                                     ? ", inside the one before, which ends at "
                                     : ", after a hole from ") +
                                std::to_string(covered));
    covered = entry->end;
  }
  // Bytes after the last tensor could hide data too.
  if (uint64_t(covered) != size)
    return invalid(where, "the tensors take " + std::to_string(covered) +
                              " bytes, the file has " + std::to_string(size));
  return Status();
}

StatusOr<std::vector<Array>> parseSafeTensors(const std::byte *data,
                                              size_t size,
                                              std::shared_ptr<const void> owner,
                                              const std::string &where) {
  if (size < kLengthBytes)
    return invalid(where, "truncated: a safetensors file has 8 bytes of header "
                          "length, this one has " +
                              std::to_string(size));
  // The length must fit the file, and a JSON object must follow.
  const uint64_t length = headerLength(data);
  if (length > kMaxSafeTensorsHeader)
    return invalid(where, "the header claims " + std::to_string(length) +
                              " bytes; at most " +
                              std::to_string(kMaxSafeTensorsHeader) +
                              " are read");
  if (length > size - kLengthBytes)
    return invalid(where, "truncated: the header claims " +
                              std::to_string(length) + " bytes, the file has " +
                              std::to_string(size - kLengthBytes));
  const std::string_view text(
      reinterpret_cast<const char *>(data + kLengthBytes), length);
  if (text.empty() || text[0] != '{')
    return invalid(where, "the header does not begin with '{'");
  StatusOr<json> header = parseHeader(text, where);
  if (!header.ok())
    return header.status();

  // Check all entries before returning any tensor.
  const std::byte *base = data + kLengthBytes + length;
  std::vector<TensorEntry> entries;
  for (const auto &[name, value] : header->items()) {
    if (name == kMetadataName) {
      for (const json &text : value)
        if (!value.is_object() || !text.is_string())
          return invalid(where, "__metadata__ is not a map of strings");
      continue;
    }
    StatusOr<TensorEntry> entry = parseEntry(name, value, where);
    if (!entry.ok())
      return entry.status();
    entries.push_back(std::move(*entry));
  }
  if (Status status =
          checkCoverage(entries, size - kLengthBytes - length, where);
      !status.ok())
    return status;
  // The tensors refer to the file's bytes, which `owner` keeps alive.
  std::vector<Array> arrays;
  for (TensorEntry &entry : entries) {
    entry.array.data = base + entry.begin;
    entry.array.owner = owner;
    arrays.push_back(std::move(entry.array));
  }
  return arrays;
}

StatusOr<SafeTensorsLayout>
layOutSafeTensors(const std::vector<Array> &arrays,
                  const std::map<std::string, std::string> &metadata) {
  SafeTensorsLayout layout;
  for (const Array &array : arrays)
    layout.order.push_back(&array);
  // Elements of wide types come first, so that all lie at multiples of their
  // size.
  std::sort(layout.order.begin(), layout.order.end(),
            [](const Array *a, const Array *b) {
              const int64_t aSize = sizeOf(a->type), bSize = sizeOf(b->type);
              return aSize != bSize ? aSize > bSize : a->name < b->name;
            });
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  if (!metadata.empty())
    header[kMetadataName] = metadata;
  // Offsets in the header count from the header's end.
  int64_t offset = 0;
  // Refuse equal names: the second tensor would replace the first in the
  // header.
  for (const Array *array : layout.order) {
    if (array->name == kMetadataName)
      return Status(StatusCode::Usage,
                    std::string("a tensor cannot be called '") + kMetadataName +
                        "'");
    if (header.contains(array->name))
      return Status(StatusCode::Usage,
                    "two tensors are called '" + array->name + "'");
    const int64_t end = offset + array->bytes();
    header[array->name] = {{"dtype", kTypeNames[size_t(array->type)].first},
                           {"shape", array->shape},
                           {"data_offsets", {offset, end}}};
    offset = end;
  }
  // Pad the header to a multiple of 8 bytes, so that the tensors are aligned in
  // the file.
  std::string text = header.dump(
      -1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.append((8 - text.size() % 8) % 8, ' ');
  // The length takes eight bytes, the least significant first.
  for (size_t i = 0; i < kLengthBytes; ++i)
    layout.header += char(uint64_t(text.size()) >> (8 * i) & 0xff);
  layout.header += text;
  return layout;
}

} // namespace mpc::runtime::train
