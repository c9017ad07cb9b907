// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Target.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace mpc;

TargetInfo mpc::getTarget(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  auto target =
      module ? module->getAttrOfType<TargetAttr>(kTargetAttr) : TargetAttr();
  // TargetAttr::verify has checked the name, so TargetInfo::get cannot fail.
  return llvm::cantFail(
      TargetInfo::get(target ? target.getName() : StringRef("native")));
}

LogicalResult
TargetAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   StringRef name) {
  llvm::Expected<TargetInfo> target = TargetInfo::get(name);
  if (target)
    return success();
  return emitError() << llvm::toString(target.takeError());
}
