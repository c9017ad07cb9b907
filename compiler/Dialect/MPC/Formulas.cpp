// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mpc::formulas;

template <typename F>
static double getSlope(double x, double a, double b) {
  return F::evaluate(Dual<double>{x, 1.0}, a, b).slope;
}

llvm::ArrayRef<Formula> mpc::formulas::getFormulas() {
  static constexpr Formula rows[] = {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  {#MNEMONIC,                                                                  \
   {ANAME, A},                                                                 \
   {BNAME, B},                                                                 \
   OP##Formula::evaluate<double>,                                              \
   getSlope<OP##Formula>},
#include "compiler/Dialect/MPC/Formulas.def"
  };
  return rows;
}

const Formula *mpc::formulas::findFormula(llvm::StringRef op) {
  for (const Formula &formula : getFormulas())
    if (formula.op == op)
      return &formula;
  return nullptr;
}

double mpc::formulas::getParameter(mlir::Operation *op,
                                   const Parameter &parameter) {
  if (parameter.name.empty())
    return parameter.byDefault;
  auto value = op->getAttrOfType<mlir::FloatAttr>(parameter.name);
  return value ? value.getValueAsDouble() : parameter.byDefault;
}
