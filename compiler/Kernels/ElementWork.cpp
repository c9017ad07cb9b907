// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ElementWork.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Formulas.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpc;

/// The work of a division or a square root. On Zen 4, a division of vectors of
/// floats takes as long as 6 additions in registers, and as 2.3 additions if
/// operands and results are in the first cache. A square root takes as long as
/// 10 and 4 additions.
static constexpr int64_t kDivision = 4;
/// The work of exp, tanh and similar functions: a polynomial of about ten
/// terms, plus range reduction and special cases.
static constexpr int64_t kFunction = 12;
/// The work of a function computed by a libm call per element, such as sin, or
/// by a replacement if there is no libm.
static constexpr int64_t kCall = 64;

//===----------------------------------------------------------------------===//
// Formulas
//===----------------------------------------------------------------------===//

namespace {
/// A number type that counts the operations of a formula evaluated on it.
struct Counted {
  int64_t *work;

  Counted add(int64_t more) const {
    *work += more;
    return *this;
  }
};

Counted operator-(Counted x) { return x.add(1); }

#define MPC_OPERATOR(SIGN, WORK)                                               \
  Counted operator SIGN(Counted x, Counted) { return x.add(WORK); }            \
  [[maybe_unused]] Counted operator SIGN(Counted x, double) {                  \
    return x.add(WORK);                                                        \
  }                                                                            \
  [[maybe_unused]] Counted operator SIGN(double, Counted x) {                  \
    return x.add(WORK);                                                        \
  }
MPC_OPERATOR(+, 1)
MPC_OPERATOR(-, 1)
MPC_OPERATOR(*, 1)
MPC_OPERATOR(/, kDivision)
#undef MPC_OPERATOR

Counted operator<(Counted x, double) { return x.add(1); }
Counted operator<=(Counted x, double) { return x.add(1); }
Counted where(Counted condition, Counted, Counted) { return condition.add(1); }
Counted where(Counted condition, double, Counted) { return condition.add(1); }
Counted exp(Counted x) { return x.add(kFunction); }
Counted log1p(Counted x) { return x.add(kFunction); }
Counted tanh(Counted x) { return x.add(kFunction); }
Counted erf(Counted x) { return x.add(kFunction); }
/// The normal distribution's cumulative function takes a polynomial and an
/// exponential.
Counted normalCDF(Counted x) { return x.add(2 * kFunction); }
Counted sqrt(Counted x) { return x.add(kDivision); }
Counted sin(Counted x) { return x.add(kCall); }
Counted cos(Counted x) { return x.add(kCall); }
Counted tan(Counted x) { return x.add(kCall); }
Counted asin(Counted x) { return x.add(kCall); }
Counted acos(Counted x) { return x.add(kCall); }
Counted atan(Counted x) { return x.add(kCall); }
Counted sinh(Counted x) { return x.add(kCall); }
Counted cosh(Counted x) { return x.add(kCall); }
Counted asinh(Counted x) { return x.add(kCall); }
Counted acosh(Counted x) { return x.add(kCall); }
Counted atanh(Counted x) { return x.add(kCall); }
Counted floor(Counted x) { return x.add(1); }
Counted ceil(Counted x) { return x.add(1); }
Counted roundeven(Counted x) { return x.add(1); }
Counted abs(Counted x) { return x.add(1); }
Counted max(Counted x, double) { return x.add(1); }
Counted min(Counted x, double) { return x.add(1); }

/// The work of each formula in Formulas.def (`values`) and of the formula's
/// derivative (`slopes`), by the op's mnemonic.
struct FormulaWork {
  llvm::StringMap<int64_t> values, slopes;

  FormulaWork() {
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  count<formulas::OP##Formula>(#MNEMONIC);
#include "compiler/Dialect/MPC/Formulas.def"
  }

private:
  template <typename F>
  void count(StringRef op) {
    Counted value{&values[op]}, slope{&slopes[op]};
    F::evaluate(value, 1, 1);
    F::evaluate(formulas::Dual<Counted>{slope, slope}, 1, 1);
  }
};
} // namespace

static std::optional<int64_t> lookup(const llvm::StringMap<int64_t> &work,
                                     StringRef name) {
  auto entry = work.find(name);
  return entry == work.end() ? std::nullopt : std::optional(entry->second);
}

//===----------------------------------------------------------------------===//
// Others
//===----------------------------------------------------------------------===//

template <typename... Ops>
static void add(llvm::StringMap<int64_t> &table, int64_t work) {
  ((table[Ops::getOperationName()] = work), ...);
}

static llvm::StringMap<int64_t> makeTable() {
  llvm::StringMap<int64_t> table;
  add<AddOp, SubOp, MulOp, NegOp, AbsOp, SignOp, MaximumOp, MinimumOp, ReluOp,
      ReluGradOp, ClipOp, ClipGradOp, SelectOp, EqualOp, LessOp, LessOrEqualOp,
      OneHotOp, ExpandOp, mpc::CastOp, BitCastOp, amp::CastOp>(table, 1);
  add<SigmoidGradOp, TanhGradOp>(table, 3);
  add<DivOp, SqrtOp, ReciprocalOp>(table, kDivision);
  add<ExpOp, LogOp, TanhOp>(table, kFunction);
  add<SigmoidOp>(table, kFunction + kDivision);
  add<PowOp, BCEOp, BCEWithLogitsOp, BCEWithLogitsGradOp>(table, 2 * kFunction);
  add<BCEGradOp>(table, kDivision + 4);
  add<FakeQuantizeOp, FakeQuantizeGradOp, FakeQuantizeScaleGradOp>(
      table, kDivision + 7);
  return table;
}

std::optional<int64_t> mpc::getElementWork(Operation *op) {
  static const FormulaWork formulas;
  static const llvm::StringMap<int64_t> others = makeTable();
  if (auto gradient = dyn_cast<FormulaGradOp>(op))
    return lookup(formulas.slopes, gradient.getOf());
  if (auto work = lookup(others, op->getName().getStringRef()))
    return work;
  return lookup(formulas.values, op->getName().stripDialect());
}
