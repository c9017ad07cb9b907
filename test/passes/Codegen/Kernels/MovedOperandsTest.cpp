// Tests products that read operands through movement ops, and store results
// through one, against float64 sums over the right elements.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

namespace mpc::test::moved_operands {
namespace {

class MovedOperands : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, MovedOperands,
                         testing::ValuesIn(runnableTargets()));

using Shape = std::vector<int64_t>;

size_t count(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), size_t(1),
                         std::multiplies<>());
}

/// One movement op: its name, attributes and result shape.
struct Move {
  std::string op, attributes;
  Shape shape;
};

/// A tensor in memory, and the ops that move it. In the last result, the first
/// element is at `offset`, and neighbours along axis i are strides[i] apart.
struct Moved {
  Shape source;
  std::vector<Move> moves;
  int64_t offset;
  Shape strides;

  const Shape &shape() const {
    return moves.empty() ? source : moves.back().shape;
  }
  /// Element (row, column) of the matrix `index` of a batch.
  size_t at(const Shape &index, int64_t row, int64_t column) const {
    size_t rank = strides.size();
    size_t place =
        offset + row * strides[rank - 2] + column * strides[rank - 1];
    size_t missing = index.size() - (rank - 2);
    for (size_t axis = 0; axis + 2 < rank; ++axis)
      if (shape()[axis] != 1)
        place += index[missing + axis] * strides[axis];
    return place;
  }
};

struct Product {
  Moved lhs, rhs;
  bool transA, transB;
  Shape result;
  /// The permutation of axes with which the result is stored; empty for none.
  std::vector<int64_t> perm = {};
};

std::string tensor(const Shape &shape, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t extent : shape)
    text += std::to_string(extent) + "x";
  return text + type + ">";
}

std::string list(const Shape &values) {
  std::string text = "array<i64";
  for (size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? ": " : ", ") + std::to_string(values[i]);
  return text + ">";
}

/// The ops that move `operand`, with values named after `name`. Sets `name` to
/// the last value.
std::string moveText(const Moved &operand, const std::string &type,
                     std::string &name) {
  std::string text;
  Shape from = operand.source;
  for (const Move &move : operand.moves) {
    text += name + "m = mpc." + move.op + " " + name + " {" + move.attributes +
            "} : (" + tensor(from, type) + ") -> " + tensor(move.shape, type) +
            "\n";
    from = move.shape;
    name += "m";
  }
  return text;
}

Shape permute(const Shape &shape, const std::vector<int64_t> &perm) {
  Shape moved;
  for (int64_t axis : perm)
    moved.push_back(shape[axis]);
  return perm.empty() ? shape : moved;
}

/// relu(a b + bias), stored as `perm` says.
std::string textOf(const Product &product, const std::string &type,
                   const std::string &sumType) {
  std::string a = "%a", b = "%b";
  std::string y = tensor(product.result, sumType);
  std::string bias = tensor({product.result.back()}, sumType);
  std::string stored = tensor(permute(product.result, product.perm), sumType);
  std::string body = moveText(product.lhs, type, a);
  body += moveText(product.rhs, type, b);
  auto flag = [](bool value) { return value ? "true" : "false"; };
  body += "%p = mpc.matmul " + a + ", " + b +
          " {transA = " + flag(product.transA) +
          ", transB = " + flag(product.transB) + "} : (" +
          tensor(product.lhs.shape(), type) + ", " +
          tensor(product.rhs.shape(), type) + ") -> " + y + "\n";
  body += "%s = mpc.add %p, %c : (" + y + ", " + bias + ") -> " + y + "\n";
  body += "%r = mpc.relu %s : (" + y + ") -> " + y + "\n";
  std::string result = "%r";
  if (!product.perm.empty()) {
    body += "%t = mpc.transpose %r {perm = " + list(product.perm) + "} : (" +
            y + ") -> " + stored + "\n";
    result = "%t";
  }
  return "func.func private @kernel(%a: " + tensor(product.lhs.source, type) +
         ", %b: " + tensor(product.rhs.source, type) + ", %c: " + bias +
         ") -> " + stored +
         " attributes {mpc.kernel = #mpc.kernel<contraction>} {\n" + body +
         "return " + result + " : " + stored + "\n}";
}

/// Values that bf16 represents, stored as a float type.
template <typename T>
std::vector<T> inMemory(const std::vector<float> &values) {
  return std::vector<T>(values.begin(), values.end());
}
template <>
std::vector<uint16_t> inMemory(const std::vector<float> &values) {
  std::vector<uint16_t> bits;
  for (float value : values)
    bits.push_back(toBF16(value));
  return bits;
}

/// The indices of element `number` of a tensor.
Shape indicesOf(size_t number, const Shape &shape) {
  Shape indices(shape.size());
  for (size_t axis = shape.size(); axis-- > 0; number /= shape[axis])
    indices[axis] = number % shape[axis];
  return indices;
}

/// Runs `product` and compares every element. The bound is half a unit of the
/// sum's type per addition.
template <typename T, typename Sum>
void expectProduct(const Product &product, const std::string &type,
                   const std::string &target) {
  std::string text = textOf(product, type, sizeof(Sum) == 8 ? "f64" : "f32");
  CompiledKernel kernel(text, target);
  ASSERT_EQ(kernel.getError(), "") << text;
  std::vector<float> a = randomFloats(count(product.lhs.source), -1, 1);
  std::vector<float> b = randomFloats(count(product.rhs.source), -1, 1);
  for (std::vector<float> *values : {&a, &b})
    for (float &value : *values)
      value = fromBF16(toBF16(value));
  std::vector<Sum> bias = inMemory<Sum>(randomFloats(product.result.back()));
  std::vector<Sum> y(count(product.result));
  std::vector<T> left = inMemory<T>(a), right = inMemory<T>(b);
  kernel.launch({left.data(), right.data(), bias.data(), y.data()});

  Shape stored = permute(product.result, product.perm);
  size_t rank = stored.size();
  const Shape &lhs = product.lhs.shape();
  int64_t depth = lhs[lhs.size() - (product.transA ? 2 : 1)];
  for (size_t i = 0; i < y.size(); ++i) {
    // The element's indices in the product.
    Shape place = indicesOf(i, stored), index = place;
    for (size_t axis = 0; axis < product.perm.size(); ++axis)
      index[product.perm[axis]] = place[axis];
    int64_t row = index[rank - 2], column = index[rank - 1];
    Shape batch(index.begin(), index.end() - 2);
    double sum = bias[column], magnitude = std::abs(sum);
    for (int64_t k = 0; k < depth; ++k) {
      double term = double(a[product.transA ? product.lhs.at(batch, k, row)
                                            : product.lhs.at(batch, row, k)]) *
                    b[product.transB ? product.rhs.at(batch, column, k)
                                     : product.rhs.at(batch, k, column)];
      sum += term;
      magnitude += std::abs(term);
    }
    double unit = std::numeric_limits<Sum>::epsilon() / 2;
    ASSERT_NEAR(y[i], std::max(sum, 0.0), magnitude * unit * (depth + 2))
        << text << " element " << i;
  }
}

void expectProduct(const Product &product, const std::string &target) {
  expectProduct<uint16_t, float>(product, "bf16", target);
  expectProduct<float, float>(product, "f32", target);
  expectProduct<double, double>(product, "f64", target);
}

/// A dense tensor that no op moves.
Moved dense(const Shape &shape) {
  Shape strides(shape.size(), 1);
  for (size_t axis = shape.size() - 1; axis-- > 0;)
    strides[axis] = strides[axis + 1] * shape[axis + 1];
  return {shape, {}, 0, strides};
}

// Heads of queries, and one head of keys that all of them share.
TEST_P(MovedOperands, ReadsHeads) {
  Moved queries{
      {2, 72, 3, 64},
      {{"transpose", "perm = array<i64: 0, 2, 1, 3>", {2, 3, 72, 64}}},
      0,
      {72 * 192, 64, 192, 1}};
  Moved keys{{2, 80, 1, 64},
             {{"transpose", "perm = array<i64: 0, 2, 1, 3>", {2, 1, 80, 64}},
              {"expand", "", {2, 3, 80, 64}}},
             0,
             {80 * 64, 0, 64, 1}};
  expectProduct({queries, keys, false, true, {2, 3, 72, 80}}, GetParam());
  // The gradient of keys multiplies along the queries.
  Moved grads = dense({2, 3, 72, 80});
  expectProduct({grads, queries, true, false, {2, 3, 80, 64}}, GetParam());
}

// Queries, keys and values are columns of one matrix, and so are the heads of
// each.
TEST_P(MovedOperands, ReadsPartsOfRows) {
  auto part = [](int64_t first) {
    return Moved{
        {2, 72, 192},
        {{"slice",
          "offsets = " + list({0, 0, first}) +
              ", sizes = array<i64: 2, 72, 64>",
          {2, 72, 64}},
         {"reshape", "", {2, 72, 2, 32}},
         {"transpose", "perm = array<i64: 0, 2, 1, 3>", {2, 2, 72, 32}}},
        first,
        {72 * 192, 32, 192, 1}};
  };
  expectProduct({part(64), part(128), false, true, {2, 2, 72, 72}}, GetParam());
  expectProduct(
      {dense({2, 2, 80, 72}), part(128), false, false, {2, 2, 80, 32}},
      GetParam());
}

// Rows begin at odd elements: no Tensor Core kernel copies them.
TEST_P(MovedOperands, ReadsRowsThatAreNotAligned) {
  Moved part{{72, 67},
             {{"slice",
               "offsets = array<i64: 0, 3>, sizes = array<i64: 72, 64>",
               {72, 64}}},
             3,
             {67, 1}};
  expectProduct({part, dense({64, 80}), false, false, {72, 80}}, GetParam());
  expectProduct({dense({80, 72}), part, false, false, {80, 64}}, GetParam());
}

// Samples that share weights are rows of one matrix if they are evenly spaced.
// They are not if the token axis precedes the sample axis.
TEST_P(MovedOperands, JoinsRowsThatAreEvenlyApart) {
  Moved tokens{{72, 2, 64},
               {{"transpose", "perm = array<i64: 1, 0, 2>", {2, 72, 64}}},
               0,
               {64, 128, 1}};
  expectProduct({tokens, dense({64, 80}), false, false, {2, 72, 80}},
                GetParam());
  Moved parts{{144, 96},
              {{"slice",
                "offsets = array<i64: 0, 32>, sizes = array<i64: 144, 64>",
                {144, 64}},
               {"reshape", "", {2, 72, 64}}},
              32,
              {72 * 96, 96, 1}};
  expectProduct({parts, dense({64, 80}), false, false, {2, 72, 80}},
                GetParam());
  // One row per sample.
  Moved rows{{2, 5, 64},
             {{"slice",
               "offsets = array<i64: 0, 3, 0>, sizes = array<i64: 2, 1, 64>",
               {2, 1, 64}}},
             3 * 64,
             {5 * 64, 64, 1}};
  expectProduct({rows, dense({64, 80}), false, false, {2, 1, 80}}, GetParam());
}

// Either a column is contiguous in memory, or neither rows nor columns are.
TEST_P(MovedOperands, ReadsColumns) {
  Moved turned{{80, 64},
               {{"transpose", "perm = array<i64: 1, 0>", {64, 80}}},
               0,
               {1, 64}};
  expectProduct({dense({72, 64}), turned, false, false, {72, 80}}, GetParam());
  Moved apart{{64, 80, 3},
              {{"slice",
                "offsets = array<i64: 0, 0, 1>, sizes = array<i64: 64, 80, 1>",
                {64, 80, 1}},
               {"reshape", "", {64, 80}}},
              1,
              {240, 3}};
  expectProduct({dense({72, 64}), apart, false, false, {72, 80}}, GetParam());
}

// Small products are sums of rows, not blocks. Heads are stored side by side.
TEST_P(MovedOperands, StoresHeadsSideBySide) {
  for (int64_t rows : {7, 72}) {
    Moved scores = dense({2, 3, rows, 80});
    Moved values{
        {2, 80, 3, 64},
        {{"transpose", "perm = array<i64: 0, 2, 1, 3>", {2, 3, 80, 64}}},
        0,
        {80 * 192, 64, 192, 1}};
    expectProduct(
        {scores, values, false, false, {2, 3, rows, 64}, {0, 2, 1, 3}},
        GetParam());
  }
}

} // namespace
} // namespace mpc::test::moved_operands
