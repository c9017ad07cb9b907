// Tests cumulative sums against sums in double.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Cumulative : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Cumulative,
                         testing::ValuesIn(runnableTargets()));

/// A tensor of outer x size x inner elements, summed along the middle axis.
struct Space {
  int64_t outer, size, inner;
};
const std::vector<Space> kSpaces = {
    {1, 300, 1}, {700, 5, 1}, {3, 40, 19}, {1, 7, 530}, {2, 1, 33}};

std::string tensor(const Space &space, const char *element) {
  return "tensor<" + std::to_string(space.outer) + "x" +
         std::to_string(space.size) + "x" + std::to_string(space.inner) + "x" +
         element + ">";
}

std::string kernelOf(const Space &space, const char *element, bool exclusive,
                     bool reverse) {
  std::string type = tensor(space, element);
  return "func.func private @kernel(%x: " + type + ") -> " + type +
         " attributes {mpc.kernel = #mpc.kernel<cumulative>} {\n%0 = "
         "mpc.cumsum %x "
         "{axis = 1 : i64, exclusive = " +
         (exclusive ? "true" : "false") +
         ", reverse = " + (reverse ? "true" : "false") + "} : (" + type +
         ") -> " + type + "\nreturn %0 : " + type + "\n}";
}

template <typename Sum, typename T>
std::vector<T> sumUp(const std::vector<T> &x, const Space &space,
                     bool exclusive, bool reverse) {
  std::vector<T> y(x.size());
  for (int64_t line = 0; line < space.outer * space.inner; ++line) {
    Sum total = 0;
    for (int64_t i = 0; i < space.size; ++i) {
      int64_t place = reverse ? space.size - 1 - i : i;
      int64_t at = (line / space.inner * space.size + place) * space.inner +
                   line % space.inner;
      Sum before = total;
      total += x[at];
      y[at] = static_cast<T>(exclusive ? before : total);
    }
  }
  return y;
}

TEST_P(Cumulative, SumsFloatsInDoubleFromEitherEnd) {
  for (const Space &space : kSpaces)
    for (bool exclusive : {false, true})
      for (bool reverse : {false, true}) {
        CompiledKernel kernel(kernelOf(space, "f32", exclusive, reverse),
                              GetParam());
        ASSERT_EQ(kernel.getError(), "");
        auto x = randomFloats(space.outer * space.size * space.inner);
        std::vector<float> y(x.size());
        kernel.launch({x.data(), y.data()});
        EXPECT_EQ(y, sumUp<double>(x, space, exclusive, reverse))
            << space.size << " " << space.inner;
      }
}

TEST_P(Cumulative, SumsIntegersInTheirType) {
  Space space = {3, 21, 2};
  CompiledKernel kernel(kernelOf(space, "i32", false, false), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<int32_t> x(3 * 21 * 2), y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<int32_t>(i * 0x10010001u);
  kernel.launch({x.data(), y.data()});
  auto bits = sumUp<uint32_t>(std::vector<uint32_t>(x.begin(), x.end()), space,
                              false, false);
  EXPECT_EQ(std::vector<uint32_t>(y.begin(), y.end()), bits);
}

} // namespace
} // namespace mpc::test
