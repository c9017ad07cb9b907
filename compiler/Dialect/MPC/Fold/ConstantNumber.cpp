// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

using namespace mlir;
using namespace mpc;

std::optional<double> mpc::getConstantNumber(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto elements = constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue())
                           : DenseFPElementsAttr();
  if (!elements || !elements.isSplat())
    return std::nullopt;
  APFloat number = elements.getSplatValue<APFloat>();
  bool isInexact;
  number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &isInexact);
  return number.convertToDouble();
}
