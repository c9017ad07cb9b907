// Gives every kernel the signature that the runtime calls (runtime/ABI.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelHero.h"
#include "passes/Codegen/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_ADDKERNELENTRIESPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class AddKernelEntriesPass
    : public mpc::impl::AddKernelEntriesPassBase<AddKernelEntriesPass> {
public:
  void runOnOperation() override;
};
} // namespace

/// Sets the attributes that unwinders, profilers and debuggers rely on.
static void setCodeAttributes(LLVM::LLVMFuncOp function) {
  MLIRContext *context = function.getContext();
  function.setFramePointerAttr(LLVM::FramePointerKindAttr::get(
      context, LLVM::framePointerKind::FramePointerKind::All));
  function.setNoUnwindAttr(UnitAttr::get(context));
}

static bool isPointer(Type type) { return isa<LLVM::LLVMPointerType>(type); }

static void addEntry(LLVM::LLVMFuncOp body) {
  bool isPerTile = KernelHero::get(*getKernelKind(body)).isCalledPerTile();
  // Remove mpc's attribute, which LLVM does not know.
  body->removeAttr(kKernelAttr);
  std::string name = body.getName().str();
  body.setName(name + ".body");
  body.setLinkage(LLVM::Linkage::Internal);
  body.setAlwaysInlineAttr(UnitAttr::get(body.getContext()));

  OpBuilder builder(body);
  builder.setInsertionPointAfter(body);
  auto pointer = LLVM::LLVMPointerType::get(body.getContext());
  // Arguments: buffers, bounds, then scratch memory if the kernel needs any.
  ArrayRef<Type> types = body.getArgumentTypes();
  int32_t bufferCount = llvm::find_if_not(types, isPointer) - types.begin();
  ArrayRef<Type> bounds =
      types.drop_front(bufferCount).take_while([](Type type) {
        return !isPointer(type);
      });
  SmallVector<Type> inputs = {pointer};
  llvm::append_range(inputs, bounds);
  if (!isPerTile)
    inputs.push_back(pointer);
  auto entry = LLVM::LLVMFuncOp::create(
      builder, body.getLoc(), name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(body.getContext()),
                                  inputs));
  setCodeAttributes(body);
  setCodeAttributes(entry);

  // The entry loads the address of each buffer from the array that the runtime
  // passes, then calls the body.
  Block *block = entry.addEntryBlock(builder);
  auto b = ImplicitLocOpBuilder::atBlockEnd(body.getLoc(), block);
  SmallVector<Value> operands;
  for (int32_t i = 0; i < bufferCount; ++i) {
    Value slot = LLVM::GEPOp::create(b, pointer, pointer, block->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{i});
    operands.push_back(LLVM::LoadOp::create(b, pointer, slot));
  }
  // Pass bounds and scratch memory on unchanged.
  llvm::append_range(operands, block->getArguments().drop_front().take_front(
                                   types.size() - bufferCount));
  LLVM::CallOp::create(b, body, operands);
  LLVM::ReturnOp::create(b, ValueRange());
}

void AddKernelEntriesPass::runOnOperation() {
  for (LLVM::LLVMFuncOp function :
       llvm::to_vector(getOperation().getOps<LLVM::LLVMFuncOp>()))
    if (function->hasAttr(kKernelAttr))
      addEntry(function);
  // The module now consists of LLVM ops. Remove mpc's attribute, which LLVM
  // does not know.
  getOperation()->removeAttr(kTargetAttr);
}
