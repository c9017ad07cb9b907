// Float arithmetic. Round-to-nearest f32 and f64 use the host's arithmetic. The
// 16-bit types compute in f32, which has enough bits that rounding sums,
// products, quotients and roots twice equals rounding once. Approximate
// instructions give the nearest value, but a device may be off by an ulp or
// two.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

#include <cmath>
#include <functional>
#include <limits>

using namespace mpc;
using namespace mpc::emulator::ptx;

#if defined(__x86_64__)
#define MPC_FMA_CLONES __attribute__((target_clones("fma", "default")))
#else
#define MPC_FMA_CLONES
#endif

namespace {

/// An operator, as a function object of the standard library.
template <class Object>
struct Operator {
  template <class... T>
  static auto apply(T... operands) {
    return Object()(operands...);
  }
};
using Add = Operator<std::plus<>>;
using Sub = Operator<std::minus<>>;
using Mul = Operator<std::multiplies<>>;
using Div = Operator<std::divides<>>;
using Neg = Operator<std::negate<>>;

/// A function of libm: the overloads for both types.
template <float (*F32)(float), double (*F64)(double)>
struct Function {
  static float apply(float a) { return F32(a); }
  static double apply(double a) { return F64(a); }
};
using Abs = Function<std::fabs, std::fabs>;
using Sqrt = Function<std::sqrt, std::sqrt>;
using Exp2 = Function<std::exp2, std::exp2>;
using Log2 = Function<std::log2, std::log2>;
using Sin = Function<std::sin, std::sin>;
using Cos = Function<std::cos, std::cos>;
using Tanh = Function<std::tanh, std::tanh>;

struct Min {
  template <class T>
  static T apply(T a, T b) {
    if (std::isnan(a) || std::isnan(b))
      return std::isnan(a) ? b : a;
    if (a == b)
      return std::signbit(a) ? a : b; // -0 is less than 0
    return a < b ? a : b;
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) {
    return -Min::apply(-a, -b);
  }
};
template <class Op>
struct PropagatingNaN {
  template <class T>
  static T apply(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN()
                                          : Op::apply(a, b);
  }
};
struct CopySign {
  template <class T>
  static T apply(T sign, T magnitude) {
    return std::copysign(magnitude, sign);
  }
};
struct Reciprocal {
  template <class T>
  static T apply(T a) {
    return 1 / a;
  }
};
struct ReciprocalSqrt {
  template <class T>
  static T apply(T a) {
    return static_cast<T>(1 / std::sqrt(static_cast<double>(a)));
  }
};

MPC_FMA_CLONES void fmaF32(Warp &warp, const Inst &i, uint32_t lanes) {
  float *d = warp.lanes<float>(i.slots[0]);
  const float *a = warp.lanes<float>(i.slots[1]);
  const float *b = warp.lanes<float>(i.slots[2]);
  const float *c = warp.lanes<float>(i.slots[3]);
  for (unsigned l = 0; l < kLanes; ++l)
    if (lanes >> l & 1)
      d[l] = __builtin_fmaf(a[l], b[l], c[l]);
}

MPC_FMA_CLONES void fmaF64(Warp &warp, const Inst &i, uint32_t lanes) {
  double *d = warp.lanes<double>(i.slots[0]);
  const double *a = warp.lanes<double>(i.slots[1]);
  const double *b = warp.lanes<double>(i.slots[2]);
  const double *c = warp.lanes<double>(i.slots[3]);
  for (unsigned l = 0; l < kLanes; ++l)
    if (lanes >> l & 1)
      d[l] = __builtin_fma(a[l], b[l], c[l]);
}

//===----------------------------------------------------------------------===//
// 16-bit floats: `count` of them in a register
//===----------------------------------------------------------------------===//

template <class Op, class H>
void unaryHalf(Warp &warp, const Inst &i, uint32_t lanes) {
  H *d = warp.lanes<H>(i.slots[0]);
  const H *a = warp.lanes<H>(i.slots[1]);
  forLanes(lanes, [=, n = i.count](unsigned l) {
    for (unsigned e = l * n; e < (l + 1) * n; ++e)
      d[e] = H::round(Op::apply(a[e].value()));
  });
}

template <class Op, class H>
void binaryHalf(Warp &warp, const Inst &i, uint32_t lanes) {
  H *d = warp.lanes<H>(i.slots[0]);
  const H *a = warp.lanes<H>(i.slots[1]);
  const H *b = warp.lanes<H>(i.slots[2]);
  forLanes(lanes, [=, n = i.count](unsigned l) {
    for (unsigned e = l * n; e < (l + 1) * n; ++e)
      d[e] = H::round(Op::apply(a[e].value(), b[e].value()));
  });
}

/// The product is exact in double. The sum is rounded to odd, so that rounding
/// to float (to odd as well) and then to H equals one rounding.
template <class H>
void fmaHalf(Warp &warp, const Inst &i, uint32_t lanes) {
  H *d = warp.lanes<H>(i.slots[0]);
  const H *a = warp.lanes<H>(i.slots[1]);
  const H *b = warp.lanes<H>(i.slots[2]);
  const H *c = warp.lanes<H>(i.slots[3]);
  forLanes(lanes, [=, n = i.count, relu = i.mode](unsigned l) {
    for (unsigned e = l * n; e < (l + 1) * n; ++e) {
      double product = double(a[e].value()) * double(b[e].value());
      double sum = addToOdd(product, double(c[e].value()));
      if (relu)
        sum = sum > 0 ? sum : 0;
      d[e] = H::round(runtime::doubleToFloatRoundToOdd(sum));
    }
  });
}

//===----------------------------------------------------------------------===//
// f32 with directions of rounding, flushing to zero, saturation
//===----------------------------------------------------------------------===//

struct Options {
  Rounding rounding = Rounding::Nearest;
  bool flush = false;
  bool saturate = false;

  uint16_t encode() const {
    return static_cast<uint16_t>(unsigned(rounding) | flush << 4 |
                                 saturate << 5);
  }
  static Options decode(uint16_t mode) {
    return {static_cast<Rounding>(mode & 15), (mode >> 4 & 1) != 0,
            (mode >> 5 & 1) != 0};
  }
  bool isPlain() const { return encode() == 0; }

  float operand(float a) const {
    bool tiny = flush && std::fabs(a) < std::numeric_limits<float>::min();
    return tiny ? std::copysign(0.0f, a) : a;
  }
  float result(double exactToOdd) const {
    float value = operand(roundToFloat(exactToOdd, rounding));
    if (saturate)
      value = value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
    return value;
  }
};

/// a * b + c of floats. double holds each operand, and the product too.
template <int Product, int Sum>
void withOptions(Warp &warp, const Inst &i, uint32_t lanes) {
  Options options = Options::decode(i.mode);
  float *d = warp.lanes<float>(i.slots[0]);
  const float *a = warp.lanes<float>(i.slots[1]);
  const float *b = warp.lanes<float>(i.slots[2]);
  const float *c = warp.lanes<float>(i.slots[3]);
  forLanes(lanes, [=](unsigned l) {
    double x = options.operand(a[l]), y = options.operand(b[l]);
    double value = Product && Sum ? addToOdd(x * y, options.operand(c[l]))
                   : Product      ? x * y
                   : Sum > 0      ? addToOdd(x, y)
                                  : addToOdd(x, -y);
    d[l] = options.result(value);
  });
}

/// An operation that is not exact in double: only flushing is supported.
template <class Op>
void flushedUnary(Warp &warp, const Inst &i, uint32_t lanes) {
  Options options = Options::decode(i.mode);
  float *d = warp.lanes<float>(i.slots[0]);
  const float *a = warp.lanes<float>(i.slots[1]);
  forLanes(lanes, [=](unsigned l) {
    d[l] = options.operand(Op::apply(options.operand(a[l])));
  });
}

template <class Op>
void flushedBinary(Warp &warp, const Inst &i, uint32_t lanes) {
  Options options = Options::decode(i.mode);
  float *d = warp.lanes<float>(i.slots[0]);
  const float *a = warp.lanes<float>(i.slots[1]);
  const float *b = warp.lanes<float>(i.slots[2]);
  forLanes(lanes, [=](unsigned l) {
    d[l] = options.operand(
        Op::apply(options.operand(a[l]), options.operand(b[l])));
  });
}

//===----------------------------------------------------------------------===//
// Decoding
//===----------------------------------------------------------------------===//

void finish(Decoder &d, Type type, size_t sources) {
  if (!type.isFloat() || type.kind == Type::TF32)
    d.fail("expected a float type");
  d.plain(type.bytes(), sources);
  d.inst->count = type.packed ? 2 : 1;
}

/// The handlers of an operation for each element type.
template <class Op>
struct UnaryHandlers {
  static constexpr size_t sources = 1;
  static constexpr Handler f64 = &unary<Op, double>, f32 = &unary<Op, float>,
                           flushed = &flushedUnary<Op>,
                           f16 = &unaryHalf<Op, F16>,
                           bf16 = &unaryHalf<Op, BF16>;
};
template <class Op>
struct BinaryHandlers {
  static constexpr size_t sources = 2;
  static constexpr Handler f64 = &binary<Op, double>, f32 = &binary<Op, float>,
                           flushed = &flushedBinary<Op>,
                           f16 = &binaryHalf<Op, F16>,
                           bf16 = &binaryHalf<Op, BF16>;
};

template <class Handlers>
void decodeElementwise(Decoder &d, bool flush) {
  Type type = d.takeType();
  finish(d, type, Handlers::sources);
  Options options;
  options.flush = flush;
  d.inst->mode = options.encode();
  if (type.bits == 64)
    d.inst->run = Handlers::f64;
  else if (type.bits == 32)
    d.inst->run = flush ? Handlers::flushed : Handlers::f32;
  else
    d.inst->run = type.kind == Type::BFloat ? Handlers::bf16 : Handlers::f16;
}

template <class Op>
void decodeUnary(Decoder &d, bool flush) {
  decodeElementwise<UnaryHandlers<Op>>(d, flush);
}

template <class Op>
void decodeBinary(Decoder &d, bool flush) {
  decodeElementwise<BinaryHandlers<Op>>(d, flush);
}

/// Rounding, then .ftz and .sat, of add, sub, mul and fma.
Options takeOptions(Decoder &d) {
  Options options;
  options.rounding = d.takeRounding(Rounding::Nearest);
  if (options.rounding == Rounding::NearestAway)
    d.fail("unknown modifier .rna");
  options.flush = d.take("ftz");
  options.saturate = d.take("sat");
  return options;
}

template <class Op, int Product, int Sum>
void decodeSum(Decoder &d) {
  Options options = takeOptions(d);
  if (options.isPlain())
    return decodeBinary<Op>(d, false);
  Type type = d.takeType();
  if (!type.is(Type::Float, 32))
    d.fail("only f32 has these modifiers here");
  finish(d, type, 2);
  d.inst->mode = options.encode();
  d.inst->slots[3] = d.inst->slots[2];
  d.inst->run = &withOptions<Product, Sum>;
}

void decodeFma(Decoder &d) {
  Options options = takeOptions(d);
  bool relu = d.take("relu");
  Type type = d.takeType();
  finish(d, type, 3);
  if (type.bits == 16) {
    if (!options.isPlain())
      d.fail("16-bit floats have no such modifiers here");
    d.inst->mode = relu;
    d.inst->run = type.kind == Type::BFloat ? &fmaHalf<BF16> : &fmaHalf<F16>;
    return;
  }
  if (relu || (type.bits == 64 && !options.isPlain()))
    d.fail("this type has no such modifiers here");
  d.inst->mode = options.encode();
  d.inst->run = type.bits == 64     ? &fmaF64
                : options.isPlain() ? &fmaF32
                                    : &withOptions<1, 1>;
}

template <class Op>
void decodeExtremum(Decoder &d) {
  bool flush = d.take("ftz");
  if (d.take("NaN"))
    decodeBinary<PropagatingNaN<Op>>(d, flush);
  else
    decodeBinary<Op>(d, flush);
}

/// .rn, .approx, and for a quotient .full: all give the nearest value.
template <bool IsBinary, class Op>
void decodeInexact(Decoder &d) {
  bool approximate = d.take("approx") || (IsBinary && d.take("full"));
  if (!approximate)
    d.expect("rn");
  bool flush = d.take("ftz");
  if constexpr (IsBinary)
    decodeBinary<Op>(d, flush);
  else
    decodeUnary<Op>(d, flush);
}

template <class Op>
void decodeApproximate(Decoder &d) {
  d.expect("approx");
  decodeUnary<Op>(d, d.take("ftz"));
}

template <class T>
bool hasProperty(T value, unsigned property) {
  switch (property) {
  case 0:
    return std::isfinite(value);
  case 1:
    return std::isinf(value);
  case 2:
    return !std::isnan(value);
  case 3:
    return std::isnan(value);
  case 4:
    return std::isnormal(value);
  default:
    return std::fpclassify(value) == FP_SUBNORMAL;
  }
}

template <class T>
void testProperty(Warp &warp, const Inst &i, uint32_t lanes) {
  const T *a = warp.lanes<T>(i.slots[1]);
  uint32_t result = 0;
  forLanes(lanes, [&](unsigned l) {
    result |= uint32_t(hasProperty(a[l], i.mode)) << l;
  });
  uint32_t &d = warp.predicate(i.slots[0]);
  d = (d & ~lanes) | result;
}

void decodeTestProperty(Decoder &d) {
  uint16_t property = 0;
  for (const char *name :
       {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    if (d.take(name))
      break;
    ++property;
  }
  if (property == 6)
    d.fail("unknown property");
  Type type = d.takeType();
  d.operands(2);
  d.inst->mode = property;
  d.inst->slots[0] = d.predicateDestination(d.operand(0));
  d.inst->slots[1] = d.source(d.operand(1), type.bytes());
  if (type.is(Type::Float, 32))
    d.inst->run = &testProperty<float>;
  else if (type.is(Type::Float, 64))
    d.inst->run = &testProperty<double>;
  else
    d.fail("expected f32 or f64");
}

} // namespace

void mpc::emulator::ptx::decodeFloatArithmetic(Decoder &d) {
  const std::string &op = d.opcode();
  if (op == "add")
    decodeSum<Add, 0, 1>(d);
  else if (op == "sub")
    decodeSum<Sub, 0, -1>(d);
  else if (op == "mul")
    decodeSum<Mul, 1, 0>(d);
  else if (op == "mad")
    decodeFma(d);
  else if (op == "div")
    decodeInexact<true, Div>(d);
  else if (op == "min")
    decodeExtremum<Min>(d);
  else if (op == "max")
    decodeExtremum<Max>(d);
  else if (op == "neg")
    decodeUnary<Neg>(d, d.take("ftz"));
  else if (op == "abs")
    decodeUnary<Abs>(d, d.take("ftz"));
  else
    d.fail("no such instruction for floats");
}

void mpc::emulator::ptx::addFloatInstructions(DecodeTable &table) {
  table["fma"] = decodeFma;
  table["sqrt"] = decodeInexact<false, Sqrt>;
  table["rcp"] = decodeInexact<false, Reciprocal>;
  table["rsqrt"] = decodeApproximate<ReciprocalSqrt>;
  table["ex2"] = decodeApproximate<Exp2>;
  table["lg2"] = decodeApproximate<Log2>;
  table["sin"] = decodeApproximate<Sin>;
  table["cos"] = decodeApproximate<Cos>;
  table["tanh"] = decodeApproximate<Tanh>;
  table["copysign"] = [](Decoder &d) { decodeBinary<CopySign>(d, false); };
  table["testp"] = decodeTestProperty;
}
