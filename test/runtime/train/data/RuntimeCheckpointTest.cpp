// Tests reading ONNX Runtime's checkpoints, also damaged ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/RuntimeCheckpoint.h"

#include <cstring>

namespace mpc::runtime::train {
namespace {

/// Builds a flatbuffer. Referenced objects follow the objects that refer to
/// them.
struct Builder {
  std::string bytes = std::string(4, '\0') + "ODTC";

  void put(size_t at, uint32_t value) {
    for (int i = 0; i < 4; ++i)
      bytes[at + i] = char(value >> (8 * i));
  }
  size_t add(uint32_t value) {
    bytes += std::string(4, '\0');
    put(bytes.size() - 4, value);
    return bytes.size() - 4;
  }
  /// Adds a table of zeroed 4-byte fields. The first field follows the returned
  /// position.
  size_t addTable(int fields) {
    const size_t start = bytes.size();
    const auto addHalf = [&](int value) {
      bytes += char(value);
      bytes += '\0';
    };
    addHalf(4 + 2 * fields);
    addHalf(4 + 4 * fields);
    for (int i = 0; i < fields; ++i)
      addHalf(4 + 4 * i);
    const size_t table = bytes.size();
    add(uint32_t(table - start));
    for (int i = 0; i < fields; ++i)
      add(0);
    return table;
  }
  /// Makes field `index` of a table refer to the next object.
  void refer(size_t table, int index) { point(table + 4 + 4 * index); }
  void point(size_t slot) { put(slot, uint32_t(bytes.size() - slot)); }
  void addVector(size_t count, const std::string &content) {
    add(uint32_t(count));
    bytes += content;
  }
};

std::string packed(const std::vector<int64_t> &values) {
  return {reinterpret_cast<const char *>(values.data()), 8 * values.size()};
}

struct Parameter {
  std::string name;
  std::vector<int64_t> shape;
  std::string bytes;
  int type = 1;
};

/// Fields 2 and 3 of the module's state are flags.
std::string makeCheckpoint(const std::vector<Parameter> &trained,
                           const std::vector<Parameter> &frozen, int flag = 0) {
  Builder builder;
  // The root: its version and the module's state.
  const size_t root = builder.addTable(2);
  builder.put(0, uint32_t(root));
  builder.refer(root, 1);
  const size_t offset = root + 8, module = builder.addTable(4);
  builder.put(offset, uint32_t(module - offset));
  if (flag != 0)
    builder.put(module + 4 + 4 * flag, 1);
  for (int list : {0, 1}) {
    const std::vector<Parameter> &parameters = list == 0 ? trained : frozen;
    builder.refer(module, list);
    builder.add(uint32_t(parameters.size()));
    std::vector<size_t> slots;
    for (size_t i = 0; i < parameters.size(); ++i)
      slots.push_back(builder.add(0));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter &parameter = parameters[i];
      const size_t tensor = builder.addTable(5);
      builder.put(slots[i], uint32_t(tensor - slots[i]));
      builder.put(tensor + 4 + 4 * 3, uint32_t(parameter.type));
      builder.refer(tensor, 0);
      builder.addVector(parameter.name.size(), parameter.name);
      builder.refer(tensor, 2);
      builder.addVector(parameter.shape.size(), packed(parameter.shape));
      builder.refer(tensor, 4);
      builder.addVector(parameter.bytes.size(), parameter.bytes);
    }
  }
  return builder.bytes;
}

const Parameter kWeight{"w", {2, 1}, std::string("\0\0\x80\x3f\0\0\0\x40", 8)};
const Parameter kCount{"n", {}, std::string("\5\0\0\0\0\0\0\0", 8), 7};

StatusOr<std::vector<Array>> parse(const std::string &bytes) {
  return parseRuntimeCheckpoint(bytesOf(bytes), bytes.size(), nullptr, "c");
}

TEST(RuntimeCheckpoint, HasTrainedAndFrozenParameters) {
  TemporaryDirectory directory;
  const std::string path = directory / "checkpoint";
  writeFile(path, makeCheckpoint({kWeight}, {kCount}));
  StatusOr<std::vector<Array>> arrays = readArrays(path);
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 2u);
  const Array &weight = (*arrays)[0], &count = (*arrays)[1];
  EXPECT_EQ(weight.name, "w");
  EXPECT_EQ(weight.type, ElementType::F32);
  EXPECT_EQ(weight.shape, (Shape{2, 1}));
  EXPECT_EQ(std::memcmp(weight.data, kWeight.bytes.data(), 8), 0);
  EXPECT_EQ(count.name, "n");
  EXPECT_EQ(count.type, ElementType::I64);
  EXPECT_TRUE(count.shape.empty());
}

TEST(RuntimeCheckpoint, WhatIsNotThereIsSaid) {
  expectFailure(parse(makeCheckpoint({kWeight}, {}, 2)).status(),
                StatusCode::Unsupported, "nominal");
  expectFailure(parse(makeCheckpoint({kWeight}, {}, 3)).status(),
                StatusCode::Unsupported, "another file");
  expectFailure(parse(makeCheckpoint({kWeight}, {kWeight})).status(),
                StatusCode::InvalidInput, "'w' occurs twice");
  expectFailure(parse(makeCheckpoint({{"s", {1}, "a", 8}}, {})).status(),
                StatusCode::Unsupported, "'s' has element type 8");
  expectFailure(parse(makeCheckpoint({{"w", {3}, "1234"}}, {})).status(),
                StatusCode::InvalidInput, "takes 12 bytes, it has 4");
  for (int64_t extent : {int64_t(-1), INT64_MAX / 2})
    expectFailure(parse(makeCheckpoint({{"w", {extent}, "1234"}}, {})).status(),
                  StatusCode::InvalidInput, "impossible shape");
  // Tensors may share a vector, and each gets a copy of it.
  const std::vector<int64_t> many(33, 1);
  expectFailure(parse(makeCheckpoint({{"w", many, "1234"}}, {})).status(),
                StatusCode::InvalidInput, "'w' has 33 dimensions");
  const std::string name(5000, 'w');
  expectFailure(parse(makeCheckpoint({{name, {1}, "1234"}}, {})).status(),
                StatusCode::InvalidInput, "name has 5000 bytes");
}

// Truncated or changed files are never read outside their bounds.
TEST(RuntimeCheckpoint, DamagedFilesAreRefusedOrReadWithinTheirBounds) {
  const std::string whole = makeCheckpoint({kWeight}, {kCount});
  for (size_t size = 8; size < whole.size(); ++size) {
    // On the heap, so that sanitizers see its end.
    const std::vector<char> part(whole.begin(), whole.begin() + size);
    const auto *bytes = reinterpret_cast<const std::byte *>(part.data());
    EXPECT_FALSE(parseRuntimeCheckpoint(bytes, size, nullptr, "c").ok())
        << size;
  }
  for (size_t at = 0; at < whole.size(); ++at)
    for (unsigned char value : {0x00, 0x01, 0x7f, 0x80, 0xff}) {
      std::vector<char> changed(whole.begin(), whole.end());
      changed[at] = char(value);
      const auto *bytes = reinterpret_cast<const std::byte *>(changed.data());
      StatusOr<std::vector<Array>> arrays =
          parseRuntimeCheckpoint(bytes, changed.size(), nullptr, "c");
      if (!arrays.ok())
        continue;
      for (const Array &array : *arrays)
        EXPECT_LE(array.data + array.bytes(), bytes + changed.size());
    }
}

} // namespace
} // namespace mpc::runtime::train
