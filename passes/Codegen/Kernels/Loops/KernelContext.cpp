// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/KernelContext.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Type codegen::getStorageType(Type elementType) {
  if (elementType.isInteger(1))
    return IntegerType::get(elementType.getContext(), 8);
  if (auto integer = dyn_cast<IntegerType>(elementType))
    return IntegerType::get(elementType.getContext(), integer.getWidth());
  return elementType;
}

Value KernelContext::getBuffer(Value value) const {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    assert(argument.getArgNumber() < buffers.size() &&
           "an argument of the kernel");
    return buffers[argument.getArgNumber()];
  }
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
  if (target.isGPU())
    return partition.vector;
  bool usesF64 = llvm::any_of(kernel.getArgumentTypes(), [](Type type) {
    return getElementTypeOrSelf(type).isF64();
  });
  kernel.getBody().walk([&](Operation *op) {
    if (op->getNumResults() > 0 && getComputeType(op).isF64())
      usesF64 = true;
  });
  return target.getVectorBits() / (usesF64 ? 64 : 32);
}

/// Returns the alignment of a vector in memory, which a GPU needs to load the
/// vector at once; nullopt on a CPU, which loads from any address.
llvm::MaybeAlign KernelContext::getAlignment(VectorType type,
                                             int64_t multiple) const {
  if (!target.isGPU())
    return std::nullopt;
  // `multiple` is 0 if the offset is 0, which is fully aligned.
  int64_t elements =
      multiple == 0 ? type.getNumElements() : multiple & -multiple;
  int64_t bytes = std::min(elements, type.getNumElements()) *
                  type.getElementTypeBitWidth() / 8;
  return llvm::Align(std::min<int64_t>(bytes, target.getVectorBits() / 8));
}

Value KernelContext::load(Value buffer, Value offset, int64_t width,
                          int64_t multiple) {
  assert(buffer && width > 0 && "a load reads elements of a buffer");
  if (width == 1)
    return memref::LoadOp::create(b, buffer, offset);
  auto type = VectorType::get(
      width, cast<MemRefType>(buffer.getType()).getElementType());
  return vector::LoadOp::create(b, type, buffer, offset, /*nontemporal=*/false,
                                getAlignment(type, multiple));
}

void KernelContext::store(Value value, Value buffer, Value offset,
                          int64_t multiple) {
  assert(value && buffer && "a store writes a value to a buffer");
  auto type = dyn_cast<VectorType>(value.getType());
  if (!type)
    memref::StoreOp::create(b, value, buffer, offset);
  else
    vector::StoreOp::create(b, value, buffer, offset, /*nontemporal=*/false,
                            getAlignment(type, multiple));
}

Value KernelContext::createShared(int64_t elements, Type type) {
  assert(target.isGPU() && elements > 0 && "thread blocks share memory");
  auto module = kernel->getParentOfType<ModuleOp>();
  auto buffer = MemRefType::get({elements}, type, MemRefLayoutAttrInterface(),
                                b.getI64IntegerAttr(kSharedMemory));
  std::string name = (kernel.getName() + "_shared").str();
  for (unsigned number = 1; module.lookupSymbol(name); ++number)
    name = (kernel.getName() + "_shared" + Twine(number)).str();
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(buffers.front().getParentRegion()->getParentOp());
    memref::GlobalOp::create(
        b, name, b.getStringAttr("private"), buffer, b.getUnitAttr(),
        /*constant=*/false, b.getI64IntegerAttr(target.getVectorBits() / 8));
  }
  return memref::GetGlobalOp::create(b, buffer, name);
}

Value KernelContext::createScratch(int64_t offset, int64_t elements,
                                   Type type) {
  assert(scratch &&
         offset + elements * type.getIntOrFloatBitWidth() / 8 <=
             partition.scratch &&
         "a view inside the worker's scratch memory");
  return memref::ViewOp::create(b, MemRefType::get({elements}, type), scratch,
                                createIndex(b, offset), ValueRange());
}
