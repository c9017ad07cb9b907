// Writes the flatbuffer of an adapter. Its schema has two tables:
//
//  Adapter    format_version, adapter_version, model_version: int32;
//             parameters: [Parameter]
//  Parameter  name: string; dims: [int64]; data_type: int32 (ONNX's numbers);
//             raw_data: [uint8]
//
// A table begins with the distance to its vtable, which has the positions of
// the fields. Both tables here have four fields of four bytes: numbers, or
// distances to strings and vectors.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/RuntimeAdapter.h"

#include "runtime/train/support/FileSystem.h"

#include <cassert>
#include <cstring>
#include <limits>

using namespace mpc;
using namespace mpc::tools;
using runtime::Status;
using runtime::train::Array;
using runtime::train::ElementType;

namespace {
/// The bytes of a flatbuffer, written front to back.
class FlatBufferWriter {
public:
  size_t getSize() const { return bytes.size(); }
  std::string take() { return std::move(bytes); }

  template <typename T>
  void append(T value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  void append(const void *data, size_t size) {
    bytes.append(static_cast<const char *>(data), size);
  }
  /// Appends zeros, until `ahead` more bytes end at a multiple of `alignment`.
  void align(size_t alignment, size_t ahead = 0) {
    while ((bytes.size() + ahead) % alignment != 0)
      bytes.push_back(0);
  }
  /// Sets the distance at byte `at` to the end of the bytes so far.
  void pointHere(size_t at) {
    const auto distance = static_cast<uint32_t>(bytes.size() - at);
    std::memcpy(&bytes[at], &distance, sizeof(distance));
  }
  /// Appends a vtable of four fields of four bytes; returns its position.
  size_t appendVTable() {
    const size_t position = bytes.size();
    for (uint16_t number : {12, 20, 4, 8, 12, 16})
      append(number);
    return position;
  }
  /// Appends the head of a table; its four fields must follow.
  void beginTable(size_t vtable) {
    append(static_cast<int32_t>(bytes.size() - vtable));
  }

private:
  std::string bytes;
};
} // namespace

// Returns ONNX's number of a float type.
static int32_t getONNXNumber(ElementType type) {
  switch (type) {
  case ElementType::F32:
    return 1;
  case ElementType::F16:
    return 10;
  case ElementType::F64:
    return 11;
  default:
    assert(type == ElementType::BF16 && "parameters are floats");
    return 16;
  }
}

static void appendParameter(FlatBufferWriter &out, size_t vtable,
                            const Array &array) {
  const size_t table = out.getSize();
  out.beginTable(vtable);
  out.append<uint32_t>(0);
  out.append<uint32_t>(0);
  out.append<int32_t>(getONNXNumber(array.type));
  out.append<uint32_t>(0);
  out.pointHere(table + 4);
  out.append(static_cast<uint32_t>(array.name.size()));
  out.append(array.name.c_str(), array.name.size() + 1);
  out.align(8, sizeof(uint32_t));
  out.pointHere(table + 8);
  out.append(static_cast<uint32_t>(array.shape.size()));
  for (int64_t extent : array.shape)
    out.append(extent);
  out.align(8, sizeof(uint32_t));
  out.pointHere(table + 16);
  out.append(static_cast<uint32_t>(array.bytes()));
  out.append(array.data, array.bytes());
  out.align(4);
}

Status mpc::tools::writeRuntimeAdapter(const std::string &file,
                                       const std::vector<Array> &parameters) {
  int64_t size = 0;
  for (const Array &array : parameters)
    size += array.bytes() + static_cast<int64_t>(array.name.size()) + 128;
  if (size > std::numeric_limits<int32_t>::max())
    return Status(runtime::StatusCode::Unsupported,
                  file + ": the adapter exceeds the 2 GiB of the format; write "
                         ".safetensors");
  FlatBufferWriter out;
  out.append<uint32_t>(0);
  out.append("TORT", 4);
  const size_t vtable = out.appendVTable();
  out.pointHere(0);
  const size_t root = out.getSize();
  out.beginTable(vtable);
  for (int32_t version : {1, 1, 1})
    out.append(version);
  out.append<uint32_t>(0);
  out.pointHere(root + 16);
  out.append(static_cast<uint32_t>(parameters.size()));
  const size_t list = out.getSize();
  for (size_t i = 0; i < parameters.size(); ++i)
    out.append<uint32_t>(0);
  for (size_t i = 0; i < parameters.size(); ++i) {
    out.pointHere(list + i * sizeof(uint32_t));
    appendParameter(out, vtable, parameters[i]);
  }
  return runtime::train::replaceFile(file, {out.take()});
}
