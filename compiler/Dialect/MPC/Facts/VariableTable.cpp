// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

VariableTable::VariableTable(ModuleOp module) : symbols(module) {
  for (auto variable : module.getOps<VariableOp>())
    last = variable;
}

VariableOp VariableTable::declare(StringRef name, Type type, Role role,
                                  std::optional<double> fill) {
  Operation *module = symbols.getOp();
  auto builder = OpBuilder::atBlockBegin(&module->getRegion(0).front());
  if (last)
    builder.setInsertionPointAfter(last);
  last = VariableOp::create(builder, NameLoc::get(builder.getStringAttr(name)),
                            builder.getStringAttr(name), TypeAttr::get(type),
                            RoleAttr::get(module->getContext(), role),
                            /*init=*/ElementsAttr(),
                            fill ? builder.getF64FloatAttr(*fill) : FloatAttr(),
                            /*sym_visibility=*/StringAttr());
  symbols.insert(last);
  return last;
}
