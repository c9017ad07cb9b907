// Implements RangeOpInterface, which gives an op's result range by interval
// arithmetic over floats and integers. The interface also tells at which values
// a function saturates, and which operands pass closeness to a constant on to
// the result.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/OpModels.h"
#include "compiler/Interfaces/RangeOpInterface.h"

#include "llvm/Support/MathExtras.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

using FloatRange = std::optional<Bounds>;
using IntRange = std::optional<IntegerRange>;
using Floats = ArrayRef<Bounds>;

template <typename Model, typename OpT>
using RangeBase = RangeOpInterface::ExternalModel<Model, OpT>;

//===----------------------------------------------------------------------===//
// Sums, products and quotients
//===----------------------------------------------------------------------===//

static Bounds multiply(Bounds a, Bounds b) {
  double products[] = {a.low * b.low, a.low * b.high, a.high * b.low,
                       a.high * b.high};
  auto [low, high] = std::minmax_element(products, products + 4);
  return {*low, *high};
}

/// A function that adds, subtracts or multiplies two 64-bit integers into its
/// last argument. Returns nonzero on overflow.
using Arithmetic = int64_t (*)(int64_t, int64_t, int64_t &);

// Returns the range of a sum, difference or product. The extremes occur at ends
// of the operands' ranges: for [-2, 3] * [-4, 5], the extremes -12 and 15 are
// among the four products of the ends. nullopt on 64-bit overflow.
static IntRange combineEnds(FindIntegerRange operand, Arithmetic compute) {
  IntegerRange a = operand(0), b = operand(1);
  IntRange range;
  for (int64_t left : {a.low, a.high})
    for (int64_t right : {b.low, b.high}) {
      int64_t result;
      if (compute(left, right, result) != 0)
        return std::nullopt;
      range = unite(range.value_or(IntegerRange{result, result}),
                    IntegerRange{result, result});
    }
  return range;
}

namespace {
struct AddRange : RangeBase<AddRange, AddOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    return Bounds{in[0].low + in[1].low, in[0].high + in[1].high};
  }
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    return combineEnds(operand, llvm::AddOverflow<int64_t>);
  }
};

struct SubRange : RangeBase<SubRange, SubOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    return Bounds{in[0].low - in[1].high, in[0].high - in[1].low};
  }
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    return combineEnds(operand, llvm::SubOverflow<int64_t>);
  }
};

struct MulRange : RangeBase<MulRange, MulOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    return multiply(in[0], in[1]);
  }
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    return combineEnds(operand, llvm::MulOverflow<int64_t>);
  }
  // A square is close to 1 if its factor is. Any other product is close to 1 or
  // -1 only if its factors are, so return the factors that saturate at 1 or -1.
  SmallVector<Value> listHandedOn(Operation *op) const {
    auto gathersAtOne = [](Value factor) {
      FloatRange ends = mpc::getSaturation(factor);
      return ends && (ends->low == -1.0 || ends->high == 1.0);
    };
    SmallVector<Value> factors;
    for (Value factor : op->getOperands())
      if (op->getOperand(0) == op->getOperand(1) || gathersAtOne(factor))
        factors.push_back(factor);
    return factors;
  }
};

struct DivRange : RangeBase<DivRange, DivOp> {
  // If the divisor's range contains 0, assume that divisors are as large as the
  // range's ends, not close to 0.
  FloatRange inferRange(Operation *, Floats in) const {
    Bounds by = in[1];
    if (by.low > 0.0 || by.high < 0.0)
      return multiply(in[0], {1.0 / by.high, 1.0 / by.low});
    double magnitude = std::max(-by.low, by.high);
    return multiply(in[0], {-1.0 / magnitude, 1.0 / magnitude});
  }
};

struct ModRange : RangeBase<ModRange, ModOp> {
  // The result range is known only if the divisor is positive.
  IntRange inferIntegerRange(Operation *op, FindIntegerRange operand) const {
    IntegerRange divisor = operand(1);
    if (divisor.low <= 0)
      return std::nullopt;
    bool hasSign = cast<ModOp>(op).getFmod();
    IntegerRange range{hasSign ? 1 - divisor.high : 0, divisor.high - 1};
    if (hasSign && operand(0).low >= 0)
      range.low = 0;
    return range;
  }
};

struct PowRange : RangeBase<PowRange, PowOp> {
  SmallVector<Value> listHandedOn(Operation *op) const {
    return {op->getOperand(0)};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions that return their operand, perhaps negated or bounded
//===----------------------------------------------------------------------===//

namespace {
/// Base class for functions whose result is close to a constant if their single
/// operand is.
template <typename Model, typename OpT>
struct HandsOn : RangeBase<Model, OpT> {
  SmallVector<Value> listHandedOn(Operation *op) const {
    return {op->getOperand(0)};
  }
};

struct NegRange : HandsOn<NegRange, NegOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    return Bounds{-in[0].high, -in[0].low};
  }
};

struct AbsRange : HandsOn<AbsRange, AbsOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    double low = std::abs(in[0].low), high = std::abs(in[0].high);
    bool hasZero = in[0].low <= 0.0 && in[0].high >= 0.0;
    return Bounds{hasZero ? 0.0 : std::min(low, high), std::max(low, high)};
  }
};

struct ReluRange : HandsOn<ReluRange, ReluOp> {
  FloatRange inferRange(Operation *, Floats in) const {
    return Bounds{std::max(in[0].low, 0.0), std::max(in[0].high, 0.0)};
  }
};

struct ClipRange : HandsOn<ClipRange, ClipOp> {
  FloatRange inferRange(Operation *op, Floats in) const {
    auto clip = cast<ClipOp>(op);
    auto read = [](std::optional<APFloat> bound, double otherwise) {
      return bound ? bound->convertToDouble() : otherwise;
    };
    double low = read(clip.getMin(), in[0].low);
    double high = read(clip.getMax(), in[0].high);
    auto clamp = [&](double x) { return std::min(std::max(x, low), high); };
    return Bounds{clamp(in[0].low), clamp(in[0].high)};
  }
};

/// Computes the range of mpc.maximum or mpc.minimum, which are monotonic in
/// both operands.
template <typename Model, typename OpT>
struct ChoiceRange : RangeBase<Model, OpT> {
  FloatRange inferRange(Operation *, Floats in) const {
    return Bounds{Model::choose(in[0].low, in[1].low),
                  Model::choose(in[0].high, in[1].high)};
  }
  // For a in [0, 5] and b in [3, 9], the maximum is in [3, 9], and the minimum
  // in [0, 5].
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    IntegerRange a = operand(0), b = operand(1);
    return IntegerRange{Model::choose(a.low, b.low),
                        Model::choose(a.high, b.high)};
  }
  SmallVector<Value> listHandedOn(Operation *op) const {
    return SmallVector<Value>(op->getOperands());
  }
};

struct MaximumRange : ChoiceRange<MaximumRange, MaximumOp> {
  template <typename T>
  static T choose(T a, T b) {
    return std::max(a, b);
  }
};

struct MinimumRange : ChoiceRange<MinimumRange, MinimumOp> {
  template <typename T>
  static T choose(T a, T b) {
    return std::min(a, b);
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Functions that saturate at one or both ends
//===----------------------------------------------------------------------===//

static double toDouble(APFloat number) { return number.convertToDouble(); }

// Returns the distance from 0 to the negative limit of the function: 1 for an
// ELU with alpha 1.
static double getDepth(EluOp op) { return toDouble(op.getAlpha()); }
static double getDepth(CeluOp op) { return toDouble(op.getAlpha()); }
static double getDepth(SeluOp op) {
  return toDouble(op.getGamma()) * toDouble(op.getAlpha());
}

namespace {
template <typename OpT, int kLow, int kHigh>
struct Flat : RangeBase<Flat<OpT, kLow, kHigh>, OpT> {
  FloatRange getSaturation(Operation *) const { return Bounds{kLow, kHigh}; }
};

template <typename OpT>
struct FlatBelow : RangeBase<FlatBelow<OpT>, OpT> {
  FloatRange getSaturation(Operation *op) const {
    return Bounds{-getDepth(cast<OpT>(op)), INFINITY};
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Ops that keep, choose or add elements
//===----------------------------------------------------------------------===//

// Returns the range of operand 0 if its elements are integers, else nullopt.
static IntRange keepIntegers(Operation *op, FindIntegerRange operand) {
  if (!isa<IntegerType>(elementOf(op->getOperand(0))))
    return std::nullopt;
  return operand(0);
}

// Returns the range of the sum of at most `count` elements of operand 0: 4
// elements of [0, 9] give [0, 36]. nullopt on overflow.
static IntRange addUp(FindIntegerRange operand, int64_t count) {
  IntegerRange range = operand(0), sum;
  if (llvm::MulOverflow(std::min<int64_t>(range.low, 0), count, sum.low) ||
      llvm::MulOverflow(std::max<int64_t>(range.high, 0), count, sum.high))
    return std::nullopt;
  return sum;
}

namespace {
/// Computes the range for ops that move, repeat, choose or convert elements:
/// the range of operand 0. The caller ignores a range that does not fit the
/// result type.
template <typename OpT>
struct Kept : HandsOn<Kept<OpT>, OpT> {
  FloatRange inferRange(Operation *, Floats in) const { return in[0]; }
  IntRange inferIntegerRange(Operation *op, FindIntegerRange operand) const {
    return keepIntegers(op, operand);
  }
  FloatRange getSaturation(Operation *op) const {
    return mpc::getSaturation(op->getOperand(0));
  }
};

struct MeanRange : RangeBase<MeanRange, ReduceMeanOp> {
  FloatRange inferRange(Operation *, Floats in) const { return in[0]; }
};

struct PadRange : RangeBase<PadRange, PadOp> {
  // The result also contains the border value.
  FloatRange inferRange(Operation *op, Floats in) const {
    double value = cast<PadOp>(op).getValue().convertToDouble();
    return unite(in[0], {value, value});
  }
  // True if the border is a constant that a low type may be unable to
  // represent. Every float type represents 0 and infinities. Integer borders,
  // such as those of padded token IDs, do not matter.
  bool holdsConstant(Operation *op) const {
    auto pad = cast<PadOp>(op);
    return isa<FloatType>(elementOf(pad.getResult())) &&
           pad.getValue().isFiniteNonZero();
  }
};

struct ConcatRange : RangeBase<ConcatRange, ConcatOp> {
  IntRange inferIntegerRange(Operation *op, FindIntegerRange operand) const {
    IntegerRange range = operand(0);
    for (unsigned i = 1; i < op->getNumOperands(); ++i)
      range = unite(range, operand(i));
    return range;
  }
};

struct SelectRange : RangeBase<SelectRange, SelectOp> {
  // `in` has no range for the condition, which is no float.
  FloatRange inferRange(Operation *, Floats in) const {
    return unite(in[0], in[1]);
  }
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    return unite(operand(1), operand(2));
  }
  SmallVector<Value> listHandedOn(Operation *op) const {
    return SmallVector<Value>(op->getOperands().drop_front());
  }
};

/// The result of a gather also contains 0, which an out-of-range index gives.
template <typename OpT>
struct GatherRange : HandsOn<GatherRange<OpT>, OpT> {
  // `in` has no range for the indices, which are no floats.
  FloatRange inferRange(Operation *, Floats in) const {
    return unite(in[0], {0.0, 0.0});
  }
  IntRange inferIntegerRange(Operation *, FindIntegerRange operand) const {
    return unite(operand(0), {0, 0});
  }
};

struct SumRange : RangeBase<SumRange, ReduceSumOp> {
  IntRange inferIntegerRange(Operation *op, FindIntegerRange operand) const {
    int64_t results = typeOf(op->getResult(0)).getNumElements();
    int64_t elements = typeOf(op->getOperand(0)).getNumElements();
    return addUp(operand, results == 0 ? 0 : elements / results);
  }
};

struct CumSumRange : RangeBase<CumSumRange, CumSumOp> {
  IntRange inferIntegerRange(Operation *op, FindIntegerRange operand) const {
    return addUp(operand, typeOf(op->getResult(0)).getNumElements());
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Registration
//===----------------------------------------------------------------------===//

void mpc::attachRangeModels(MLIRContext &context) {
  // Ops whose result range follows by interval arithmetic.
  AddOp::attachInterface<AddRange>(context);
  SubOp::attachInterface<SubRange>(context);
  MulOp::attachInterface<MulRange>(context);
  DivOp::attachInterface<DivRange>(context);
  ModOp::attachInterface<ModRange>(context);
  PowOp::attachInterface<PowRange>(context);
  NegOp::attachInterface<NegRange>(context);
  AbsOp::attachInterface<AbsRange>(context);
  ReluOp::attachInterface<ReluRange>(context);
  ClipOp::attachInterface<ClipRange>(context);
  MaximumOp::attachInterface<MaximumRange>(context);
  MinimumOp::attachInterface<MinimumRange>(context);
  // Functions that saturate at one or two values. Sine and cosine count, since
  // they are flat near -1 and 1.
  TanhOp::attachInterface<Flat<TanhOp, -1, 1>>(context);
  ErfOp::attachInterface<Flat<ErfOp, -1, 1>>(context);
  CosOp::attachInterface<Flat<CosOp, -1, 1>>(context);
  SinOp::attachInterface<Flat<SinOp, -1, 1>>(context);
  SoftsignOp::attachInterface<Flat<SoftsignOp, -1, 1>>(context);
  SigmoidOp::attachInterface<Flat<SigmoidOp, 0, 1>>(context);
  HardSigmoidOp::attachInterface<Flat<HardSigmoidOp, 0, 1>>(context);
  SoftmaxOp::attachInterface<Flat<SoftmaxOp, 0, 1>>(context);
  EluOp::attachInterface<FlatBelow<EluOp>>(context);
  CeluOp::attachInterface<FlatBelow<CeluOp>>(context);
  SeluOp::attachInterface<FlatBelow<SeluOp>>(context);
  // Ops that keep or choose elements of their operands.
  ReshapeOp::attachInterface<Kept<ReshapeOp>>(context);
  TransposeOp::attachInterface<Kept<TransposeOp>>(context);
  ExpandOp::attachInterface<Kept<ExpandOp>>(context);
  SliceOp::attachInterface<Kept<SliceOp>>(context);
  PadOp::attachInterface<PadRange>(context);
  ConcatOp::attachInterface<ConcatRange>(context);
  SelectOp::attachInterface<SelectRange>(context);
  mpc::CastOp::attachInterface<Kept<mpc::CastOp>>(context);
  GatherOp::attachInterface<GatherRange<GatherOp>>(context);
  GatherElementsOp::attachInterface<GatherRange<GatherElementsOp>>(context);
  ReduceMaxOp::attachInterface<Kept<ReduceMaxOp>>(context);
  ReduceMeanOp::attachInterface<MeanRange>(context);
  ReduceSumOp::attachInterface<SumRange>(context);
  CumSumOp::attachInterface<CumSumRange>(context);
}
