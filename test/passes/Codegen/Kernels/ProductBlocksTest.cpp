// Tests products by blocks of packed operands (ProductBlocks.h) against
// float64.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include "llvm/ADT/STLExtras.h"
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace mpc::test::product_blocks {
namespace {

class ProductBlocks : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(CPUs, ProductBlocks,
                         testing::ValuesIn(runnableCPUs()));

/// Elements as stored in a float type, and as doubles.
class Elements {
public:
  Elements(std::string type, size_t count, float low = -1, float high = 1)
      : type(std::move(type)), values(count) {
    std::vector<float> floats = randomFloats(count, low, high);
    for (size_t i = 0; i < count; ++i)
      set(i, floats[i]);
  }

  void set(size_t i, float value) {
    if (type == "f64")
      return store<double>(i, value, value);
    if (type == "f32")
      return store<float>(i, value, value);
    if (type == "bf16")
      return store<uint16_t>(i, toBF16(value), fromBF16(toBF16(value)));
    auto half = static_cast<_Float16>(value);
    store<_Float16>(i, half, half);
  }
  double operator[](size_t i) const { return values[i]; }
  void *data() { return bytes.data(); }

private:
  template <typename T>
  void store(size_t i, T bits, double value) {
    bytes.resize(values.size() * sizeof(T));
    std::memcpy(bytes.data() + i * sizeof(T), &bits, sizeof(T));
    values[i] = value;
  }

  std::string type;
  std::vector<char> bytes;
  std::vector<double> values;
};

std::string tensor(llvm::ArrayRef<int64_t> shape, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

/// alpha times a product of `type`, plus a residual. Result and residual have
/// the type of the sums.
struct Product {
  std::string type;
  std::vector<int64_t> lhs, rhs, result;
  bool transA = false, transB = false;

  std::string sumType() const { return type == "f64" ? "f64" : "f32"; }

  std::string text() const {
    std::string a = tensor(lhs, type), c = tensor(rhs, type);
    std::string y = tensor(result, sumType());
    auto word = [](bool value) { return value ? "true" : "false"; };
    return "func.func private @kernel(%a: " + a + ", %b: " + c + ", %r: " + y +
           ") -> " + y +
           " attributes {mpc.kernel = #mpc.kernel<contraction>} {\n"
           "%0 = mpc.matmul %a, %b {transA = " +
           word(transA) + ", transB = " + word(transB) +
           ", alpha = 0.5 : f64} : (" + a + ", " + c + ") -> " + y +
           "\n%1 = mpc.add %0, %r : (" + y + ", " + y + ") -> " + y +
           "\nreturn %1 : " + y + "\n}";
  }

  int64_t depth() const { return lhs[lhs.size() - (transA ? 2 : 1)]; }

  /// Element (row, column) of the matrix of `operand` that belongs to matrix
  /// `index` of the result.
  double at(const Elements &operand, llvm::ArrayRef<int64_t> shape,
            int64_t index, int64_t row, int64_t column, bool turned) const {
    int64_t matrix = 0, stride = 1;
    for (int64_t axis = result.size() - 2; axis-- > 0;) {
      int64_t own = axis - (int64_t(result.size()) - int64_t(shape.size()));
      if (own >= 0) {
        matrix += shape[own] == 1 ? 0 : index % result[axis] * stride;
        stride *= shape[own];
      }
      index /= result[axis];
    }
    int64_t rows = shape[shape.size() - 2], columns = shape.back();
    return operand[(matrix * rows + (turned ? column : row)) * columns +
                   (turned ? row : column)];
  }
};

size_t count(llvm::ArrayRef<int64_t> shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t(1),
                         std::multiplies<>());
}

/// Runs `product` and compares every element. The bound is half a unit of the
/// sum's type per addition.
template <typename Sum>
void expectProduct(const Product &product, const std::string &target) {
  CompiledKernel kernel(product.text(), target);
  ASSERT_EQ(kernel.getError(), "") << product.text();
  ASSERT_GT(kernel.getPartition().scratch, 0) << "it does not go by blocks";
  Elements a(product.type, count(product.lhs));
  Elements c(product.type, count(product.rhs));
  std::vector<float> residual = randomFloats(count(product.result));
  std::vector<Sum> before(residual.begin(), residual.end());
  std::vector<Sum> y(before.size()), again = before;
  kernel.launch({a.data(), c.data(), before.data(), y.data()});
  // The result may share the residual's buffer, and slices may run in any
  // order.
  kernel.launch({a.data(), c.data(), again.data(), again.data()},
                /*backwards=*/true);
  EXPECT_EQ(std::memcmp(y.data(), again.data(), y.size() * sizeof(Sum)), 0);

  int64_t columns = product.result.back();
  int64_t rows = product.result[product.result.size() - 2];
  for (size_t i = 0; i < y.size(); ++i) {
    int64_t column = i % columns, row = i / columns % rows;
    int64_t index = i / (columns * rows);
    double sum = 0, magnitude = std::abs(before[i]);
    for (int64_t k = 0; k < product.depth(); ++k) {
      double term =
          product.at(a, product.lhs, index, row, k, product.transA) *
          product.at(c, product.rhs, index, k, column, product.transB);
      sum += term;
      magnitude += std::abs(term);
    }
    double unit = std::numeric_limits<Sum>::epsilon() / 2;
    ASSERT_NEAR(y[i], 0.5 * sum + before[i],
                magnitude * unit * (product.depth() + 2))
        << product.text() << " element " << i;
  }
}

void expectProduct(const Product &product, const std::string &target) {
  if (product.type == "f64")
    expectProduct<double>(product, target);
  else
    expectProduct<float>(product, target);
}

// No dimension is a multiple of a panel or a block.
TEST_P(ProductBlocks, MultiplyEveryTypeInEveryOrientation) {
  for (std::string type : {"f32", "bf16", "f16", "f64"})
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        Product product{type, {133, 299}, {299, 79}, {133, 79}, transA, transB};
        if (transA)
          std::swap(product.lhs[0], product.lhs[1]);
        if (transB)
          std::swap(product.rhs[0], product.rhs[1]);
        expectProduct(product, GetParam());
      }
}

// Whole blocks and panels, and several tiles in both directions.
TEST_P(ProductBlocks, MultiplyWholeTiles) {
  expectProduct({"f32", {384, 512}, {512, 256}, {384, 256}}, GetParam());
}

TEST_P(ProductBlocks, TakeTheSmallestSides) {
  expectProduct({"f32", {64, 32}, {32, 64}, {64, 64}}, GetParam());
  expectProduct({"bf16", {32, 65}, {67, 32}, {65, 67}, true, true}, GetParam());
}

// Batches that share the right operand are rows of one product, unless the left
// operand is transposed.
TEST_P(ProductBlocks, MultiplyBatches) {
  expectProduct({"f32", {3, 70, 40}, {40, 66}, {3, 70, 66}}, GetParam());
  expectProduct({"f32", {3, 40, 70}, {40, 66}, {3, 70, 66}, true}, GetParam());
  expectProduct({"f32", {3, 70, 40}, {3, 66, 40}, {3, 70, 66}, false, true},
                GetParam());
  expectProduct({"f64", {70, 40}, {3, 40, 66}, {3, 70, 66}}, GetParam());
}

TEST_P(ProductBlocks, BroadcastBatches) {
  expectProduct({"f32", {2, 1, 70, 40}, {3, 40, 66}, {2, 3, 70, 66}},
                GetParam());
}

// Heads are side by side, as the next product reads them.
TEST_P(ProductBlocks, StoreInAnotherOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%a: tensor<3x70x40xf32>, %b: tensor<3x40x66xf32>) -> tensor<70x3x66xf32>
        attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %0 = mpc.matmul %a, %b : (tensor<3x70x40xf32>, tensor<3x40x66xf32>) -> tensor<3x70x66xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<3x70x66xf32>) -> tensor<70x3x66xf32>
      return %1 : tensor<70x3x66xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  ASSERT_GT(kernel.getPartition().scratch, 0) << "it does not go by blocks";
  auto a = randomFloats(3 * 70 * 40), c = randomFloats(3 * 40 * 66);
  std::vector<float> y(3 * 70 * 66);
  kernel.launch({a.data(), c.data(), y.data()});
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t i = 0; i < 70; ++i)
      for (int64_t j = 0; j < 66; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < 40; ++k)
          sum += double(a[(n * 70 + i) * 40 + k]) * c[(n * 40 + k) * 66 + j];
        EXPECT_NEAR(y[(i * 3 + n) * 66 + j], sum, 160 * 42 * 0x1p-24);
      }
}

// Padding in packed operands is zero and is never stored: NaN and infinities
// stay in their row and column.
TEST_P(ProductBlocks, KeepNaNInItsRowAndColumn) {
  Product product{"f32", {67, 64}, {64, 69}, {67, 69}};
  CompiledKernel kernel(product.text(), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  Elements a("f32", 67 * 64), c("f32", 64 * 69);
  a.set(66 * 64 + 5, std::numeric_limits<float>::quiet_NaN());
  c.set(7 * 69 + 68, std::numeric_limits<float>::infinity());
  std::vector<float> residual(67 * 69), y(67 * 69);
  kernel.launch({a.data(), c.data(), residual.data(), y.data()});
  for (size_t row = 0; row < 67; ++row)
    for (size_t column = 0; column < 69; ++column)
      EXPECT_EQ(std::isfinite(y[row * 69 + column]), row != 66 && column != 68)
          << row << " " << column;
}

// The blocks along the depth are summed separately. A single chain of additions
// of 2^16 tenths would be off by 0.1 %.
TEST_P(ProductBlocks, SumBlocksApart) {
  constexpr int64_t K = 1 << 16;
  Product product{"f32", {64, K}, {K, 64}, {64, 64}};
  CompiledKernel kernel(product.text(), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> a(64 * K, 1), c(64 * K, 0.1f), y(64 * 64), zero(64 * 64);
  kernel.launch({a.data(), c.data(), zero.data(), y.data()});
  double exact = 0.5 * K * double(0.1f);
  EXPECT_NEAR(y[0], exact, exact * 2e-5);
  EXPECT_NEAR(y.back(), exact, exact * 2e-5);
}

} // namespace
} // namespace mpc::test::product_blocks
