// Tests matrix products on emulated Tensor Cores against sums in float64.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include "runtime/FloatBits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mpc::test::tensor_core {
namespace {

enum class Type { F32, F16, BF16 };

/// A tensor in a kernel's type, and its exact values.
struct Tensor {
  Tensor(std::vector<int64_t> shape, Type type) : shape(shape), type(type) {
    for (int64_t extent : shape)
      count *= extent;
    bits.resize(count * (type == Type::F32 ? 4 : 2));
  }

  static Tensor random(std::vector<int64_t> shape, Type type) {
    Tensor tensor(shape, type);
    std::vector<float> values = randomFloats(tensor.count, -1, 1);
    for (int64_t i = 0; i < tensor.count; ++i)
      tensor.set(i, values[i]);
    return tensor;
  }

  void set(int64_t i, float value) {
    if (type == Type::F32)
      reinterpret_cast<float *>(bits.data())[i] = value;
    else
      reinterpret_cast<uint16_t *>(bits.data())[i] =
          type == Type::F16 ? runtime::floatToF16(value)
                            : runtime::floatToBF16(value);
  }
  double get(int64_t i) const {
    if (type == Type::F32)
      return reinterpret_cast<const float *>(bits.data())[i];
    uint16_t half = reinterpret_cast<const uint16_t *>(bits.data())[i];
    return type == Type::F16 ? runtime::f16ToFloat(half)
                             : runtime::bf16ToFloat(half);
  }
  std::vector<double> getAll() const {
    std::vector<double> values(count);
    for (int64_t i = 0; i < count; ++i)
      values[i] = get(i);
    return values;
  }
  /// The spacing of the type at 1.
  double getEpsilon() const {
    return std::ldexp(1, type == Type::F32   ? -23
                         : type == Type::F16 ? -10
                                             : -7);
  }

  std::string getType() const {
    std::string text = "tensor<";
    for (int64_t extent : shape)
      text += std::to_string(extent) + "x";
    return text + (type == Type::F32   ? "f32>"
                   : type == Type::F16 ? "f16>"
                                       : "bf16>");
  }

  std::vector<int64_t> shape;
  Type type;
  int64_t count = 1;
  std::vector<uint8_t> bits;
};

/// A matrix product. Batches of 0 mean that an operand is a single matrix.
struct Product {
  int64_t m, n, k;
  bool transA = false, transB = false;
  Type type = Type::BF16;
  int64_t lhsBatch = 0, rhsBatch = 0;
  /// The type of the epilogue's second operand and result.
  Type epilogue = Type::BF16;
  /// True if the result overwrites that operand, like an updated weight.
  bool inPlace = false;
};

std::vector<int64_t> withBatch(int64_t batch, int64_t rows, int64_t columns) {
  if (batch == 0)
    return {rows, columns};
  return {batch, rows, columns};
}

/// y = relu(0.5 a b + bias), z = y + residual.
std::string getText(const Product &p, const Tensor &a, const Tensor &b,
                    const Tensor &bias, const Tensor &residual,
                    const Tensor &y) {
  std::string A = a.getType(), B = b.getType(), C = bias.getType(),
              R = residual.getType(), Y = y.getType();
  auto flag = [](bool value) { return value ? "true" : "false"; };
  return "func.func private @kernel(%a: " + A + ", %b: " + B + ", %c: " + C +
         ", %r: " + R + ") -> (" + Y + ", " + R +
         ") attributes {mpc.kernel = #mpc.kernel<contraction>} {\n"
         "%0 = mpc.matmul %a, %b {alpha = 0.5 : f64, transA = " +
         flag(p.transA) + ", transB = " + flag(p.transB) + "} : (" + A + ", " +
         B + ") -> " + Y + "\n%1 = mpc.add %0, %c : (" + Y + ", " + C +
         ") -> " + Y + "\n%2 = mpc.relu %1 : (" + Y + ") -> " + Y +
         "\n%3 = mpc.add %2, %r : (" + Y + ", " + R + ") -> " + R +
         "\nreturn %2, %3 : " + Y + ", " + R + "\n}";
}

/// 0.5 a b, in row-major order.
std::vector<double> multiply(const Product &p, const Tensor &a, const Tensor &b,
                             int64_t batch) {
  std::vector<double> left = a.getAll(), right = b.getAll();
  std::vector<double> result;
  for (int64_t i = 0; i < batch; ++i) {
    const double *x = &left[p.lhsBatch == 0 ? 0 : i * p.m * p.k];
    const double *y = &right[p.rhsBatch == 0 ? 0 : i * p.k * p.n];
    int64_t xRow = p.transA ? 1 : p.k, xDepth = p.transA ? p.m : 1;
    int64_t yColumn = p.transB ? p.k : 1, yDepth = p.transB ? 1 : p.n;
    for (int64_t row = 0; row < p.m; ++row)
      for (int64_t column = 0; column < p.n; ++column) {
        double sum = 0;
        for (int64_t k = 0; k < p.k; ++k)
          sum += x[row * xRow + k * xDepth] * y[column * yColumn + k * yDepth];
        result.push_back(0.5 * sum);
      }
  }
  return result;
}

/// Runs the product and checks every element. Products are below 1. Each
/// addition rounds by at most half of 2^-23 of the sum so far, and the result
/// is rounded once.
void check(const Product &p) {
  Tensor a = Tensor::random(p.transA ? withBatch(p.lhsBatch, p.k, p.m)
                                     : withBatch(p.lhsBatch, p.m, p.k),
                            p.type);
  Tensor b = Tensor::random(p.transB ? withBatch(p.rhsBatch, p.n, p.k)
                                     : withBatch(p.rhsBatch, p.k, p.n),
                            p.type);
  int64_t batch = std::max(p.lhsBatch, p.rhsBatch);
  Tensor bias = Tensor::random({p.n}, Type::F32);
  Tensor residual = Tensor::random(withBatch(batch, p.m, p.n), p.epilogue);
  Tensor y(residual.shape, Type::F32), other(residual.shape, p.epilogue);
  CompiledKernel kernel(getText(p, a, b, bias, residual, y), "sm_80");
  ASSERT_EQ(kernel.getError(), "");
  const std::vector<double> added = residual.getAll();
  Tensor &z = p.inPlace ? residual : other;
  kernel.launch({a.bits.data(), b.bits.data(), bias.bits.data(),
                 residual.bits.data(), y.bits.data(), z.bits.data()});
  double bound = std::ldexp(p.k * std::sqrt(p.k) + 4, -24);
  std::vector<double> product = multiply(p, a, b, std::max<int64_t>(1, batch));
  int64_t wrong = 0;
  for (int64_t i = 0; i < y.count; ++i) {
    double expected = std::max(0.0, product[i] + bias.get(i % p.n));
    double last = expected + added[static_cast<size_t>(i)];
    wrong += !(std::abs(y.get(i) - expected) <= bound);
    wrong += !(std::abs(z.get(i) - last) <=
               bound + z.getEpsilon() / 2 * std::abs(last));
  }
  EXPECT_EQ(wrong, 0) << p.m << " x " << p.n << " x " << p.k;
}

TEST(TensorCore, MultipliesEveryOrientationOfBothTypes) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      for (Type type : {Type::F16, Type::BF16})
        check({64, 128, 96, transA, transB, type});
}

// No dimension is a multiple of a tile.
TEST(TensorCore, StopsAtTheEdges) {
  for (bool transA : {false, true})
    for (bool transB : {false, true})
      check({136, 72, 200, transA, transB});
}

// A thread beyond an edge must not read elements that another thread may have
// written: the emulated GPU detects such races.
TEST(TensorCore, WritesOverAnOperandUpToTheEdges) {
  check({10, 40, 51, true, false, Type::BF16, 0, 0, Type::F32, true});
  check({136, 72, 40, false, false, Type::BF16, 0, 0, Type::F32, true});
  check({24, 33, 40, false, false, Type::BF16, 3, 3, Type::BF16, true});
  check({64, 128, 32, false, false, Type::F16, 0, 0, Type::F32, true});
}

TEST(TensorCore, CopiesRowsThatAreNotAligned) {
  check({32, 10, 84});
  check({50, 34, 34, false, false, Type::F16, 0, 0, Type::F32});
  check({84, 10, 32, true, false, Type::F16, 0, 0, Type::F16});
}

// There are too few columns for a vector, or an odd number of them.
TEST(TensorCore, ComputesNarrowResults) {
  check({33, 1, 64, false, true});
  check({33, 7, 16, false, true});
}

TEST(TensorCore, MultipliesBatches) {
  for (bool transA : {false, true}) {
    check({24, 40, 48, transA, false, Type::BF16, 3, 3});
    check({24, 40, 48, transA, true, Type::BF16, 3, 0});
  }
  check({24, 40, 48, false, false, Type::BF16, 0, 3});
}

// Every tile shape, with edges. The first shape has enough depth to refill all
// stages.
TEST(TensorCore, ComputesTilesOfEveryShape) {
  check({700, 700, 200, true, false});
  check({1792, 448, 40, false, false});
  check({448, 2048, 40, true, true});
  check({1528, 1144, 40, false, true});
}

} // namespace
} // namespace mpc::test::tensor_core
