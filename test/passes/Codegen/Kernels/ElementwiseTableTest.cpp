// Tests that each elementwise op has a formula.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"

#include <gtest/gtest.h>

namespace mpc::test {
namespace {

// True for gathers and rotary embeddings, which no formula of their operands'
// elements describes.
static bool readsElsewhere(llvm::StringRef name) {
  return name == GatherOp::getOperationName() ||
         name == GatherElementsOp::getOperationName() ||
         name == RotaryEmbeddingOp::getOperationName();
}

TEST(ElementwiseTable, HasEveryElementwiseOp) {
  mlir::MLIRContext context;
  context.loadDialect<MPCDialect, amp::AMPDialect>();
  int count = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    auto *role = name.getInterface<RegionOpInterface>();
    if (!role || role->getRegionRole() != RegionRole::Elementwise ||
        readsElsewhere(name.getStringRef()))
      continue;
    ++count;
    EXPECT_TRUE(codegen::ElementwiseTable::get().find(name.getStringRef()))
        << name.getStringRef().str();
  }
  EXPECT_GT(count, 30);
}

TEST(ElementwiseTable, HasNoOtherOp) {
  mlir::MLIRContext context;
  context.loadDialect<MPCDialect>();
  for (llvm::StringRef name :
       {"mpc.matmul", "mpc.reduce_sum", "mpc.reshape", "mpc.no_op"})
    EXPECT_FALSE(codegen::ElementwiseTable::get().find(name)) << name.str();
}

} // namespace
} // namespace mpc::test
