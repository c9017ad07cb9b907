// Filters in blocked orders against the library's own reorders.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/FilterBlocks.h"
#include "test/runtime/cpu/GuardedMemory.h"

#include <map>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

using Tag = dnnl::memory::format_tag;
using Dims = dnnl::memory::dims;
using Type = dnnl::memory::data_type;

/// Copies by the library, whose padding becomes zeros.
void reorder(const dnnl::memory::desc &from, const Guarded &source,
             const dnnl::memory::desc &to, Guarded &result) {
  dnnl::memory in(from, dnnlEngine(), source.data);
  dnnl::memory out(to, dnnlEngine(), result.data);
  dnnl::stream stream(dnnlEngine());
  dnnl::reorder(in, out).execute(stream, in, out);
  stream.wait();
}

dnnl::memory::desc plainOf(const Dims &dims, Type type) {
  Dims strides(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * dims[axis];
  return {dims, type, strides};
}

void expectSameBytes(const Guarded &result, const Guarded &expected) {
  EXPECT_TRUE(result.isIntact());
  EXPECT_EQ(std::memcmp(result.data, expected.data, expected.bytes), 0);
}

/// Packs, a few indices of the first axis at a time and the last ones first,
/// and of f32 unpacks.
void expectSameAsLibrary(const Dims &dims, Type type, Tag tag) {
  const dnnl::memory::desc plain = plainOf(dims, type);
  const dnnl::memory::desc blocked(dims, type, tag);
  const auto blocks = FilterBlocks::find(plain, blocked);
  ASSERT_TRUE(blocks);
  // A multiple of every block's side.
  const int64_t step = 96, extent = dims[0];
  ASSERT_EQ(step % blocks->firstAxisStep(), 0);
  for (At at : {At::Start, At::End}) {
    const std::byte fill{at == At::Start ? uint8_t(0) : uint8_t(0xff)};
    Guarded source(plain.get_size(), at, fill);
    fillWithNumbers(source, type == Type::f32 ? DType::F32 : DType::BF16, 1);
    Guarded expected(blocked.get_size(), at, std::byte{0});
    reorder(plain, source, blocked, expected);
    Guarded result(blocked.get_size(), at, fill);
    Guarded scratch(blocks->scratchBytes(), at, fill);
    for (int64_t first = (extent - 1) / step * step; first >= 0; first -= step)
      blocks->pack(first, std::min(step, extent - first), source.data,
                   result.data, scratch.data);
    expectSameBytes(result, expected);
    if (type != Type::f32)
      continue;
    Guarded back(plain.get_size(), at, fill);
    for (int64_t first = 0; first < extent; first += step)
      blocks->unpack(first, std::min(step, extent - first), result.data,
                     back.data, scratch.data);
    expectSameBytes(back, source);
    EXPECT_TRUE(scratch.isIntact());
  }
}

TEST(FilterBlocks, OfF32) {
  for (const auto &[tag, rank] : std::map<Tag, size_t>{{Tag::Owi16o, 1},
                                                       {Tag::Owi24o, 1},
                                                       {Tag::OIhw8i8o, 2},
                                                       {Tag::OIw16i16o, 1},
                                                       {Tag::OIhw16o16i, 2},
                                                       {Tag::Ohwi32o, 2},
                                                       {Tag::Ihwo32i, 2},
                                                       {Tag::OIdhw16i16o, 3}})
    for (int64_t outputs : {16, 40, 200})
      for (int64_t inputs : {3, 16, 70}) {
        SCOPED_TRACE(std::to_string(int(tag)) + ", " + std::to_string(outputs) +
                     " x " + std::to_string(inputs));
        Dims dims = {outputs, inputs, 3, 5, 2};
        dims.resize(rank + 2);
        expectSameAsLibrary(dims, Type::f32, tag);
      }
}

TEST(FilterBlocks, OfPairs) {
  for (const auto &[tag, rank] : std::map<Tag, size_t>{{Tag::OIw8i16o2i, 1},
                                                       {Tag::OIhw8i16o2i, 2},
                                                       {Tag::OIhw8o16i2o, 2},
                                                       {Tag::OIhw16i32o2i, 2},
                                                       {Tag::OIdhw8i16o2i, 3}})
    for (int64_t outputs : {5, 33, 200})
      for (int64_t inputs : {1, 16, 71}) {
        SCOPED_TRACE(std::to_string(int(tag)) + ", " + std::to_string(outputs) +
                     " x " + std::to_string(inputs));
        Dims dims = {outputs, inputs, 3, 5, 2};
        dims.resize(rank + 2);
        expectSameAsLibrary(dims, Type::bf16, tag);
      }
}

TEST(FilterBlocks, OfGroups) {
  for (int64_t channels : {16, 24}) {
    expectSameAsLibrary({3, channels, 20, 3, 3}, Type::f32, Tag::gOIhw16i16o);
    expectSameAsLibrary({3, channels, 20, 3, 3}, Type::bf16, Tag::gOIhw8i16o2i);
  }
  for (int64_t groups : {16, 150})
    expectSameAsLibrary({groups, 1, 1, 3, 3}, Type::f32, Tag::Goihw16g);
}

// Filters with channels last fill whole vectors.
TEST(FilterBlocks, WithoutBlocks) {
  expectSameAsLibrary({208, 5, 3, 3}, Type::f32, Tag::hwio);
  expectSameAsLibrary({208, 3, 9}, Type::f32, Tag::wio);
  expectSameAsLibrary({7, 48, 3, 3}, Type::f32, Tag::ohwi);
}

TEST(FilterBlocks, OfOneTap) {
  expectSameAsLibrary({40, 70, 1, 1}, Type::f32, Tag::OIhw16i16o);
  expectSameAsLibrary({40, 70, 1, 1}, Type::bf16, Tag::OIhw8i16o2i);
  expectSameAsLibrary({40, 70, 1, 1}, Type::bf16, Tag::OIhw8o16i2o);
}

TEST(FilterBlocks, KnowsWhatItCannotPack) {
  auto isKnown = [](const Dims &dims, Type from, Type to, Tag tag) {
    return FilterBlocks::find(plainOf(dims, from), {dims, to, tag}).has_value();
  };
  EXPECT_TRUE(isKnown({32, 32, 3, 3}, Type::f32, Type::f32, Tag::OIhw16i16o));
  EXPECT_FALSE(isKnown({32, 32, 3, 3}, Type::f32, Type::bf16, Tag::OIhw16i16o));
  EXPECT_FALSE(isKnown({32, 32, 3, 3}, Type::f32, Type::f32, Tag::OIhw4i4o));
  EXPECT_FALSE(isKnown({33, 32, 3, 3}, Type::f32, Type::f32, Tag::hwio));
  EXPECT_FALSE(isKnown({32, 32}, Type::f32, Type::f32, Tag::AB16b16a));
  EXPECT_FALSE(
      isKnown({32, 32, 64, 64}, Type::f32, Type::f32, Tag::OIhw16i16o));
}

} // namespace
