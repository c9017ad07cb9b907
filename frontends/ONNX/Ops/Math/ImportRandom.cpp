// Imports dropout and random numbers. Equal seeds give equal numbers; each node
// and step draws different numbers.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"

#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

namespace {
/// The operands of the random generator, apart from the element's index.
struct RandomStream {
  Value seed, microStep;
  int64_t id;
};
} // namespace

// Returns the stream of random numbers called `name`, which must be unique in
// the model. The seed is that of the run unless the node has its own,
// `ownSeed`.
static FailureOr<RandomStream> openStream(NodeImporter &node, const Twine &name,
                                          std::optional<float> ownSeed) {
  FunctionImporter &function = node.getFunction();
  ModuleImporter &module = function.getModule();
  if (function.isLoop())
    return node.unsupported("a loop would draw the same random numbers in each "
                            "iteration; draw them before or behind the loop");
  RandomStream stream;
  stream.id = function.getRandomId(name.str());
  stream.seed =
      ownSeed ? integerConstant(node, {}, llvm::bit_cast<int32_t>(*ownSeed))
              : function.getState(module.getCounter(kSeedVariable));
  stream.microStep = function.getState(module.getCounter(kMicroStepVariable));
  return stream;
}

//===----------------------------------------------------------------------===//
// Dropout
//===----------------------------------------------------------------------===//

// Applies a dropout and defines output 1, the mask. The mask is never stored:
// ops of type `reader`, which alone may read output 1, recompute it. Until then
// the dropout's result stands for the mask, because their shapes are equal.
static Value dropOut(NodeImporter &node, Value value, double ratio,
                     StringRef reader) {
  if (!value)
    return {};
  auto stream = openStream(node, node.getOutputName(node.hasOutput(1) ? 1 : 0),
                           /*ownSeed=*/{});
  if (failed(stream))
    return {};
  auto op = node.create<DropoutOp>(
      {value, stream->seed, stream->microStep},
      {node.attribute("ratio", ratio), node.attribute("id", stream->id)});
  if (!op || failed(node.defineSaved(1, op.getOutput(), reader)))
    return {};
  return op.getOutput();
}

// Defines output 1, the mask, as all true, for a dropout that drops nothing.
static LogicalResult defineWholeMask(NodeImporter &node) {
  if (!node.hasOutput(1))
    return success();
  auto [kept, data] = HostTensor::allocate(
      RankedTensorType::get({}, node.attributes().getI1Type()));
  *data = 1;
  return defineSplat(node, 1, node.operandShape(0), kept);
}

// Defines output 0 as a dropout of `value`, plus `residual` unless null. Only
// ops of type `reader` may read the mask, output 1.
static LogicalResult defineDropout(NodeImporter &node, Value value,
                                   double ratio, Value residual,
                                   StringRef reader) {
  if (!value || (ratio == 0.0 && failed(defineWholeMask(node))))
    return failure();
  if (ratio != 0.0)
    value = dropOut(node, value, ratio, reader);
  if (value && residual)
    value = node.emit<AddOp>({value, residual});
  return node.define(0, value);
}

// Imports Dropout up to opset 11. The ratio is an attribute. From opset 7 on,
// such a node is meant for inference.
static LogicalResult importDropoutAttributes(NodeImporter &node) {
  double ratio = node.real("ratio", 0.5);
  bool training = node.getMode() == ImportMode::Training;
  // Before opset 7 an attribute may ask for training.
  if (node.getOpset() < 7 && node.hasAttribute("is_test"))
    training |= node.integer("is_test", 0) == 0 &&
                node.getMode() == ImportMode::AsExported;
  return defineDropout(node, node.operand(0), training ? ratio : 0.0, {},
                       "DropoutGrad");
}

// Returns the share of elements to drop; 0 unless training. Inputs
// `ratioIndex`, the share, and `modeIndex`, the training mode, are optional.
static FailureOr<double> readRatio(NodeImporter &node, unsigned ratioIndex,
                                   unsigned modeIndex) {
  node.ignore("seed"); // mpc uses the run's seed
  bool training = node.getMode() == ImportMode::Training;
  // The mode of the import decides if elements are dropped. In AsExported the
  // node decides.
  if (node.getMode() == ImportMode::AsExported && node.hasInput(modeIndex)) {
    auto mode = node.integers(modeIndex, "training_mode");
    if (failed(mode))
      return failure();
    if (mode->size() != 1)
      return node.invalid("expected one element in training_mode" +
                          node.found({modeIndex}));
    training = mode->front() != 0;
  }
  if (!node.hasInput(ratioIndex))
    return training ? 0.5 : 0.0;
  FailureOr<double> given = node.scalar(ratioIndex, "ratio");
  return failed(given) || training ? given : FailureOr<double>(0.0);
}

static LogicalResult importDropout(NodeImporter &node) {
  FailureOr<double> ratio = readRatio(node, 1, 2);
  if (failed(ratio))
    return failure();
  return defineDropout(node, node.operand(0), *ratio, {},
                       node.getOpType() == "BitmaskDropout"
                           ? "BitmaskDropoutGrad"
                           : "DropoutGrad");
}

// Imports BiasDropout: (data, bias, residual, ratio, training_mode) -> residual
// + dropout(data + bias), and the mask.
static LogicalResult importBiasDropout(NodeImporter &node) {
  FailureOr<double> ratio = readRatio(node, 3, 4);
  if (failed(ratio))
    return failure();
  Value sum = node.emit<AddOp>({node.operand(0), node.operand(1)});
  Value residual = node.hasInput(2) ? node.operand(2) : Value();
  return defineDropout(node, sum, *ratio, residual,
                       node.getOpType() == "BitmaskBiasDropout"
                           ? "BitmaskDropoutGrad"
                           : "DropoutGrad");
}

// Computes softmax(data + bias) over all axes from `axis` on, counted as one
// axis. BiasSoftmaxDropout returns the softmax as output 2 and a dropout of the
// softmax as output 0.
static LogicalResult importBiasSoftmax(NodeImporter &node) {
  // The attribute says which axes of the bias broadcast. AddOp reads that from
  // the shapes.
  node.ignore("is_inner_broadcast");
  bool drops = node.getOpType() == "BiasSoftmaxDropout";
  FailureOr<double> ratio = drops ? readRatio(node, 2, 3) : 0.0;
  Value sum = node.emit<AddOp>({node.operand(0), node.operand(1)});
  if (failed(ratio) || !sum)
    return failure();
  SmallVector<int64_t> shape(NodeImporter::shapeOf(sum));
  auto axis = node.normalizeAxis(node.integer("axis", 1), shape.size());
  if (failed(axis))
    return failure();
  // A softmax over [4, 3, 5] from axis 1 on runs along the rows of [4, 15].
  ArrayRef<int64_t> all = shape;
  Value rows =
      node.reshape(sum, {ShapedType::getNumElements(all.take_front(*axis)),
                         ShapedType::getNumElements(all.drop_front(*axis))});
  if (!rows)
    return failure();
  Value softmax = node.reshape(
      node.emit<SoftmaxOp>({rows}, {node.attribute("axis", int64_t(1))}),
      shape);
  if (!softmax || (drops && failed(node.define(2, softmax))))
    return failure();
  if (!drops)
    return node.define(0, softmax);
  return defineDropout(node, softmax, *ratio, {}, "SoftmaxDropoutGrad");
}

//===----------------------------------------------------------------------===//
// Distributions
//===----------------------------------------------------------------------===//

namespace {
/// Draws the random numbers of a node, with the seed of attribute 'seed' or
/// else of the run.
class RandomBuilder {
public:
  RandomBuilder(NodeImporter &node) : node(node) {
    if (node.hasAttribute("seed"))
      seed = static_cast<float>(node.real("seed", 0));
    // Repair/RandomMasks has already replaced random masks that act as
    // dropouts.
    if (node.getMode() != ImportMode::AsExported)
      node.getFunction().getModule().warn(
          node.describe() +
          ": draws random numbers in evaluation, too, and so does the written "
          "model; a file of the model exported after model.eval() draws none: "
          "use that file, or name it with --export-model in training");
  }

  /// Draws uniformly from [0, 1). `part` is the name of one draw if the node
  /// needs several. Reports an error and returns null if impossible.
  Value uniform(ArrayRef<int64_t> shape, Type element, StringRef part = "");
  /// Draws with mean 0 and deviation 1, by the Box-Muller transform.
  Value normal(ArrayRef<int64_t> shape, Type element);

private:
  NodeImporter &node;
  std::optional<float> seed;
};
} // namespace

Value RandomBuilder::uniform(ArrayRef<int64_t> shape, Type element,
                             StringRef part) {
  auto stream = openStream(node, node.getOutputName(0) + part, seed);
  if (failed(stream))
    return {};
  return node.emit<RandomUniformOp>({stream->seed, stream->microStep},
                                    {node.attribute("id", stream->id)},
                                    RankedTensorType::get(shape, element));
}

// sqrt(-2 log(1 - u)) cos(2 pi v). 1 - u is exact, and never 0.
Value RandomBuilder::normal(ArrayRef<int64_t> shape, Type element) {
  auto number = [&](double value) {
    return numberConstant(node, value, element);
  };
  Value u = uniform(shape, element);
  Value logarithm = node.emit<LogOp>({node.emit<SubOp>({number(1), u})});
  Value radius = node.emit<SqrtOp>({node.emit<MulOp>({logarithm, number(-2)})});
  Value v = uniform(shape, element, "#angle");
  Value turn = node.emit<MulOp>({v, number(6.283185307179586)});
  return node.emit<MulOp>({radius, node.emit<CosOp>({turn})});
}

// Reads attribute 'dtype', which must be a float type.
static FailureOr<FloatType> readFloatType(NodeImporter &node, Type byDefault) {
  FailureOr<Type> element = node.elementType("dtype", byDefault);
  if (failed(element))
    return failure();
  if (auto type = dyn_cast<FloatType>(*element))
    return type;
  return node.invalid("expected a float type for random numbers, found " +
                      printElementType(*element) +
                      "; attribute 'dtype' chooses one");
}

// Returns the type in which to compute with random numbers: f32 if the result
// has 16 bits.
static FloatType widen(NodeImporter &node, FloatType type) {
  return type.getWidth() < 32 ? node.attributes().getF32Type() : type;
}

static LogicalResult defineUniform(NodeImporter &node, ArrayRef<int64_t> shape,
                                   FloatType type) {
  double low = node.real("low", 0), high = node.real("high", 1);
  FloatType wide = widen(node, type);
  // Draw in the result's type: 0.9999 in f32 would round to 1 in 16 bits.
  Value u = castTo(node, RandomBuilder(node).uniform(shape, type), wide);
  Value scaled = node.emit<MulOp>({u, numberConstant(node, high - low, wide)});
  Value moved = node.emit<AddOp>({scaled, numberConstant(node, low, wide)});
  return node.define(0, castTo(node, moved, type));
}

static LogicalResult defineNormal(NodeImporter &node, ArrayRef<int64_t> shape,
                                  FloatType type) {
  double mean = node.real("mean", 0), scale = node.real("scale", 1);
  FloatType wide = widen(node, type);
  Value scaled = node.emit<MulOp>({RandomBuilder(node).normal(shape, wide),
                                   numberConstant(node, scale, wide)});
  Value moved = node.emit<AddOp>({scaled, numberConstant(node, mean, wide)});
  return node.define(0, castTo(node, moved, type));
}

// Imports RandomNormal and RandomUniform, which draw numbers of the shape in
// attribute 'shape'.
template <LogicalResult (*defineNumbers)(NodeImporter &, ArrayRef<int64_t>,
                                         FloatType)>
static LogicalResult importRandom(NodeImporter &node) {
  auto shape = node.integerList("shape");
  if (!shape)
    return node.invalid("attribute 'shape' is missing");
  auto type = readFloatType(node, node.attributes().getF32Type());
  if (failed(type))
    return failure();
  if (!getCheckedBytes(*shape, *type))
    return node.invalid("the shape " + printShape(*shape) +
                        " has a negative extent or overflows");
  return defineNumbers(node, *shape, *type);
}

// Imports RandomNormalLike and RandomUniformLike, which draw numbers of the
// input's shape. The type is the input's, too, unless 'dtype' is given.
template <LogicalResult (*defineNumbers)(NodeImporter &, ArrayRef<int64_t>,
                                         FloatType)>
static LogicalResult importRandomLike(NodeImporter &node) {
  auto type = readFloatType(node, node.operandType(0).getElementType());
  return failed(type) ? failure()
                      : defineNumbers(node, node.operandShape(0), *type);
}

// Imports Bernoulli: draws 1 with the probability in the input, else 0.
static LogicalResult importBernoulli(NodeImporter &node) {
  RankedTensorType input = node.operandType(0);
  auto type = dyn_cast<FloatType>(input.getElementType());
  if (!type)
    return node.invalid("expected probabilities that are floats" +
                        node.found({0}));
  FailureOr<Type> element = node.elementType("dtype", type);
  if (failed(element))
    return failure();
  FloatType wide = widen(node, type);
  Value u = RandomBuilder(node).uniform(input.getShape(), wide);
  Value isOne = node.emit<LessOp>({u, castTo(node, node.operand(0), wide)});
  return node.define(0, castTo(node, isOne, *element));
}

// Imports Multinomial: draws a class by unnormalized log-probabilities. A
// random number below the total is compared with the cumulative sums of
// probabilities: the class is the number of sums that do not exceed it.
static LogicalResult importMultinomial(NodeImporter &node) {
  RankedTensorType input = node.operandType(0);
  auto type = dyn_cast<FloatType>(input.getElementType());
  int64_t samples = node.integer("sample_size", 1);
  FailureOr<Type> element =
      node.elementType("dtype", node.attributes().getI32Type());
  if (failed(element))
    return failure();
  if (!type || input.getRank() != 2 || input.getDimSize(1) < 1)
    return node.invalid("expected floats of shape (batch_size, class_size), "
                        "with at least one class" +
                        node.found({0}));
  if (!element->isInteger(32) && !element->isInteger(64))
    return node.invalid(
        "expected attribute 'dtype' to be int32 or int64, found " +
        printElementType(*element));
  int64_t batch = input.getDimSize(0), classes = input.getDimSize(1);
  if (samples < 1 || !getCheckedBytes({batch, samples, classes}, type))
    return node.invalid("expected attribute 'sample_size' of at least 1 whose "
                        "result fits into memory, found " +
                        Twine(samples) + node.found({0}));

  // Probabilities up to a factor: exp(x - max).
  FloatType wide = widen(node, type);
  Value x = castTo(node, node.operand(0), wide);
  Value largest = reduce<ReduceMaxOp>(node, x, {1});
  Value shares = node.emit<ExpOp>({node.emit<SubOp>({x, largest})});
  Value sums =
      node.emit<CumSumOp>({shares}, {node.attribute("axis", int64_t(1)),
                                     node.attribute("exclusive", false),
                                     node.attribute("reverse", false)});
  if (!sums)
    return failure();
  Value whole = slice(node, sums, {0, classes - 1}, {batch, 1});
  Value u = RandomBuilder(node).uniform({batch, samples}, wide);
  Value part = node.emit<MulOp>({u, whole});
  if (!part)
    return failure();
  Value isPassed =
      node.emit<LessOrEqualOp>({node.reshape(sums, {batch, 1, classes}),
                                node.reshape(part, {batch, samples, 1})});
  Value counts = castTo(node, isPassed, *element);
  return node.define(0, reduce<ReduceSumOp>(node, counts, {2},
                                            /*keepDims=*/false));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getRandomOps() {
  static const OpEntry entries[] = {
      // Domain, name, first and last opset, least and most inputs, outputs.
      {"", "Bernoulli", 15, kNoEnd, 1, 1, 1, importBernoulli},
      {"", "Dropout", 6, 11, 1, 1, 2, importDropoutAttributes},
      {"", "Dropout", 12, kNoEnd, 1, 3, 2, importDropout},
      {"", "Multinomial", 7, kNoEnd, 1, 1, 1, importMultinomial},
      {"", "RandomNormal", 1, kNoEnd, 0, 0, 1, importRandom<defineNormal>},
      {"", "RandomNormalLike", 1, kNoEnd, 1, 1, 1,
       importRandomLike<defineNormal>},
      {"", "RandomUniform", 1, kNoEnd, 0, 0, 1, importRandom<defineUniform>},
      {"", "RandomUniformLike", 1, kNoEnd, 1, 1, 1,
       importRandomLike<defineUniform>},
      {kMicrosoft, "BiasDropout", 1, kNoEnd, 2, 5, 2, importBiasDropout},
      {kMicrosoft, "BiasSoftmax", 1, kNoEnd, 2, 2, 1, importBiasSoftmax},
      {kMicrosoft, "BiasSoftmaxDropout", 1, kNoEnd, 2, 3, 3, importBiasSoftmax},
      {kMicrosoft, "BitmaskBiasDropout", 1, kNoEnd, 2, 5, 2, importBiasDropout},
      {kMicrosoft, "BitmaskDropout", 1, kNoEnd, 1, 3, 2, importDropout},
  };
  return entries;
}
