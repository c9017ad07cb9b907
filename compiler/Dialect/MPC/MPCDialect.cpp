// Registration of the mpc dialect and the checks on its attributes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "compiler/Dialect/MPC/FilterLayout.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;

#include "compiler/Dialect/MPC/MPCDialect.cpp.inc"

void MPCDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
}

Operation *MPCDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

static LogicalResult verifyFilterLayout(Operation *op, Attribute value) {
  if (!isa<ConvOp, ConvInputGradOp, ConvWeightGradOp>(op))
    return op->emitOpError("has no filter for mpc.filter_layout");
  auto layout = dyn_cast<StringAttr>(value);
  if (!layout ||
      !llvm::is_contained({StringRef("OIHW"), StringRef(kInputChannelsLast)},
                          layout.getValue()))
    return op->emitOpError("expected mpc.filter_layout to be \"OIHW\" or "
                           "\"OHWI\", found ")
           << value;
  return success();
}

LogicalResult MPCDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attr) {
  if (attr.getName() == kFilterLayoutAttr)
    return verifyFilterLayout(op, attr.getValue());
  if (attr.getName() != kPhaseAttr)
    return success();
  auto phase = dyn_cast<StringAttr>(attr.getValue());
  bool known =
      phase && llvm::StringSwitch<bool>(phase.getValue())
                   .Cases({"forward", "loss", "backward", "optimizer"}, true)
                   .Default(false);
  if (!known)
    return op->emitOpError("expected mpc.phase to be \"forward\", \"loss\", "
                           "\"backward\" or \"optimizer\"");
  return success();
}

// The variable `@name` of the module `op` stands in, checked against `type`.
static LogicalResult verifyStateReference(Operation *op, Attribute reference,
                                          Type type) {
  auto name = dyn_cast<FlatSymbolRefAttr>(reference);
  if (!name)
    return op->emitError("expected the name of an mpc.variable, found ")
           << reference;
  auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(op, name);
  if (!variable)
    return op->emitError("no mpc.variable ") << name;
  if (variable.getType() != type)
    return op->emitError("expected type ")
           << variable.getType() << " of variable " << name << ", found "
           << type;
  return success();
}

LogicalResult MPCDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                   unsigned index,
                                                   NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attr.getName() != kStateAttr)
    return success();
  return verifyStateReference(op, attr.getValue(),
                              function.getArgumentTypes()[index]);
}

LogicalResult MPCDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                      unsigned index,
                                                      NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function || attr.getName() != kUpdatesAttr)
    return success();
  return verifyStateReference(op, attr.getValue(),
                              function.getResultTypes()[index]);
}

StringRef mpc::getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().getValue();
  return {};
}
