// Tests graphs of the emulated cuDNN against their definition, and the graphs
// that it refuses.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Graph.h"

#include "gtest/gtest.h"

using namespace mpc::emulator;

namespace {

GraphTensor tensor(int64_t id, std::vector<int64_t> dims, bool isVirtual,
                   cudnnDataType_t type = CUDNN_DATA_FLOAT) {
  GraphTensor result;
  result.id = id;
  result.strides.assign(dims.size(), 1);
  for (size_t axis = dims.size(); axis-- > 1;)
    result.strides[axis - 1] = result.strides[axis] * dims[axis];
  result.dims = std::move(dims);
  result.isVirtual = isVirtual;
  result.type = type;
  result.alignment = 4;
  return result;
}

GraphOperation operation(GraphOperation::Kind kind, int mode,
                         std::vector<GraphTensor> operands,
                         GraphTensor result) {
  GraphOperation op;
  op.kind = kind;
  op.mode = mode;
  op.operands = std::move(operands);
  op.result = std::move(result);
  return op;
}

/// y = 2 * a b, with two heads of a for one of b.
OperationGraph product() {
  GraphTensor two = tensor(4, {1, 1, 1, 1}, false);
  two.isByValue = true;
  const GraphTensor p = tensor(5, {1, 2, 2, 2}, true);
  return {
      {operation(
           GraphOperation::MatMul, 0,
           {tensor(1, {1, 2, 2, 3}, false), tensor(2, {1, 1, 3, 2}, false)}, p),
       operation(GraphOperation::Pointwise, CUDNN_POINTWISE_MUL, {p, two},
                 tensor(3, {1, 2, 2, 2}, false))}};
}

TEST(Graph, MultipliesHeadsThatShareAnOperand) {
  std::vector<float> a = {1, 2, 3, 4, 5, 6, -1, 0, 1, 2, 2, 2};
  std::vector<float> b = {1, 2, 3, 4, 5, 6}, y(8);
  float two = 2;
  ASSERT_EQ(findFault(product()), "");
  execute(product(), {{1, a.data()}, {2, b.data()}, {3, y.data()}, {4, &two}},
          true);
  EXPECT_EQ(y, (std::vector<float>{44, 56, 98, 128, 8, 8, 36, 48}));
}

TEST(Graph, RoundsToTheTypeOfEachTensor) {
  const GraphTensor x = tensor(1, {1, 1, 1, 2}, false);
  const GraphTensor low = tensor(3, {1, 1, 1, 2}, true, CUDNN_DATA_BFLOAT16);
  OperationGraph graph{
      {operation(GraphOperation::Pointwise, CUDNN_POINTWISE_ADD, {x, x}, low),
       operation(GraphOperation::Pointwise, CUDNN_POINTWISE_ADD, {low, low},
                 tensor(2, {1, 1, 1, 2}, false))}};
  ASSERT_EQ(findFault(graph), "");
  std::vector<float> in = {1 + 0x1p-12F, 3}, out(2);
  execute(graph, {{1, in.data()}, {2, out.data()}}, true);
  EXPECT_EQ(out, (std::vector<float>{4, 12}));
}

TEST(Graph, ShowsTransposedElements) {
  const GraphTensor x = tensor(1, {1, 1, 2, 3}, false);
  GraphTensor transposed = tensor(2, {1, 1, 3, 2}, false);
  const GraphTensor between = [&] {
    GraphTensor t = transposed;
    t.id = 3;
    t.isVirtual = true;
    t.strides = {6, 6, 1, 3};
    return t;
  }();
  OperationGraph graph{
      {operation(GraphOperation::Reshape, 0, {x}, between),
       operation(GraphOperation::Pointwise, CUDNN_POINTWISE_ADD,
                 {between, between}, transposed)}};
  ASSERT_EQ(findFault(graph), "");
  std::vector<float> in = {1, 2, 3, 4, 5, 6}, out(6);
  execute(graph, {{1, in.data()}, {2, out.data()}}, true);
  EXPECT_EQ(out, (std::vector<float>{2, 8, 4, 10, 6, 12}));
}

TEST(Graph, CombinesNeighbours) {
  OperationGraph graph{{operation(
      GraphOperation::Reduction, CUDNN_REDUCE_TENSOR_ADD,
      {tensor(1, {1, 4, 1, 2}, false)}, tensor(2, {1, 2, 1, 2}, false))}};
  ASSERT_EQ(findFault(graph), "");
  std::vector<float> in = {1, 2, 3, 4, 5, 6, 7, 8}, out(4);
  execute(graph, {{1, in.data()}, {2, out.data()}}, true);
  EXPECT_EQ(out, (std::vector<float>{4, 6, 12, 14}));
}

/// Negative control of the tests that compare the bits of two runs.
TEST(Graph, AddsUpInAnotherOrderEachTimeIfNotOrdered) {
  std::vector<float> a = {1, 0x1p-24F, 0x1p-24F, 1, 0x1p-24F, 0x1p-24F,
                          1, 0x1p-24F, 0x1p-24F, 1, 0x1p-24F, 0x1p-24F};
  std::vector<float> b(6, 1), first(8), second(8);
  float two = 2;
  for (bool isOrdered : {true, false}) {
    for (std::vector<float> *y : {&first, &second})
      execute(product(),
              {{1, a.data()}, {2, b.data()}, {3, y->data()}, {4, &two}},
              isOrdered);
    EXPECT_EQ(first == second, isOrdered);
  }
}

TEST(Graph, SaysWhatDoesNotFit) {
  auto refusal = [](auto change) {
    OperationGraph graph = product();
    change(graph.operations);
    return findFault(graph);
  };
  using Operations = std::vector<GraphOperation>;
  EXPECT_EQ(refusal([](Operations &) {}), "");
  EXPECT_EQ(refusal([](Operations &o) { o[0].operands[1].dims[2] = 4; }),
            "the extents of a product do not match");
  EXPECT_EQ(refusal([](Operations &o) { o[1].mode = 102; }),
            "elementwise mode 102 is not emulated");
  EXPECT_EQ(refusal([](Operations &o) { o[1].operands.pop_back(); }),
            "an elementwise operation has a wrong number of operands");
  EXPECT_EQ(refusal([](Operations &o) { std::swap(o[0], o[1]); }),
            "a virtual tensor is read before it is written");
  EXPECT_EQ(refusal([](Operations &o) { o[1].result.id = 1; }),
            "two tensors have the number 1");
  EXPECT_EQ(refusal([](Operations &o) { o[1].result.id = 5; }),
            "two tensors have the number 5");
}

} // namespace
