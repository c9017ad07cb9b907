// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Formulas.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mpc;
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

OpPolicy mpc::formulas::getDefaultPolicy(llvm::StringRef op) {
  static constexpr struct {
    llvm::StringLiteral op, onnx;
    PrecisionClass fp16, bf16;
    llvm::StringLiteral why;
  } rows[] = {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  {#MNEMONIC, ONNX, PrecisionClass::FP16, PrecisionClass::BF16, WHY},
#include "compiler/Dialect/MPC/Formulas.def"
  };
  const auto *row =
      llvm::find_if(rows, [&](const auto &row) { return row.op == op; });
  if (row == std::end(rows))
    llvm::report_fatal_error("mpc." + op + " has no row in Formulas.def");
  OpPolicy policy{{}, row->fp16, row->bf16, row->why};
  if (!row->onnx.empty())
    policy.onnx.push_back(row->onnx);
  return policy;
}

double mpc::formulas::getParameter(mlir::Operation *op,
                                   const Parameter &parameter) {
  if (parameter.name.empty())
    return parameter.byDefault;
  auto value = op->getAttrOfType<mlir::FloatAttr>(parameter.name);
  return value ? value.getValueAsDouble() : parameter.byDefault;
}
