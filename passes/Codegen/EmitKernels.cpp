// Replaces kernel functions on tensors by loops over flat buffers.
//
// The loop nests are in Emit<Kind>.cpp, the formulas of the ops in
// EmitElementwise*.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"
#include "passes/Codegen/ElementwiseTable.h"
#include "passes/Codegen/KernelContext.h"
#include "passes/Codegen/Passes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace mpc {
#define GEN_PASS_DEF_EMITKERNELS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class EmitKernelsPass : public mpc::impl::EmitKernelsBase<EmitKernelsPass> {
public:
  using EmitKernelsBase::EmitKernelsBase;
  void runOnOperation() override;

private:
  LogicalResult emitKernel(func::FuncOp kernel, unsigned vectorBits);
};
} // namespace

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

Type codegen::getStorageType(Type elementType) {
  if (elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  return elementType;
}

Value KernelContext::getBuffer(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return buffers[argument.getArgNumber()];
  for (OpOperand &use : value.getUses())
    if (use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      return buffers[value.getParentBlock()->getNumArguments() +
                     use.getOperandNumber()];
  return nullptr;
}

FloatType KernelContext::getComputeType(Operation *op) {
  auto isF64 = [](Type type) { return getElementTypeOrSelf(type).isF64(); };
  Builder b(op->getContext());
  if (llvm::any_of(op->getOperandTypes(), isF64) ||
      llvm::any_of(op->getResultTypes(), isF64))
    return b.getF64Type();
  return b.getF32Type();
}

int64_t KernelContext::getVectorWidth() {
  bool usesF64 = llvm::any_of(kernel.getArgumentTypes(), [](Type type) {
    return getElementTypeOrSelf(type).isF64();
  });
  kernel.getBody().walk([&](Operation *op) {
    if (op->getNumResults() > 0 && getComputeType(op).isF64())
      usesF64 = true;
  });
  return vectorBits / (usesF64 ? 64 : 32);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static MemRefType flatBuffer(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get({tensor.getNumElements()},
                         getStorageType(tensor.getElementType()));
}

/// Buffers of arguments and results, then the bounds of the kind.
static FunctionType getBufferSignature(func::FuncOp kernel, KernelKind kind) {
  SmallVector<Type> inputs;
  for (Type type : kernel.getArgumentTypes())
    inputs.push_back(flatBuffer(type));
  for (Type type : kernel.getResultTypes())
    inputs.push_back(flatBuffer(type));
  inputs.append(kind == KernelKind::Epilogue ? 5 : 2,
                IndexType::get(kernel.getContext()));
  return FunctionType::get(kernel.getContext(), inputs, {});
}

/// Which ops the loop nest of a kind knows what to do with.
static bool mayHold(KernelKind kind, RegionRole role) {
  switch (role) {
  case RegionRole::Constant:
  case RegionRole::Elementwise:
  case RegionRole::View:
    return true;
  case RegionRole::Reduction:
    return kind == KernelKind::RowReduce || kind == KernelKind::ColumnReduce;
  case RegionRole::Contraction:
    return kind == KernelKind::Contraction;
  case RegionRole::Movement:
    return kind == KernelKind::Movement;
  case RegionRole::Window:
    return kind == KernelKind::Window;
  case RegionRole::Composite:
    return false;
  }
  llvm_unreachable("unknown role");
}

static LogicalResult checkOps(func::FuncOp kernel, KernelKind kind) {
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    auto role = dyn_cast<RegionOpInterface>(op);
    if (!role || !mayHold(kind, role.getRegionRole()))
      return op.emitOpError("cannot be part of a kernel of kind '")
             << stringifyKernelKind(kind) << "'";
    if (role.getRegionRole() == RegionRole::Elementwise &&
        !ElementwiseTable::get().find(&op))
      return op.emitOpError("has no formula to generate code from");
    auto constant = dyn_cast<ConstantOp>(op);
    if (constant && !constant.getValue().isSplat())
      return op.emitOpError("in a kernel must be the same value everywhere; "
                            "other constants are arguments");
  }
  return success();
}

static LogicalResult emitLoops(KernelKind kind, KernelContext &context) {
  switch (kind) {
  case KernelKind::Pointwise:
    return emitPointwise(context);
  case KernelKind::RowReduce:
    return emitRowReduce(context);
  case KernelKind::ColumnReduce:
    return emitColumnReduce(context);
  case KernelKind::Contraction:
    return emitContraction(context);
  case KernelKind::Window:
    return emitWindow(context);
  case KernelKind::Movement:
    return emitMovement(context);
  case KernelKind::Epilogue:
    return emitEpilogue(context);
  }
  llvm_unreachable("unknown kernel kind");
}

LogicalResult EmitKernelsPass::emitKernel(func::FuncOp kernel,
                                          unsigned vectorBits) {
  std::optional<KernelKind> kind = getKernelKind(kernel);
  if (!kind)
    return kernel.emitOpError("has the unknown kernel kind ")
           << kernel->getAttr(kKernelAttr);
  if (kernel.isExternal() || kernel.getNumResults() == 0)
    return kernel.emitOpError("is a kernel and must have a body and results");
  if (failed(checkOps(kernel, *kind)))
    return failure();

  OpBuilder builder(kernel);
  auto emitted =
      func::FuncOp::create(builder, kernel.getLoc(), kernel.getName(),
                           getBufferSignature(kernel, *kind));
  emitted->setAttr(kKernelAttr, kernel->getAttr(kKernelAttr));
  Block *entry = emitted.addEntryBlock();
  auto b = ImplicitLocOpBuilder::atBlockEnd(kernel.getLoc(), entry);
  unsigned bufferCount = kernel.getNumArguments() + kernel.getNumResults();
  KernelContext context{
      kernel, b,
      SmallVector<Value>(entry->getArguments().take_front(bufferCount)),
      SmallVector<Value>(entry->getArguments().drop_front(bufferCount)),
      vectorBits};
  if (failed(emitLoops(*kind, context)))
    return failure();
  b.setInsertionPointToEnd(entry);
  func::ReturnOp::create(b);
  kernel.erase();
  return success();
}

void EmitKernelsPass::runOnOperation() {
  llvm::Expected<TargetInfo> info = TargetInfo::get(target);
  if (!info) {
    getOperation().emitError(llvm::toString(info.takeError()));
    return signalPassFailure();
  }
  for (func::FuncOp kernel :
       llvm::to_vector(getOperation().getOps<func::FuncOp>()))
    if (kernel->hasAttr(kKernelAttr) &&
        failed(emitKernel(kernel, info->getVectorBits())))
      return signalPassFailure();
}
