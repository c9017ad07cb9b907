// Tests bf16 products of few terms per sum.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cpu/RunContraction.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

OneDNNConfig withBF16() {
  OneDNNConfig config;
  config.nativeBF16 = hostHasAVX512() && hostHasFeature("avx512bf16");
  return config;
}

MatMulCase caseOf(int64_t columns, int64_t terms) {
  return {1601, columns, terms, DType::BF16, DType::BF16, DType::BF16};
}

std::unique_ptr<Contraction> prepare(const MatMul &matmul, const Tensor &result,
                                     EpilogueCall epilogue = {}) {
  MatMulOperands operands = operandsOf(matmul, result);
  operands.epilogue = std::move(epilogue);
  return prepareShallowMatMul(stepOf(matmul), operands, withBF16());
}

TEST(ShallowMatMul, FewTerms) {
  if (!withBF16().nativeBF16)
    GTEST_SKIP() << "the CPU multiplies no bf16";
  for (bool transB : {false, true})
    for (int64_t columns : {41, 64})
      for (int64_t terms : {1, 2, 3, 5, 8}) {
        SCOPED_TRACE(std::to_string(columns) + " columns of " +
                     std::to_string(terms) + " terms");
        MatMulCase c = caseOf(columns, terms);
        c.transB = transB;
        const MatMul matmul(c);
        const Tensor result = emptyResult(matmul);
        auto made = prepare(matmul, result);
        ASSERT_TRUE(made);
        EXPECT_EQ(*made->addresses()[0], operandOf(matmul.a).data);
        EXPECT_EQ(*made->addresses()[1], operandOf(matmul.b).data);
        EXPECT_EQ(*made->addresses()[2], operandOf(result).data);
        runAll(*made);
        expectClose(result, matmul.reference());
      }
}

TEST(ShallowMatMul, LeavesOtherProductsToTheLibrary) {
  auto isTaken = [](const MatMulCase &c, EpilogueCall epilogue = {}) {
    const MatMul matmul(c);
    return prepare(matmul, emptyResult(matmul), std::move(epilogue)) != nullptr;
  };
  EXPECT_EQ(isTaken(caseOf(64, 2)), withBF16().nativeBF16);
  EXPECT_FALSE(isTaken(caseOf(64, 9)));
  EXPECT_FALSE(isTaken(caseOf(15, 2)));
  MatMulCase c = caseOf(64, 2);
  c.c = DType::F32;
  EXPECT_FALSE(isTaken(c));
  c = caseOf(64, 2);
  c.m = 1000; // a small result
  EXPECT_FALSE(isTaken(c));
  c = caseOf(4096, 2);
  c.m = 63; // few slices
  EXPECT_FALSE(isTaken(c));
  c = caseOf(64, 2);
  c.transA = true;
  EXPECT_FALSE(isTaken(c));
  EpilogueCall epilogue;
  epilogue.function = addToBuffer;
  EXPECT_FALSE(isTaken(caseOf(64, 2), epilogue));
}

} // namespace
