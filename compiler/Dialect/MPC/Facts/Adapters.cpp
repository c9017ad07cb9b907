// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/Adapters.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;

void mpc::setAdapter(VariableOp a, VariableOp b, const Adapter &adapter) {
  Builder builder(a.getContext());
  auto text = [&](StringRef key, StringRef value) {
    return builder.getNamedAttr(key, builder.getStringAttr(value));
  };
  a->setAttr(
      kAdapterAttr,
      builder.getDictionaryAttr(
          {text("module", adapter.module), text("weight", adapter.weight),
           text("b", adapter.b),
           builder.getNamedAttr("rank",
                                builder.getI64IntegerAttr(adapter.rank)),
           builder.getNamedAttr("alpha",
                                builder.getF64FloatAttr(adapter.alpha)),
           builder.getNamedAttr("scale",
                                builder.getF64FloatAttr(adapter.scale)),
           builder.getNamedAttr("inputs_first",
                                builder.getBoolAttr(adapter.inputsFirst))}));
  b->setAttr(kAdapterAttr, builder.getUnitAttr());
}

bool mpc::isAdapter(VariableOp variable) {
  return variable->hasAttr(kAdapterAttr);
}

SmallVector<Adapter> mpc::listAdapters(ModuleOp module) {
  SmallVector<Adapter> adapters;
  for (auto variable : module.getOps<VariableOp>()) {
    auto facts = variable->getAttrOfType<DictionaryAttr>(kAdapterAttr);
    if (!facts)
      continue;
    Adapter adapter;
    adapter.module = facts.getAs<StringAttr>("module").str();
    adapter.weight = facts.getAs<StringAttr>("weight").str();
    adapter.a = variable.getSymName().str();
    adapter.b = facts.getAs<StringAttr>("b").str();
    adapter.rank = facts.getAs<IntegerAttr>("rank").getInt();
    adapter.alpha = facts.getAs<FloatAttr>("alpha").getValueAsDouble();
    adapter.scale = facts.getAs<FloatAttr>("scale").getValueAsDouble();
    adapter.inputsFirst = facts.getAs<BoolAttr>("inputs_first").getValue();
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}
