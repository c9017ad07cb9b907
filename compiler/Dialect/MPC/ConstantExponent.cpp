// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/ConstantExponent.h"

using namespace mlir;
using namespace mpc;

std::optional<double> mpc::getConstantExponent(PowOp power) {
  auto constant = power.getRhs().getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue())
                           : DenseFPElementsAttr();
  if (!elements || !elements.isSplat())
    return std::nullopt;
  return elements.getSplatValue<APFloat>().convertToDouble();
}
