// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/ValueSource.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/NodeNames.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace mpc;

// Returns the function that has `value` as an argument; null if there is none.
static FunctionOpInterface findFunction(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument
             ? dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp())
             : FunctionOpInterface();
}

StringRef mpc::findInputName(Value value) {
  FunctionOpInterface function = findFunction(value);
  if (!function)
    return {};
  const unsigned index = cast<BlockArgument>(value).getArgNumber();
  auto name = function.getArgAttrOfType<StringAttr>(index, kInputAttr);
  auto role = function.getArgAttrOfType<RoleAttr>(index, kRoleAttr);
  return name && role && role.getValue() == Role::Data ? name.getValue()
                                                       : StringRef();
}

ValueSource mpc::findSource(Value value) {
  if (StringRef input = findInputName(value); !input.empty())
    return {"input", input.str()};
  if (Operation *op = value.getDefiningOp()) {
    std::string name = getNodeName(op).str();
    if (isa<ConstantOp>(op))
      return {"constant", std::move(name)};
    return {"value", std::move(name)};
  }
  FunctionOpInterface function = findFunction(value);
  auto state = function
                   ? function.getArgAttrOfType<FlatSymbolRefAttr>(
                         cast<BlockArgument>(value).getArgNumber(), kStateAttr)
                   : FlatSymbolRefAttr();
  if (state)
    return {"parameter", state.getValue().str()};
  return {"outer", ""};
}
