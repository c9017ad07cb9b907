// Gives every kernel the signature of runtime/ABI.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelPartition.h"
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

/// What unwinders, profilers and debuggers of the runtime's process rely on.
static void setCodeAttributes(LLVM::LLVMFuncOp function) {
  MLIRContext *context = function.getContext();
  function.setFramePointerAttr(LLVM::FramePointerKindAttr::get(
      context, LLVM::framePointerKind::FramePointerKind::All));
  function.setNoUnwindAttr(UnitAttr::get(context));
}

static void addEntry(LLVM::LLVMFuncOp body) {
  // From here on the function is LLVM's.
  body->removeAttr(kKernelAttr);
  std::string name = body.getName().str();
  body.setName(name + ".body");
  body.setLinkage(LLVM::Linkage::Internal);
  body.setAlwaysInlineAttr(UnitAttr::get(body.getContext()));

  OpBuilder builder(body);
  builder.setInsertionPointAfter(body);
  auto pointer = LLVM::LLVMPointerType::get(body.getContext());
  SmallVector<Type> inputs = {pointer};
  int32_t bufferCount = 0;
  for (Type type : body.getArgumentTypes()) {
    if (isa<LLVM::LLVMPointerType>(type))
      ++bufferCount;
    else
      inputs.push_back(type);
  }
  auto entry = LLVM::LLVMFuncOp::create(
      builder, body.getLoc(), name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(body.getContext()),
                                  inputs));
  setCodeAttributes(body);
  setCodeAttributes(entry);

  Block *block = entry.addEntryBlock(builder);
  auto b = ImplicitLocOpBuilder::atBlockEnd(body.getLoc(), block);
  SmallVector<Value> operands;
  for (int32_t i = 0; i < bufferCount; ++i) {
    Value slot = LLVM::GEPOp::create(b, pointer, pointer, block->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{i});
    operands.push_back(LLVM::LoadOp::create(b, pointer, slot));
  }
  llvm::append_range(operands, block->getArguments().drop_front());
  LLVM::CallOp::create(b, body, operands);
  LLVM::ReturnOp::create(b, ValueRange());
}

void AddKernelEntriesPass::runOnOperation() {
  for (LLVM::LLVMFuncOp function :
       llvm::to_vector(getOperation().getOps<LLVM::LLVMFuncOp>()))
    if (function->hasAttr(kKernelAttr))
      addEntry(function);
}
