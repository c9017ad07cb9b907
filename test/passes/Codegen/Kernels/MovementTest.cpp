// Tests transposes, slices and joins against index arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Movement : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Movement,
                         testing::ValuesIn(runnableTargets()));

std::string tensor(const std::vector<int64_t> &shape, const char *element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

/// Transposes every element by its indices.
template <typename T>
std::vector<T> transpose(const std::vector<T> &x,
                         const std::vector<int64_t> &shape,
                         const std::vector<int64_t> &perm) {
  std::vector<T> y(x.size());
  std::vector<int64_t> index(shape.size());
  for (size_t i = 0; i < x.size(); ++i) {
    size_t rest = i;
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis])
      index[axis] = rest % shape[axis];
    size_t to = 0;
    for (int64_t axis : perm)
      to = to * shape[axis] + index[axis];
    y[to] = x[i];
  }
  return y;
}

template <typename T>
void checkTranspose(const std::string &target, const char *element,
                    const std::vector<int64_t> &shape,
                    const std::vector<int64_t> &perm) {
  std::vector<int64_t> result;
  std::string list;
  size_t count = 1;
  for (int64_t axis : perm) {
    result.push_back(shape[axis]);
    list += (list.empty() ? "" : ", ") + std::to_string(axis);
    count *= shape[axis];
  }
  std::string from = tensor(shape, element), to = tensor(result, element);
  CompiledKernel kernel(
      "func.func private @kernel(%x: " + from + ") -> " + to +
          " attributes {mpc.kernel = #mpc.kernel<movement>} {\n"
          "%0 = mpc.transpose %x {perm = array<i64: " +
          list + ">} : (" + from + ") -> " + to + "\nreturn %0 : " + to + "\n}",
      target);
  ASSERT_EQ(kernel.getError(), "");
  std::vector<T> x(count), y(count);
  for (size_t i = 0; i < count; ++i)
    x[i] = static_cast<T>(i + 1);
  kernel.launch({x.data(), y.data()});
  EXPECT_EQ(y, transpose(x, shape, perm)) << from << " by " << list;
}

TEST_P(Movement, TransposesAnyPermutation) {
  checkTranspose<float>(GetParam(), "f32", {37, 53}, {1, 0});
  checkTranspose<float>(GetParam(), "f32", {300, 8}, {1, 0});
  checkTranspose<uint16_t>(GetParam(), "bf16", {64, 96}, {1, 0});
  checkTranspose<double>(GetParam(), "f64", {9, 16}, {1, 0});
  checkTranspose<float>(GetParam(), "f32", {3, 5, 7, 11}, {0, 2, 3, 1});
  checkTranspose<float>(GetParam(), "f32", {3, 7, 11, 5}, {0, 3, 1, 2});
  checkTranspose<float>(GetParam(), "f32", {3, 5, 17}, {1, 0, 2});
  checkTranspose<float>(GetParam(), "f32", {3, 5, 17}, {2, 0, 1});
  checkTranspose<float>(GetParam(), "f32", {3, 5, 4, 6}, {2, 1, 3, 0});
  checkTranspose<int64_t>(GetParam(), "i64", {1, 9}, {1, 0});
  // Longer than a tile along one axis and short along the other.
  checkTranspose<uint16_t>(GetParam(), "bf16", {2, 3, 71, 20}, {0, 2, 3, 1});
  checkTranspose<uint16_t>(GetParam(), "bf16", {2, 300, 3, 3}, {0, 2, 3, 1});
  checkTranspose<double>(GetParam(), "f64", {200, 31}, {1, 0});
  checkTranspose<uint8_t>(GetParam(), "i1", {1, 1}, {1, 0});
}

TEST_P(Movement, SlicesABox) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4x5x37xf32>) -> tensor<2x3x33xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
      %0 = mpc.slice %x {offsets = array<i64: 1, 2, 3>, sizes = array<i64: 2, 3, 33>} : (tensor<4x5x37xf32>) -> tensor<2x3x33xf32>
      return %0 : tensor<2x3x33xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(4 * 5 * 37);
  std::vector<float> y(2 * 3 * 33);
  kernel.launch({x.data(), y.data()});
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t j = 0; j < 3; ++j)
      for (int64_t k = 0; k < 33; ++k)
        EXPECT_EQ(y[(i * 3 + j) * 33 + k],
                  x[((i + 1) * 5 + j + 2) * 37 + k + 3]);
}

TEST_P(Movement, JoinsAlongTheLastAndAMiddleAxis) {
  CompiledKernel last(R"(
    func.func private @kernel(%a: tensor<6x5xf32>, %b: tensor<6x20xf32>) -> tensor<6x25xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
      %0 = mpc.concat %b, %a {axis = 1 : i64} : (tensor<6x20xf32>, tensor<6x5xf32>) -> tensor<6x25xf32>
      return %0 : tensor<6x25xf32>
    })",
                      GetParam());
  ASSERT_EQ(last.getError(), "");
  auto a = randomFloats(30), b = randomFloats(120);
  std::vector<float> y(150);
  last.launch({a.data(), b.data(), y.data()});
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 25; ++j)
      EXPECT_EQ(y[i * 25 + j], j < 20 ? b[i * 20 + j] : a[i * 5 + j - 20]);

  CompiledKernel middle(R"(
    func.func private @kernel(%a: tensor<3x1x2x5xf32>, %b: tensor<3x4x2x5xf32>) -> tensor<3x5x2x5xf32> attributes {mpc.kernel = #mpc.kernel<movement>} {
      %0 = mpc.concat %a, %b {axis = 1 : i64} : (tensor<3x1x2x5xf32>, tensor<3x4x2x5xf32>) -> tensor<3x5x2x5xf32>
      return %0 : tensor<3x5x2x5xf32>
    })",
                        GetParam());
  ASSERT_EQ(middle.getError(), "");
  middle.launch({a.data(), b.data(), y.data()});
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t i = 0; i < 50; ++i)
      EXPECT_EQ(y[n * 50 + i], i < 10 ? a[n * 10 + i] : b[n * 40 + i - 10]);
}

TEST_P(Movement, PadsEveryAxis) {
  struct Case {
    std::vector<int64_t> size, offsets, shape;
  };
  for (const Case &c :
       {Case{{5}, {3}, {40}}, Case{{4, 3}, {0, 2}, {4, 8}},
        Case{{4, 32}, {1, 0}, {9, 32}}, Case{{2, 3, 17}, {1, 2, 5}, {4, 6, 33}},
        Case{{2, 3, 4, 8}, {0, 1, 1, 0}, {2, 5, 6, 8}},
        Case{{3, 2, 2, 5}, {2, 0, 0, 1}, {5, 2, 2, 7}}}) {
    auto list = [](const std::vector<int64_t> &values) {
      std::string text;
      for (int64_t value : values)
        text += (text.empty() ? "" : ", ") + std::to_string(value);
      return text;
    };
    std::string from = tensor(c.size, "f32"), to = tensor(c.shape, "f32");
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + from + ") -> " + to +
            " attributes {mpc.kernel = #mpc.kernel<movement>} {\n%0 = mpc.pad "
            "%x "
            "{offsets = array<i64: " +
            list(c.offsets) + ">, shape = array<i64: " + list(c.shape) +
            ">, value = -1.5 : f64} : (" + from + ") -> " + to +
            "\nreturn %0 : " + to + "\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    int64_t inputs = 1, outputs = 1;
    for (int64_t size : c.size)
      inputs *= size;
    for (int64_t size : c.shape)
      outputs *= size;
    auto x = randomFloats(inputs);
    std::vector<float> y(outputs);
    kernel.launch({x.data(), y.data()});
    for (int64_t i = 0; i < outputs; ++i) {
      int64_t rest = i, at = 0, stride = 1;
      bool inside = true;
      for (size_t axis = c.shape.size(); axis-- > 0; rest /= c.shape[axis]) {
        int64_t along = rest % c.shape[axis] - c.offsets[axis];
        inside &= along >= 0 && along < c.size[axis];
        at += along * stride;
        stride *= c.size[axis];
      }
      EXPECT_EQ(y[i], inside ? x[at] : -1.5f) << to << " " << i;
    }
  }
}

struct Strided {
  std::vector<int64_t> shape, offsets, sizes, strides;
};
const std::vector<Strided> kStrided = {
    {{40}, {3}, {9}, {4}},
    {{40}, {39}, {40}, {-1}},
    {{9, 33}, {8, 0}, {3, 33}, {-4, 1}},
    {{9, 33}, {1, 31}, {8, 11}, {1, -3}},
    {{3, 7, 5, 4}, {0, 6, 1, 0}, {3, 4, 2, 4}, {1, -2, 3, 1}},
    {{4, 6, 5}, {3, 0, 0}, {4, 6, 5}, {-1, 1, 1}},
};

std::string listOf(const std::vector<int64_t> &values) {
  std::string text;
  for (int64_t value : values)
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  return "array<i64: " + text + ">";
}

/// The position of each of the box's elements in a tensor of `shape`.
std::vector<int64_t> placesOf(const Strided &c) {
  int64_t count = 1;
  for (int64_t size : c.sizes)
    count *= size;
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (size_t axis = c.sizes.size(); axis-- > 0; rest /= c.sizes[axis]) {
      at += (c.offsets[axis] + rest % c.sizes[axis] * c.strides[axis]) * stride;
      stride *= c.shape[axis];
    }
    places.push_back(at);
  }
  return places;
}

TEST_P(Movement, SlicesWithStrides) {
  for (const Strided &c : kStrided) {
    std::string from = tensor(c.shape, "f32"), to = tensor(c.sizes, "f32");
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + from + ") -> " + to +
            " attributes {mpc.kernel = #mpc.kernel<movement>} {\n%0 = "
            "mpc.slice %x {offsets = " +
            listOf(c.offsets) + ", sizes = " + listOf(c.sizes) +
            ", strides = " + listOf(c.strides) + "} : (" + from + ") -> " + to +
            "\nreturn %0 : " + to + "\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    int64_t count = 1;
    for (int64_t size : c.shape)
      count *= size;
    std::vector<int64_t> places = placesOf(c);
    std::vector<float> x = randomFloats(count), y(places.size());
    kernel.launch({x.data(), y.data()});
    for (size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], x[places[i]]) << listOf(c.sizes) << " " << i;
  }
}

// Covers integers, whose padding is not a float.
template <typename T>
void checkStridedPad(const std::string &target, const char *element) {
  for (const Strided &c : kStrided) {
    std::string from = tensor(c.sizes, element), to = tensor(c.shape, element);
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + from + ") -> " + to +
            " attributes {mpc.kernel = #mpc.kernel<movement>} {\n%0 = mpc.pad "
            "%x {offsets = " +
            listOf(c.offsets) + ", shape = " + listOf(c.shape) +
            ", strides = " + listOf(c.strides) + ", value = -7.0 : f64} : (" +
            from + ") -> " + to + "\nreturn %0 : " + to + "\n}",
        target);
    ASSERT_EQ(kernel.getError(), "");
    int64_t count = 1;
    for (int64_t size : c.shape)
      count *= size;
    std::vector<int64_t> places = placesOf(c);
    std::vector<T> x, expected(count, T(-7)), y(count);
    for (size_t i = 0; i < places.size(); ++i) {
      x.push_back(T(i));
      expected[places[i]] = T(i);
    }
    kernel.launch({x.data(), y.data()});
    EXPECT_EQ(y, expected) << listOf(c.shape);
  }
}

TEST_P(Movement, PadsWithStrides) { checkStridedPad<float>(GetParam(), "f32"); }
TEST_P(Movement, PadsIntegers) { checkStridedPad<int64_t>(GetParam(), "i64"); }

} // namespace
} // namespace mpc::test
