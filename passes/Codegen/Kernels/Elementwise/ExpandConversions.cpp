// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Elementwise/ExpandConversions.h"

#include "passes/Codegen/Kernels/Loops/Lanes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// Arithmetic on the bits of f32, in as many lanes as `like` has.
class FloatBits {
public:
  FloatBits(Location loc, PatternRewriter &rewriter, Value like)
      : b(loc, rewriter), l(b, b.getF32Type()), like(like) {}

  Value word(int64_t value) {
    return l.broadcast(l.integer(b.getI32Type(), value), like);
  }
  Value add(Value x, int64_t y) { return l.addInt(x, word(y)); }
  Value add(Value x, Value y) { return l.addInt(x, y); }
  Value both(Value x, int64_t mask) {
    return arith::AndIOp::create(b, x, word(mask));
  }
  Value either(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value either(Value x, int64_t y) { return either(x, word(y)); }
  Value exclusive(Value x, Value y) { return l.xorInt(x, y); }
  Value left(Value x, int64_t by) {
    return arith::ShLIOp::create(b, x, word(by));
  }
  Value right(Value x, int64_t by) {
    return arith::ShRUIOp::create(b, x, word(by));
  }
  /// Compare a word that is not negative with a limit. Signed comparisons
  /// suffice, and SSE2 has no others.
  Value above(Value x, int64_t limit) {
    return l.compare(arith::CmpIPredicate::sgt, x, word(limit));
  }
  Value below(Value x, int64_t limit) {
    return l.compare(arith::CmpIPredicate::slt, x, word(limit));
  }
  /// Returns `x` if `condition` is true, otherwise zero.
  Value when(Value condition, Value x) { return select(condition, x, word(0)); }
  Value select(Value condition, Value x, Value y) {
    return l.select(condition, x, y);
  }

  Value bitsOf(Value f32) { return bitcast(f32, b.getI32Type()); }
  Value floatOf(Value word) { return bitcast(word, b.getF32Type()); }
  Value fromHalf(Value half) {
    return arith::ExtUIOp::create(b, Lanes::typeLike(b.getI32Type(), like),
                                  bitcast(half, b.getI16Type()));
  }
  Value toHalf(Value word, Type type) {
    Value half =
        arith::TruncIOp::create(b, Lanes::typeLike(b.getI16Type(), like), word);
    return bitcast(half, getElementTypeOrSelf(type));
  }

  ImplicitLocOpBuilder b;
  Lanes l;

private:
  Value bitcast(Value value, Type element) {
    return arith::BitcastOp::create(b, Lanes::typeLike(element, like), value);
  }
  Value like;
};
} // namespace

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

/// Rounds f32 to bf16, to nearest with ties to even. Adds just under half of
/// the last kept bit (exactly half if that bit is 1), then truncates.
static Value narrowToBF16(FloatBits &f, Value x) {
  Value bits = f.bitsOf(x);
  Value last = f.both(f.right(bits, 16), 1);
  Value rounded = f.add(f.add(bits, 0x7fff), last);
  // The addition could carry a NaN over to zero, so set the quiet bit instead
  // of rounding.
  Value isNaN = f.l.compare(arith::CmpFPredicate::UNO, x, x);
  return f.right(f.select(isNaN, f.either(bits, 0x400000), rounded), 16);
}

static Value widenBF16(FloatBits &f, Value half) { return f.left(half, 16); }

//===----------------------------------------------------------------------===//
// f16
//===----------------------------------------------------------------------===//

static constexpr int64_t exponent(int64_t value) { return value << 23; }

static Value narrowToF16(FloatBits &f, Value x) {
  Value bits = f.bitsOf(x);
  Value magnitude = f.both(bits, 0x7fffffff);
  Value sign = f.right(f.exclusive(bits, magnitude), 16);
  // A normal result: exponents of f32 are 112 larger than exponents of f16.
  // Rounding may carry from the mantissa into the exponent, and from the
  // largest exponent to infinity.
  Value last = f.both(f.right(magnitude, 13), 1);
  Value rounded = f.add(f.add(magnitude, 0xfff - exponent(112)), last);
  Value normal = f.right(rounded, 13);
  // A subnormal result: the last bit of an f32 from 0.5 to 1 is 2^-24, as is
  // the last bit of a subnormal f16. Adding 0.5 thus rounds to that bit.
  Value sum = f.l.add(f.floatOf(magnitude), f.l.constant(0.5));
  Value subnormal = f.add(f.bitsOf(sum), -exponent(126));
  // A special result: infinity stays infinity. A NaN keeps the part of its
  // payload that fits, and becomes quiet.
  Value payload = f.either(f.both(f.right(magnitude, 13), 0x3ff), 0x200);
  Value isNaN = f.above(magnitude, exponent(255));
  Value special = f.either(f.when(isNaN, payload), 0x7c00);

  Value result =
      f.select(f.above(magnitude, exponent(113) - 1), normal, subnormal);
  // From 65520 on, half way between the largest f16 and the next power of two,
  // the result is infinity.
  result = f.select(f.above(magnitude, 0x477fefff), special, result);
  return f.either(sign, result);
}

// Widens f16 to f32. One sum covers all cases, with terms that are zero unless
// needed, since SSE2 takes three operations per selection.
static Value widenF16(FloatBits &f, Value half) {
  Value magnitude = f.left(f.both(half, 0x7fff), 13);
  Value sign = f.left(f.both(half, 0x8000), 16);
  Value isSpecial = f.above(magnitude, 0x7bff << 13);
  Value isSubnormal = f.below(magnitude, 0x400 << 13);
  // Exponents of f32 are 112 larger than exponents of f16; exponents of
  // infinity and NaN are 224 larger. A subnormal is read as if it had the
  // implicit bit of normal numbers, and this bit is subtracted afterwards.
  Value rebiased = f.add(magnitude, exponent(112));
  rebiased = f.add(rebiased, f.when(isSpecial, f.word(exponent(112))));
  rebiased = f.add(rebiased, f.when(isSubnormal, f.word(exponent(1))));
  Value surplus = f.when(isSubnormal, f.word(exponent(113)));
  Value result = f.l.sub(f.floatOf(rebiased), f.floatOf(surplus));
  return f.either(sign, f.bitsOf(result));
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

static bool isNarrow(Value value, bool bf16) {
  Type type = getElementTypeOrSelf(value.getType());
  return bf16 ? type.isBF16() : type.isF16();
}

namespace {
/// Expands a conversion from f32 to a 16-bit float type.
struct ExpandNarrowing : OpRewritePattern<arith::TruncFOp> {
  ExpandNarrowing(MLIRContext *context, bool bf16)
      : OpRewritePattern(context), bf16(bf16) {}

  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isNarrow(op.getOut(), bf16) ||
        !getElementTypeOrSelf(op.getIn().getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not from f32 to the type");
    FloatBits f(op.getLoc(), rewriter, op.getIn());
    Value word =
        bf16 ? narrowToBF16(f, op.getIn()) : narrowToF16(f, op.getIn());
    rewriter.replaceOp(op, f.toHalf(word, op.getType()));
    return success();
  }

  bool bf16;
};

/// Expands a conversion from a 16-bit float type to f32, or by way of f32 to
/// f64, which is exact.
struct ExpandWidening : OpRewritePattern<arith::ExtFOp> {
  ExpandWidening(MLIRContext *context, bool bf16)
      : OpRewritePattern(context), bf16(bf16) {}

  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override {
    if (!isNarrow(op.getIn(), bf16))
      return rewriter.notifyMatchFailure(op, "not from the type");
    FloatBits f(op.getLoc(), rewriter, op.getIn());
    Value half = f.fromHalf(op.getIn());
    Value wide = f.floatOf(bf16 ? widenBF16(f, half) : widenF16(f, half));
    if (wide.getType() != op.getType())
      wide = arith::ExtFOp::create(f.b, op.getType(), wide);
    rewriter.replaceOp(op, wide);
    return success();
  }

  bool bf16;
};

/// Expands a conversion from an integer to a 16-bit float type, by way of f32.
template <typename OpT>
struct ExpandFromInteger : OpRewritePattern<OpT> {
  ExpandFromInteger(MLIRContext *context, bool bf16)
      : OpRewritePattern<OpT>(context), bf16(bf16) {}

  LogicalResult matchAndRewrite(OpT op,
                                PatternRewriter &rewriter) const override {
    if (!isNarrow(op.getOut(), bf16))
      return rewriter.notifyMatchFailure(op, "not to the type");
    Type f32 = Lanes::typeLike(rewriter.getF32Type(), op.getOut());
    Value wide = OpT::create(rewriter, op.getLoc(), f32, op.getIn());
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, op.getType(), wide);
    return success();
  }

  bool bf16;
};

/// Expands a fused multiply-add to a product and a sum, which round twice. Only
/// polynomials use math.fma here, and their error bounds allow this. A call of
/// libm's fma per lane would cost more than the whole polynomial.
struct ExpandFMA : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(math::FmaOp op,
                                PatternRewriter &rewriter) const override {
    Value product =
        arith::MulFOp::create(rewriter, op.getLoc(), op.getA(), op.getB());
    rewriter.replaceOpWithNewOp<arith::AddFOp>(op, product, op.getC());
    return success();
  }
};
} // namespace

void codegen::populateExpandConversionPatterns(RewritePatternSet &patterns,
                                               const TargetInfo &info) {
  MLIRContext *context = patterns.getContext();
  auto expand = [&](bool bf16) {
    patterns.add<ExpandNarrowing, ExpandWidening,
                 ExpandFromInteger<arith::SIToFPOp>,
                 ExpandFromInteger<arith::UIToFPOp>>(context, bf16);
  };
  if (!info.hasNativeBF16Conversion())
    expand(/*bf16=*/true);
  if (!info.hasNativeF16Conversion())
    expand(/*bf16=*/false);
  if (!info.hasNativeFMA())
    patterns.add<ExpandFMA>(context);
}
