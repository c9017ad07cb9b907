// Imports single-tensor optimizers outside ai.onnx.preview.training: the ops of
// ONNX Runtime's older training graphs, and SGD. Compilers for small devices
// write SGD without a domain.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Defines output `index`, if present, as the change of a parameter: `updated` -
// `before`.
static LogicalResult defineChange(NodeImporter &node, unsigned index,
                                  Value updated, Value before) {
  if (!node.hasOutput(index))
    return success();
  node.setSuffix("#change");
  return node.define(index, node.emit<SubOp>({updated, before}));
}

// Imports SGDOptimizer(rate, w, g) -> w - rate * g, and the change of w.
static LogicalResult importSGDOptimizer(NodeImporter &node) {
  Value rate = node.reshape(node.operand(0), {}), w = node.operand(1);
  auto op = rate ? node.create<SGDOp>({w, node.operand(2), rate}) : SGDOp();
  if (!op || failed(node.define(0, op.getNewParam())))
    return failure();
  return defineChange(node, 1, op.getNewParam(), w);
}

// Reads the learning rate from an attribute, which has several names; nullopt
// if absent.
static std::optional<double> readRate(NodeImporter &node) {
  for (StringRef name : {"lr", "learning_rate"})
    if (node.hasAttribute(name))
      return node.real(name, 0.0);
  return std::nullopt;
}

// Imports SGD(w, g[, rate]) -> w - rate * g. Without input 2, the rate is
// attribute 'lr' or 'learning_rate'.
static LogicalResult importPlainSGD(NodeImporter &node) {
  Value w = node.operand(0), g = node.operand(1), rate;
  std::optional<double> given = readRate(node);
  if (node.hasInput(2)) {
    if (given)
      return node.invalid("expected the learning rate as input 2 or as an "
                          "attribute, found both");
    rate = node.reshape(node.operand(2), {});
  } else if (given) {
    rate =
        node.scalarConstant(*given, NodeImporter::typeOf(w).getElementType());
  } else {
    return node.invalid(
        "expected a learning rate as input 2 or attribute 'lr', found neither");
  }
  auto op =
      rate ? node.create<SGDOp>(
                 {w, g, rate}, {node.attribute("weight_decay",
                                               node.real("weight_decay", 0.0))})
           : SGDOp();
  return op ? node.define(0, op.getNewParam()) : failure();
}

namespace {
/// The positions of inputs that tell how to treat the gradients: the loss scale
/// by which they are multiplied, their norm, and a signal to update. All three
/// inputs are optional.
struct GradientInputs {
  unsigned lossScale, norm, signal;
};
} // namespace

static Value readScalar(NodeImporter &node, unsigned index) {
  return node.hasInput(index) ? node.reshape(node.operand(index), {}) : Value();
}

static bool isOne(NodeImporter &node, unsigned index) {
  std::optional<HostTensor> known = node.constant(index);
  return known && !node.isState(index) && known->isFloat() &&
         known->getNumElements() == 1 && known->getDouble(0) == 1.0;
}

// Returns the number by which to divide gradients: the loss scale, or norm /
// maxNorm if the unscaled norm exceeds maxNorm. Null if the divisor is 1.
static Value readDivisor(NodeImporter &node, const GradientInputs &inputs,
                         double maxNorm, Type element) {
  bool isScaled =
      node.hasInput(inputs.lossScale) && !isOne(node, inputs.lossScale);
  Value scale = isScaled
                    ? castTo(node, readScalar(node, inputs.lossScale), element)
                    : numberConstant(node, 1, element);
  if (!node.hasInput(inputs.norm))
    return isScaled ? scale : Value();
  Value most = numberConstant(node, maxNorm, element);
  Value norm = castTo(node, readScalar(node, inputs.norm), element);
  Value isAbove = node.emit<LessOp>({node.emit<MulOp>({scale, most}), norm});
  return node.emit<SelectOp>({isAbove, node.emit<DivOp>({norm, most}), scale});
}

// Returns the gradient in input `index`, divided by the result of
// readDivisor(). The division removes the loss scale and clips the gradient.
static Value readGradient(NodeImporter &node, unsigned index,
                          const GradientInputs &inputs, double maxNorm,
                          Type element) {
  Value gradient = node.operand(index);
  Value divisor = readDivisor(node, inputs, maxNorm, element);
  if (!divisor)
    return gradient;
  return node.emit<DivOp>({castTo(node, gradient, element), divisor});
}

// Reports an error if the node has a 16-bit copy of the parameter.
static LogicalResult refuseLowCopy(NodeImporter &node, unsigned input) {
  if (!node.hasInput(input))
    return success();
  return node.unsupported("input 'mixed_precision_weights' is not supported; "
                          "export the graph in float32 and choose its "
                          "computing precision with --precision");
}

// Defines output 0, the count of updates plus 1. If `signal` is false, the
// update is skipped and the count stays.
static LogicalResult defineCount(NodeImporter &node, Value step, Value signal) {
  if (!node.hasOutput(0))
    return success();
  auto next = node.create<IncrementOp>({step, signal});
  return next ? node.define(0, next.getOutput()) : failure();
}

// Imports AdamOptimizer(rate, t, w, g, m, v) -> t + 1, m', v', w', and the
// change of w. weight_decay_mode 0 is PyTorch's AdamW; 1 is the AdamW of
// Hugging Face's transformers.
static LogicalResult importAdamOptimizer(NodeImporter &node) {
  constexpr GradientInputs inputs = {7, 8, 9};
  if (failed(refuseLowCopy(node, 6)))
    return failure();
  int64_t mode = node.integer("weight_decay_mode", 0);
  if (mode != 0 && mode != 1)
    return node.invalid("attribute 'weight_decay_mode' is " + Twine(mode) +
                        ", expected 0 or 1");
  bool correct = node.integer("do_bias_correction", 1) != 0;
  SmallVector<NamedAttribute> attributes = {
      node.attribute("beta1", node.real("alpha", 0.9f)),
      node.attribute("beta2", node.real("beta", 0.999f)),
      node.attribute("epsilon", node.real("epsilon", 1e-8f)),
      node.attribute("weight_decay", node.real("lambda", 0.0)),
      node.attribute("decay_mode", mode == 0 ? DecayMode::Decoupled
                                             : DecayMode::DecoupledAfter),
      node.attribute("bias_correction", !correct ? BiasCorrection::None
                                        : mode == 0
                                            ? BiasCorrection::Torch
                                            : BiasCorrection::StepSize)};
  // Tools write rate and count in various shapes; reshape both to scalars.
  Value rate = node.reshape(node.operand(0), {}), w = node.operand(2);
  Value step = node.operand(1);
  Value count = node.reshape(step, {});
  Value gradient = readGradient(
      node, 3, inputs, node.real("max_norm_clip", 1.0), elementTypeOf(w));
  // After an overflow of gradients the signal is false: w, moments and count
  // are not updated.
  Value signal = readScalar(node, inputs.signal);
  if (!rate || !count || !gradient)
    return failure();
  auto op = node.create<AdamOp>(
      {w, gradient, node.operand(4), node.operand(5), rate, count, signal},
      attributes);
  if (!op)
    return failure();
  (void)node.define(1, op.getNewM());
  (void)node.define(2, op.getNewV());
  (void)node.define(3, op.getNewParam());
  if (node.hasOutput(5))
    return node.unsupported(
        "output 'new_mixed_precision_weights' is not supported; leave it out");
  node.setSuffix("#count");
  if (failed(defineCount(node, step, signal)))
    return failure();
  return defineChange(node, 4, op.getNewParam(), w);
}

//===----------------------------------------------------------------------===//
// Lamb
//===----------------------------------------------------------------------===//

namespace {
/// Imports one LambOptimizer. Inputs are update_signal, loss_scale,
/// gradient_norm, rate, step, and for each parameter a group: w, g, m, v and a
/// 16-bit copy. A parameter's step has Adam's direction and a length in
/// proportion to the parameter's norm.
class LambImporter {
public:
  explicit LambImporter(NodeImporter &node) : node(node) {}
  LogicalResult import();

private:
  static constexpr unsigned kFirst = 5, kGroup = 5;

  double readOf(StringRef name, unsigned group, double byDefault);
  Value correct(Value moment, double decay);
  Value sumSquares(Value x);
  Value findRatio(Value w, Value direction);
  Value keepUnlessSignal(Value updated, Value before);
  LogicalResult importGroup(unsigned group);

  NodeImporter &node;
  Value rate, step, signal;
};
} // namespace

// Returns element `group` of attribute `name`, a list of floats with one
// element per group of inputs; `byDefault` if the list is too short.
double LambImporter::readOf(StringRef name, unsigned group, double byDefault) {
  if (!node.hasAttribute(name))
    return byDefault;
  const auto *list = node.find(name, proto::AttributeProto::FLOATS);
  return list && static_cast<int>(group) < list->floats_size()
             ? list->floats(group)
             : byDefault;
}

// Corrects the bias of a moment: moment / (1 - decay^step). No correction at
// step 0.
Value LambImporter::correct(Value moment, double decay) {
  if (!step || node.integer("do_bias_correction", 1) == 0)
    return moment;
  Type element = elementTypeOf(moment);
  Value one = numberConstant(node, 1, element);
  Value count = castTo(node, step, element);
  Value power = node.emit<PowOp>({numberConstant(node, decay, element), count});
  Value isCounted =
      node.emit<LessOp>({numberConstant(node, 0, element), count});
  Value divisor =
      node.emit<SelectOp>({isCounted, node.emit<SubOp>({one, power}), one});
  return node.emit<DivOp>({moment, divisor});
}

Value LambImporter::sumSquares(Value x) {
  Value square = node.emit<MulOp>({x, x});
  if (!square || NodeImporter::shapeOf(square).empty())
    return square;
  auto axes = llvm::to_vector(
      llvm::seq<int64_t>(0, NodeImporter::typeOf(square).getRank()));
  return reduce<ReduceSumOp>(node, square, axes, /*keepDims=*/false);
}

// Returns the ratio |w| / |direction|, clamped to attributes ratio_min and
// ratio_max; 1 if either norm is 0.
Value LambImporter::findRatio(Value w, Value direction) {
  Value ofW = sumSquares(w), ofDirection = sumSquares(direction);
  if (!ofW || !ofDirection)
    return {};
  Type element = elementTypeOf(w);
  Value zero = numberConstant(node, 0, element);
  Value one = numberConstant(node, 1, element);
  Value isNone = node.emit<OrOp>({node.emit<EqualOp>({ofW, zero}),
                                  node.emit<EqualOp>({ofDirection, zero})});
  // If |direction| is 0, the ratio is unused, but the division by 0 would give
  // NaN.
  Value divisor = node.emit<SelectOp>({isNone, one, ofDirection});
  Value ratio = node.emit<SqrtOp>({node.emit<DivOp>({ofW, divisor})});
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  double most = node.real("ratio_max", kInfinity);
  double least = node.real("ratio_min", -kInfinity);
  if (most < kInfinity)
    ratio = node.emit<MinimumOp>({ratio, numberConstant(node, most, element)});
  if (least > -kInfinity)
    ratio = node.emit<MaximumOp>({ratio, numberConstant(node, least, element)});
  return node.emit<SelectOp>({isNone, one, ratio});
}

Value LambImporter::keepUnlessSignal(Value updated, Value before) {
  return signal ? node.emit<SelectOp>({signal, updated, before}) : updated;
}

LogicalResult LambImporter::importGroup(unsigned group) {
  unsigned first = kFirst + kGroup * group, output = 1 + kGroup * group;
  for (unsigned i = 0; i < 4; ++i)
    if (!node.hasInput(first + i))
      return node.invalid("expected weights, gradient and moments as inputs " +
                          Twine(first) + " to " + Twine(first + 3) +
                          ", found no input " + Twine(first + i));
  if (failed(refuseLowCopy(node, first + 4)))
    return failure();
  node.setSuffix(("#" + node.getInputName(first)).str());
  Value w = node.operand(first);
  Type element = elementTypeOf(w);
  auto number = [&](double value) {
    return numberConstant(node, value, element);
  };
  // Undo the loss scale, and clip the gradient.
  Value g = castTo(node,
                   readGradient(node, first + 1, {1, 2, 0},
                                readOf("max_norm_clip", group, 1.0), element),
                   element);
  Value m = node.operand(first + 2), v = node.operand(first + 3);
  auto average = [&](Value kept, double decay, Value added) {
    return node.emit<AddOp>({node.emit<MulOp>({kept, number(decay)}),
                             node.emit<MulOp>({added, number(1 - decay)})});
  };
  double alpha = readOf("alpha", group, 0.9f);
  double beta = readOf("beta", group, 0.999f);
  Value newM = average(m, alpha, g);
  Value newV = average(v, beta, node.emit<MulOp>({g, g}));
  // The direction of the step is that of Adam, plus weight decay.
  Value root = node.emit<AddOp>({node.emit<SqrtOp>({correct(newV, beta)}),
                                 number(readOf("epsilon", group, 1e-6f))});
  Value direction = node.emit<DivOp>({correct(newM, alpha), root});
  if (double decay = readOf("lambda", group, 0.0); decay != 0)
    direction =
        node.emit<AddOp>({direction, node.emit<MulOp>({w, number(decay)})});
  Value length = node.emit<MulOp>({rate, findRatio(w, direction)});
  Value newW = node.emit<SubOp>({w, node.emit<MulOp>({length, direction})});
  // A skipped update keeps the old values.
  Value results[] = {keepUnlessSignal(newW, w), Value(),
                     keepUnlessSignal(newM, m), keepUnlessSignal(newV, v)};
  for (unsigned i : {0, 2, 3})
    if (!results[i] || (node.hasOutput(output + i) &&
                        failed(node.define(output + i, results[i]))))
      return failure();
  if (node.hasOutput(output + 4))
    return node.unsupported(
        "output " + Twine(output + 4) +
        ", a copy of the parameter in 16 bits, is not supported; leave it out");
  return defineChange(node, output + 1, results[0], w);
}

LogicalResult LambImporter::import() {
  unsigned inputs = node.getNumInputs();
  if (inputs <= kFirst || !node.hasInput(3))
    return node.invalid(
        "expected a learning rate as input 3 and a parameter as input " +
        Twine(kFirst) + ", found " + Twine(inputs) + " inputs");
  rate = readScalar(node, 3), step = readScalar(node, 4);
  signal = readScalar(node, 0);
  if (!rate)
    return failure();
  rate = castTo(node, rate, elementTypeOf(node.operand(kFirst)));
  for (unsigned group = 0; kFirst + kGroup * group < inputs; ++group)
    if (failed(importGroup(group)))
      return failure();
  if (!node.hasInput(4))
    return node.hasOutput(0)
               ? node.invalid("output 0 is input 4 plus 1, but input 4, the "
                              "count of steps, is absent")
               : success();
  node.setSuffix("#count");
  return defineCount(node, node.operand(4), signal);
}

/// The most inputs in ONNX Runtime's schema: 1024 parameters. With kAnyNumber,
/// no input may be absent, but some of Lamb's may.
static constexpr unsigned kMostLambInputs = 5 + 1024 * 5;

static LogicalResult importLambOptimizer(NodeImporter &node) {
  return LambImporter(node).import();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getOptimizerOps() {
  static const OpEntry entries[] = {
      {"", "SGD", 1, kNoEnd, 2, 3, 1, importPlainSGD},
      {kMicrosoft, "AdamOptimizer", 1, kNoEnd, 6, 10, 6, importAdamOptimizer},
      {kMicrosoft, "LambOptimizer", 1, kNoEnd, 0, kMostLambInputs, kAnyNumber,
       importLambOptimizer},
      {kMicrosoft, "SGDOptimizer", 1, kNoEnd, 3, 3, 2, importSGDOptimizer},
  };
  return entries;
}
