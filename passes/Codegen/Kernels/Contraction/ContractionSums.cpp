// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Value ContractionSums::load(Value argument, Value offset, int64_t width) {
  Value buffer = context.getBuffer(argument);
  return lanes.convert(context.load(buffer, offset, width, /*multiple=*/1),
                       lanes.getComputeType());
}

Value ContractionSums::zeros(int64_t width) {
  Value zero = lanes.constant(0);
  if (width == 1)
    return zero;
  return vector::BroadcastOp::create(b, VectorType::get(width, zero.getType()),
                                     zero);
}

Value ContractionSums::sumLanes(Value vector) {
  return foldLanes(b, vector,
                   [&](Value x, Value y) { return lanes.add(x, y); });
}

std::unique_ptr<ContractionSums>
codegen::createContractionSums(KernelContext &context, Operation *op) {
  if (isa<MatMulOp>(op))
    return createMatMulHero(context, op);
  if (auto gemm = dyn_cast<GemmOp>(op); gemm && !gemm.getC())
    return createMatMulHero(context, op);
  if (auto conv = dyn_cast<ConvOp>(op); conv && !conv.getBias())
    return createConvolutionHero(context, op);
  if (isa<ConvInputGradOp, ConvWeightGradOp>(op))
    return createConvolutionHero(context, op);
  return nullptr;
}
