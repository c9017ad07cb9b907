// Converts the kernels of a GPU from vector, memref and arith ops to the LLVM
// dialect. Indices become 32-bit words unless a buffer has too many elements,
// since a GPU divides and multiplies 32-bit words many times faster.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/Transforms/LoweringPatterns.h"
#include "mlir/Dialect/Vector/Transforms/VectorRewritePatterns.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace mpc {
#define GEN_PASS_DEF_CONVERTTONVVMPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class ConvertToNVVMPass
    : public mpc::impl::ConvertToNVVMPassBase<ConvertToNVVMPass> {
public:
  void getDependentDialects(DialectRegistry &registry) const override {
    ConvertToNVVMPassBase::getDependentDialects(registry);
    registerNVVMDialect(registry);
  }
  void runOnOperation() override;

private:
  LogicalResult simplify();
  LogicalResult convert();
  void markKernels();
  unsigned getIndexBits();
};
} // namespace

namespace {
/// Lowers a cast from a memref to a pointer. Emitters insert such casts for
/// instructions that take a pointer, such as cp.async.
class TakeAddress : public ConvertOpToLLVMPattern<UnrealizedConversionCastOp> {
public:
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  static bool matches(UnrealizedConversionCastOp op) {
    return op->getNumOperands() == 1 && op->getNumResults() == 1 &&
           isa<MemRefType>(op->getOperand(0).getType()) &&
           isa<LLVM::LLVMPointerType>(op->getResult(0).getType());
  }

  LogicalResult
  matchAndRewrite(UnrealizedConversionCastOp op, OpAdaptor adaptor,
                  ConversionPatternRewriter &rewriter) const override {
    if (!matches(op))
      return rewriter.notifyMatchFailure(op, "not from a buffer to an address");
    MemRefDescriptor buffer(adaptor.getInputs().front());
    rewriter.replaceOp(op, buffer.alignedPtr(rewriter, op.getLoc()));
    return success();
  }
};
} // namespace

/// Expands ops that have no conversion to LLVM (rounding divisions, strided
/// slices of vectors) into ops that have one.
LogicalResult ConvertToNVVMPass::simplify() {
  RewritePatternSet patterns(&getContext());
  arith::populateCeilFloorDivExpandOpsPatterns(patterns);
  vector::populateVectorInsertExtractStridedSliceTransforms(patterns);
  // Do not merge identical blocks. A kernel of 72 segments chooses its buffers
  // by a binary tree of branches. If the two halves of the tree were merged, 36
  // pairs of buffers would be selected first, and all would stay in registers
  // until the last branch.
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Normal);
  return applyPatternsGreedily(getOperation(), std::move(patterns), config);
}

unsigned ConvertToNVVMPass::getIndexBits() {
  int64_t elements = 0;
  for (auto function : getOperation().getOps<func::FuncOp>())
    for (Type type : function.getArgumentTypes())
      if (auto buffer = dyn_cast<MemRefType>(type))
        elements = std::max(elements, buffer.getNumElements());
  // Allow only half the range of int32_t: threads past the end of a buffer also
  // compute indices, up to one block's work beyond the end.
  return elements > std::numeric_limits<int32_t>::max() / 2 ? 64 : 32;
}

LogicalResult ConvertToNVVMPass::convert() {
  // Kernels take bare pointers instead of memref descriptors.
  LowerToLLVMOptions options(&getContext());
  options.overrideIndexBitwidth(getIndexBits());
  options.useBarePtrCallConv = true;
  LLVMTypeConverter converter(&getContext(), options);
  RewritePatternSet patterns(&getContext());
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  populateFuncToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  ub::populateUBToLLVMConversionPatterns(converter, patterns);
  patterns.add<TakeAddress>(converter);

  // Only ops of LLVM and NVVM may remain afterwards.
  LLVMConversionTarget target(getContext());
  target.addLegalDialect("nvvm");
  target.addDynamicallyLegalOp<UnrealizedConversionCastOp>(
      [](UnrealizedConversionCastOp op) { return !TakeAddress::matches(op); });
  target.addIllegalDialect<arith::ArithDialect, cf::ControlFlowDialect,
                           func::FuncDialect, math::MathDialect,
                           memref::MemRefDialect, ub::UBDialect,
                           vector::VectorDialect>();
  return applyPartialConversion(getOperation(), target, std::move(patterns));
}

void ConvertToNVVMPass::markKernels() {
  for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
    if (auto threads = function->getAttrOfType<IntegerAttr>(kThreadsAttr)) {
      markKernel(function, threads.getInt());
      function->removeAttr(kThreadsAttr);
      function->removeAttr(kKernelAttr);
    }
}

void ConvertToNVVMPass::runOnOperation() {
  if (failed(simplify()) || failed(convert()))
    return signalPassFailure();
  markKernels();
  // The module now consists of LLVM ops. Remove mpc's attribute, which LLVM
  // does not know.
  getOperation()->removeAttr(kTargetAttr);
}
