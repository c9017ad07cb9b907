// Tests that routines and the library access only their operands.
//
// Operands, results and scratch lie at the start and then at the end of pages
// between two guard pages. The rest of a page holds a pattern that must stay.
// Scratch memory holds other bytes in each run, and the results must be equal.
// Freed memory is overwritten, so that no routine can read it afterwards. By
// default a few random shapes are drawn; MPC_GUARDED_SHAPES=FIRST:LAST draws
// that range.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/GuardedMemory.h"
#include "test/runtime/cpu/RunContraction.h"

#include <malloc.h>
#include <random>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

const int kOverwritesFreed = mallopt(M_PERTURB, int(kPattern));

/// Runs all slices of all phases, alternating between two workers.
void runGuarded(Contraction &contraction, At at, std::byte fill) {
  Guarded shared(contraction.sharedBytes(), at, fill);
  Guarded first(contraction.scratchBytes(), at, fill);
  Guarded second(contraction.scratchBytes(), at, fill);
  for (size_t phase = 0; phase < contraction.phases().size(); ++phase)
    for (int64_t slice = contraction.phases()[phase]; slice-- > 0;) {
      const int worker = static_cast<int>(slice % 2);
      const Status status = contraction.runSlice(
          phase, slice,
          {worker, shared.data, worker == 0 ? first.data : second.data});
      ASSERT_TRUE(status.ok()) << status.message();
    }
  EXPECT_TRUE(shared.isIntact()) << "shared memory";
  EXPECT_TRUE(first.isIntact() && second.isIntact()) << "scratch memory";
}

/// Limits oneDNN before any test calls it: oneDNN takes no limit afterwards.
class OneDNNLimit : public testing::Environment {
  void SetUp() override {
    auto result = OneDNNProvider::create(testFeatures());
    ASSERT_TRUE(result.ok()) << result.status().message();
  }
};
[[maybe_unused]] testing::Environment *const limit =
    testing::AddGlobalTestEnvironment(new OneDNNLimit);

/// A provider for the host's CPU, or for that of MPC_TEST_TARGET.
ContractionProvider &provider() {
  static const std::unique_ptr<ContractionProvider> made = [] {
    auto result = OneDNNProvider::create(testFeatures());
    EXPECT_TRUE(result.ok());
    return std::move(*result);
  }();
  return *made;
}

/// Three operands; a step writes the last.
struct Shapes {
  DType types[3];
  int64_t elements[3];
};

/// Calls `prepare` with three operands and runs the result on guarded memory at
/// either end.
template <typename Prepare>
void expectWithin(const Shapes &shapes, Prepare prepare) {
  std::vector<std::byte> results[2];
  for (At at : {At::Start, At::End}) {
    const std::byte fill{at == At::Start ? uint8_t(0) : uint8_t(0xff)};
    std::unique_ptr<Guarded> memories[3];
    Operand operands[3];
    for (size_t i = 0; i < 3; ++i) {
      memories[i] = std::make_unique<Guarded>(
          size_t(shapes.elements[i]) * sizeOf(shapes.types[i]), at, fill);
      operands[i] = {shapes.types[i], memories[i]->data};
      if (i < 2)
        fillWithNumbers(*memories[i], shapes.types[i], i + 1);
    }
    StatusOr<std::unique_ptr<Contraction>> made = prepare(operands);
    ASSERT_TRUE(made.ok()) << made.status().message();
    runGuarded(**made, at, fill);
    for (const auto &memory : memories)
      EXPECT_TRUE(memory->isIntact()) << "operands";
    results[at == At::End].assign(memories[2]->data,
                                  memories[2]->data + memories[2]->bytes);
  }
  EXPECT_EQ(
      std::memcmp(results[0].data(), results[1].data(), results[0].size()), 0)
      << "depends on what memory held";
}

struct Image {
  int64_t batch, groups, inChannels, outChannels;
  std::vector<int64_t> spatial, kernel, strides, dilations, pads;
};

std::string join(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : "x") + std::to_string(value);
  return text;
}

void expectConvWithin(const Image &image, ConvKind kind, DType type,
                      DType result) {
  ConvStep step;
  step.kind = kind;
  step.batch = image.batch;
  step.groups = image.groups;
  step.inChannels = image.inChannels;
  step.outChannels = image.outChannels;
  step.inSpatial = image.spatial;
  step.kernel = image.kernel;
  step.strides = image.strides;
  step.dilations = image.dilations;
  step.padsBegin = step.padsEnd = image.pads;
  int64_t x = image.batch * image.inChannels,
          y = image.batch * image.outChannels;
  int64_t w = image.inChannels / image.groups * image.outChannels;
  for (size_t d = 0; d < image.kernel.size(); ++d) {
    step.outSpatial.push_back((image.spatial[d] + 2 * image.pads[d] -
                               image.dilations[d] * (image.kernel[d] - 1) - 1) /
                                  image.strides[d] +
                              1);
    x *= image.spatial[d], y *= step.outSpatial[d], w *= image.kernel[d];
  }
  SCOPED_TRACE(
      "kind " + std::to_string(int(kind)) + ", " + std::string(nameOf(type)) +
      ", " + std::to_string(image.batch) + "x" + join(image.spatial) +
      ", groups " + std::to_string(image.groups) + ", channels " +
      std::to_string(image.inChannels) + " to " +
      std::to_string(image.outChannels) + ", kernel " + join(image.kernel) +
      ", strides " + join(image.strides) + ", dilations " +
      join(image.dilations) + ", pads " + join(image.pads));
  Shapes shapes = {{type, type, result}, {x, w, y}};
  if (kind == ConvKind::InputGrad)
    std::swap(shapes.elements[0], shapes.elements[2]);
  else if (kind == ConvKind::WeightGrad)
    std::swap(shapes.elements[1], shapes.elements[2]);
  expectWithin(shapes, [&](const Operand(&given)[3]) {
    ConvOperands operands = {given[0], given[1], given[2], {}};
    if (kind == ConvKind::InputGrad)
      operands = {given[2], given[1], given[0], {}};
    else if (kind == ConvKind::WeightGrad)
      operands = {given[0], given[2], given[1], {}};
    return provider().prepare(step, std::move(operands), 2);
  });
}

void expectConvsWithin(const Image &image,
                       std::initializer_list<DType> types = {
                           DType::F32, DType::BF16, DType::F16}) {
  for (DType type : types)
    for (ConvKind kind :
         {ConvKind::Forward, ConvKind::InputGrad, ConvKind::WeightGrad}) {
      expectConvWithin(image, kind, type, type);
      if (type != DType::F32 && kind == ConvKind::WeightGrad)
        expectConvWithin(image, kind, type, DType::F32);
    }
}

/// The range of shapes to draw.
std::pair<uint32_t, uint32_t> drawn() {
  const char *text = std::getenv("MPC_GUARDED_SHAPES");
  if (!text)
    return {0, 25};
  char *end = nullptr;
  const unsigned long first = std::strtoul(text, &end, 10);
  const unsigned long last = *end == ':' ? std::strtoul(end + 1, &end, 10) : 0;
  EXPECT_TRUE(*end == '\0' && first < last)
      << "MPC_GUARDED_SHAPES: expected FIRST:LAST, found " << text;
  return {uint32_t(first), uint32_t(last)};
}

class Draw {
public:
  explicit Draw(uint32_t seed) : engine(seed) {}
  int64_t between(int64_t least, int64_t most) {
    return least + int64_t(engine() % uint32_t(most - least + 1));
  }
  int64_t oneOf(const std::vector<int64_t> &values) {
    return values[size_t(between(0, int64_t(values.size()) - 1))];
  }

private:
  std::mt19937 engine;
};

Image drawImage(Draw &draw) {
  Image image;
  image.batch = draw.between(1, 5);
  image.groups = draw.oneOf({1, 1, 1, 2, 16, 40});
  const bool depthwise = image.groups > 2;
  image.inChannels =
      image.groups * (depthwise ? 1 : draw.oneOf({1, 3, 8, 17, 32, 48}));
  image.outChannels =
      image.groups *
      (depthwise ? draw.oneOf({1, 1, 2}) : draw.oneOf({1, 5, 16, 24, 64}));
  const int64_t rank = draw.oneOf({1, 2, 2, 2, 2, 3});
  for (int64_t axis = 0; axis < rank; ++axis) {
    image.kernel.push_back(
        draw.oneOf({1, 2, 3, 3, 3, 5, 7, rank < 3 ? 17 : 4}));
    image.strides.push_back(draw.oneOf({1, 1, 1, 2, 3}));
    image.dilations.push_back(draw.oneOf({1, 1, 1, 2}));
    const int64_t window = image.dilations.back() * (image.kernel.back() - 1);
    image.pads.push_back(draw.between(0, window / 2 + 1));
    image.spatial.push_back(
        std::max<int64_t>(draw.between(1, rank < 3 ? 70 : 12),
                          window + 1 - 2 * image.pads.back()));
  }
  return image;
}

TEST(GuardPages, ConvolutionsOfRandomShapes) {
  const auto [first, last] = drawn();
  for (uint32_t seed = first; seed < last; ++seed) {
    SCOPED_TRACE("shape " + std::to_string(seed));
    Draw draw(seed);
    expectConvsWithin(drawImage(draw));
  }
}

TEST(GuardPages, ConvolutionsOfImagesAsLargeAsPeopleUse) {
  for (int64_t side : {224, 299, 352, 384, 448, 512, 640, 1023, 1024})
    expectConvsWithin(
        {1, 1, 3, 16, {side, side}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
        {DType::BF16});
  for (int64_t side : {224, 448, 513})
    expectConvsWithin(
        {1, 1, 3, 8, {side, side}, {7, 7}, {2, 2}, {1, 1}, {3, 3}});
}

TEST(GuardPages, WideAndDepthwiseFilters) {
  ASSERT_EQ(kOverwritesFreed, 1);
  // Must run first: the library then has no cached forward convolution.
  expectConvWithin({2, 72, 72, 72, {16, 16}, {5, 5}, {2, 2}, {1, 1}, {2, 2}},
                   ConvKind::InputGrad, DType::BF16, DType::BF16);
  expectConvsWithin({2, 1, 8, 8, {9, 60}, {3, 39}, {1, 1}, {1, 1}, {1, 19}});
  expectConvsWithin({2, 1, 8, 8, {5, 40}, {1, 31}, {1, 1}, {1, 1}, {0, 15}});
  expectConvsWithin(
      {2, 40, 40, 40, {33, 33}, {31, 31}, {1, 1}, {1, 1}, {15, 15}});
  expectConvsWithin({2, 96, 96, 96, {28, 28}, {7, 7}, {2, 2}, {1, 1}, {3, 3}});
}

// The library has no routine of its own for these.
TEST(GuardPages, ConvolutionsThatTheLibraryIsSlowAt) {
  expectConvsWithin({2, 72, 72, 72, {28, 28}, {5, 5}, {2, 2}, {1, 1}, {2, 2}});
  expectConvsWithin({2, 40, 40, 40, {90}, {31}, {1}, {1}, {15}});
  expectConvsWithin({1, 24, 24, 48, {29, 29}, {3, 3}, {2, 2}, {2, 2}, {2, 2}});
  expectConvsWithin({1, 1, 3, 8, {70, 70}, {63, 63}, {1, 1}, {1, 1}, {31, 31}});
  expectConvsWithin({1, 1, 2, 2, {700}, {255}, {1}, {1}, {127}});
  expectConvsWithin(
      {1, 20, 20, 20, {4, 9, 10}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  expectConvsWithin({2, 17, 17, 17, {40, 33}, {9, 9}, {1, 1}, {3, 2}, {12, 8}});
}

// Few channels of results, of sources, and of groups.
TEST(GuardPages, ConvolutionsThatLeaveVectorsEmpty) {
  expectConvsWithin({1, 1, 1, 33, {401}, {10}, {5}, {1}, {0}});
  expectConvsWithin({1, 1, 37, 3, {21, 19}, {3, 5}, {1, 1}, {1, 1}, {1, 2}});
  expectConvsWithin({1, 1, 64, 1, {23, 19}, {4, 4}, {1, 1}, {1, 1}, {0, 0}});
  expectConvsWithin({1, 1, 1, 11, {19, 21}, {7, 9}, {1, 1}, {1, 1}, {3, 4}});
  expectConvsWithin({1, 18, 18, 54, {17, 19}, {3, 3}, {1, 1}, {2, 1}, {1, 1}});
  expectConvsWithin({1, 18, 36, 18, {17, 19}, {3, 3}, {2, 1}, {1, 1}, {0, 1}});
}

// On AVX2, sums of few terms are not the library's.
TEST(GuardPages, GradientsWithStrides) {
  for (int64_t channels : {16, 24})
    for (int64_t kernel : {2, 5})
      expectConvsWithin({2,
                         1,
                         channels,
                         18,
                         {31, 30},
                         {kernel, 4},
                         {2, 3},
                         {1, 1},
                         {kernel / 2, 1}});
}

// Gradients of filters read copies of images in blocks of channels: by AVX2 of
// any images, by AVX-512 of large ones.
TEST(GuardPages, WholeBlocksOfChannels) {
  expectConvsWithin({2, 1, 128, 16, {65, 64}, {1, 2}, {2, 2}, {1, 1}, {0, 1}});
  expectConvsWithin({3, 1, 16, 24, {19, 21}, {3, 3}, {2, 1}, {1, 1}, {1, 1}});
  expectConvsWithin({2, 2, 16, 32, {150}, {3}, {1}, {1}, {1}});
}

// Channels of some groups are copied first.
TEST(GuardPages, GroupsOfLargeImages) {
  expectConvsWithin({2, 12, 72, 96, {89, 90}, {3, 3}, {2, 2}, {1, 1}, {1, 1}});
  expectConvsWithin({1, 5, 55, 45, {9500}, {3}, {3}, {2}, {1}});
}

// Large filters in the library's orders.
TEST(GuardPages, LargeFilters) {
  expectConvsWithin({1, 1, 70, 130, {40}, {16}, {8}, {1}, {4}});
  expectConvsWithin({1, 2, 96, 80, {8, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}});
}

// On AVX2, products of patches of the image.
TEST(GuardPages, FewChannels) {
  expectConvsWithin({2, 1, 1, 1, {9, 61}, {3, 3}, {1, 1}, {1, 1}, {1, 1}});
  expectConvsWithin({1, 1, 3, 2, {5, 77}, {2, 9}, {2, 1}, {1, 2}, {0, 5}});
  expectConvsWithin(
      {1, 1, 4, 1, {3, 4, 50}, {2, 2, 3}, {1, 1, 1}, {1, 2, 1}, {1, 0, 1}});
}
TEST(GuardPages, FewPatches) {
  expectConvsWithin({3, 1, 130, 130, {4, 5}, {4, 4}, {1, 1}, {1, 1}, {0, 0}});
  expectConvsWithin({1, 1, 170, 101, {9, 7}, {4, 4}, {3, 2}, {1, 2}, {1, 2}});
}

/// Multiplies m x k by k x n, both dense.
void expectProductsWithin(int64_t m, int64_t n, int64_t k) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (DType result : {type, DType::F32})
      for (bool transB : {false, true}) {
        MatMulStep step;
        step.m = m, step.n = n, step.k = k;
        step.transB = transB;
        step.lda = step.k;
        step.ldb = step.transB ? step.k : step.n;
        step.ldc = step.n;
        step.tileM = step.tileN = 64;
        SCOPED_TRACE(nameOf(type));
        expectWithin({{type, type, result},
                      {step.m * step.k, step.k * step.n, step.m * step.n}},
                     [&](const Operand(&given)[3]) {
                       return provider().prepare(
                           step, {given[0], given[1], given[2], {}}, 2);
                     });
      }
}

TEST(GuardPages, NarrowProducts) { expectProductsWithin(299, 3, 75); }

TEST(GuardPages, ShallowProducts) {
  for (int64_t terms : {1, 2, 7, 8})
    expectProductsWithin(2999, 41, terms);
}

TEST(GuardPages, ProductsOfRandomShapes) {
  const auto [first, last] = drawn();
  for (uint32_t seed = first; seed < last; ++seed)
    for (DType type : {DType::F32, DType::BF16, DType::F16})
      for (DType result : {type, DType::F32}) {
        Draw draw(seed);
        MatMulStep step;
        step.batch = draw.oneOf({1, 1, 3});
        step.m = draw.oneOf({1, 3, 16, 33, 64, 197});
        step.n = draw.oneOf({1, 5, 16, 48, 130, 256});
        step.k = draw.oneOf({1, 2, 31, 63, 64, 100, 513});
        step.transA = draw.between(0, 1), step.transB = draw.between(0, 1);
        step.lda = step.transA ? step.m : step.k;
        step.ldb = step.transB ? step.k : step.n;
        step.ldc = step.n;
        step.strideA = step.m * step.k, step.strideB = step.k * step.n;
        step.strideC = step.m * step.n;
        step.tileM = draw.oneOf({16, 64, 256});
        step.tileN = draw.oneOf({16, 64, 256});
        SCOPED_TRACE("product " + std::to_string(seed) + " of " +
                     std::string(nameOf(type)));
        expectWithin({{type, type, result},
                      {step.batch * step.strideA, step.batch * step.strideB,
                       step.batch * step.strideC}},
                     [&](const Operand(&given)[3]) {
                       return provider().prepare(
                           step, {given[0], given[1], given[2], {}}, 2);
                     });
      }
}

//===----------------------------------------------------------------------===//
// Negative controls
//===----------------------------------------------------------------------===//

TEST(GuardPagesDeathTest, AccessBeforeAndBehindIsSeen) {
  // Reads the byte through volatile, so that the compiler keeps the access.
  auto touch = [](std::byte *address) {
    *static_cast<volatile std::byte *>(address) = std::byte{1};
  };
  EXPECT_EXIT(
      {
        Guarded memory(4096 + 64, At::End, std::byte{0});
        touch(memory.data + memory.bytes);
      },
      testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(
      {
        Guarded memory(4096 + 64, At::Start, std::byte{0});
        touch(memory.data - 1);
      },
      testing::KilledBySignal(SIGSEGV), "");
}

TEST(GuardPages, WritesWithinAPageAreSeen) {
  for (At at : {At::Start, At::End}) {
    Guarded memory(100, at, std::byte{0});
    EXPECT_TRUE(memory.isIntact());
    memory.data[memory.bytes] = std::byte{1};
    EXPECT_FALSE(memory.isIntact());
  }
}

} // namespace
