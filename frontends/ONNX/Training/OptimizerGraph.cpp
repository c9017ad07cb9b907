// Imports optimizer graphs over sequences of tensors, and adds the outputs of
// training functions.
//
// The IR has no sequences: the tensors of a sequence are updated separately.
// TensorOptimizer imports graphs over single tensors.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/OptimizerGraph.h"

#include "frontends/ONNX/Repair/Repair.h"
#include "frontends/ONNX/Training/TensorOptimizer.h"

#include "compiler/Dialect/MPC/Facts/SampleLoss.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

// The first float output of one element is the loss.
void mpc::onnx_frontend::addTrainingOutputs(FunctionImporter &function,
                                            ArrayRef<StringRef> names) {
  bool hasLoss = false;
  for (StringRef name : names) {
    Value value = function.materialize(name, "");
    if (!value)
      continue;
    auto type = cast<RankedTensorType>(value.getType());
    bool isLoss = !hasLoss && isa<FloatType>(type.getElementType()) &&
                  type.getNumElements() == 1;
    hasLoss |= isLoss;
    function.addOutput(name, value, isLoss ? Role::Loss : Role::Output);
  }
}

void mpc::onnx_frontend::addEvaluationOutputs(FunctionImporter &function) {
  OpBuilder &builder = function.getBuilder();
  SmallVector<SoftmaxCrossEntropyLossOp> losses(
      builder.getInsertionBlock()->getOps<SoftmaxCrossEntropyLossOp>());
  // Several losses may read different scores, so none of them is the
  // prediction.
  if (losses.size() == 1)
    function.addOutput("prediction", losses.front().getScores(),
                       Role::Prediction);
  Value loss = function.getOutput(Role::Loss);
  std::optional<int64_t> batch = function.getBatchSize();
  Value samples =
      loss && batch ? buildSampleLoss(builder, loss, *batch) : Value();
  if (samples)
    function.addOutput("sample_loss", samples, Role::SampleLoss);
  Operation *labelLoss = findLabelLoss(*builder.getInsertionBlock());
  if (Value correct = labelLoss ? buildAccuracy(builder, labelLoss) : Value())
    function.addOutput("correct", correct, Role::Correct);
}

Value mpc::onnx_frontend::addIncrement(FunctionImporter &function,
                                       StringRef counter) {
  OpBuilder &builder = function.getBuilder();
  VariableOp variable = function.getModule().getCounter(counter);
  auto op = IncrementOp::create(
      builder, NameLoc::get(builder.getStringAttr(counter)),
      variable.getTensorType(), function.getState(variable), Value());
  setPhase(op, Phase::Optimizer);
  (void)function.addUpdate(variable, op.getOutput());
  return op.getOutput();
}

void mpc::onnx_frontend::addAccumulation(FunctionImporter &function,
                                         Accumulation &accumulation) {
  ModuleImporter &module = function.getModule();
  accumulation.parameter = module.findVariable(accumulation.name);
  Value gradient =
      function.materialize(accumulation.gradient, "InPlaceAccumulatorV2");
  if (!accumulation.parameter || !gradient)
    return;
  RankedTensorType type = accumulation.parameter.getTensorType();
  if (gradient.getType() != type)
    return module.report(function.getModel().error(
        ErrorKind::InvalidInput,
        "gradient '" + accumulation.gradient +
            "' has another type than its parameter, found " +
            printTensorType(typeOf(gradient)) + ", expected " +
            printTensorType(type)));
  // The buffer is a variable that starts as zeros. Each call of @accumulate
  // adds a gradient.
  accumulation.buffer = module.getVariable(accumulation.name + kGradientSuffix,
                                           Role::Accumulator, type);
  OpBuilder &builder = function.getBuilder();
  auto sum = AddOp::create(
      builder, NameLoc::get(builder.getStringAttr(accumulation.node)), type,
      function.getState(accumulation.buffer), gradient);
  setPhase(sum, Phase::Backward);
  (void)function.addUpdate(accumulation.buffer, sum.getOutput());
}

Error mpc::onnx_frontend::resetAccumulators(
    FunctionImporter &function, ArrayRef<Accumulation> accumulations) {
  OpBuilder &builder = function.getBuilder();
  for (Accumulation accumulation : accumulations) {
    if (!function.getUpdate(accumulation.parameter))
      return function.getModel().error(
          ErrorKind::InvalidInput,
          "no node of the optimizer graph updates parameter '" +
              accumulation.name + "'");
    RankedTensorType type = accumulation.buffer.getTensorType();
    auto zero = ConstantOp::create(
        builder, accumulation.buffer.getLoc(), type,
        DenseElementsAttr::get(type,
                               builder.getZeroAttr(type.getElementType())));
    (void)function.addUpdate(accumulation.buffer, zero);
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

namespace {
/// Imports the nodes of an optimizer graph over sequences.
class OptimizerImporter {
public:
  OptimizerImporter(ModuleImporter &module, const Graph &graph,
                    ArrayRef<Accumulation> accumulations)
      : module(module), graph(graph), accumulations(accumulations),
        function(module, graph, kUpdateFunction) {
    function.defaultPhase = Phase::Optimizer;
  }

  Error run();

private:
  LogicalResult importNode(NodeImporter &node);
  LogicalResult importClip(NodeImporter &node);
  LogicalResult importAdamW(NodeImporter &node);
  LogicalResult importSGD(NodeImporter &node);
  /// Returns the gradients in input `index`, a sequence: the sums of
  /// @accumulate, or the results of a clipping node.
  FailureOr<ArrayRef<Value>> getGradients(NodeImporter &node, unsigned index);
  LogicalResult update(NodeImporter &node, VariableOp variable, Value value);
  Value getMoment(Accumulation accumulation, StringRef suffix);

  ModuleImporter &module;
  const Graph &graph;
  ArrayRef<Accumulation> accumulations;
  FunctionImporter function;
  Value learningRate, step;
  /// Sequences of gradients by the ONNX name of the sequence.
  llvm::StringMap<SmallVector<Value>> sequences;
};
} // namespace

Error OptimizerImporter::run() {
  auto scalar = RankedTensorType::get({}, function.getBuilder().getF32Type());
  learningRate = function.addInput(kLearningRateInput, scalar, Role::Scalar);
  // Increment before the update: ONNX Runtime counts the first update as 1.
  step = addIncrement(function, kStepVariable);
  for (const proto::NodeProto *node : graph.getNodes()) {
    NodeImporter importer(function, *node);
    if (failed(importNode(importer)) || failed(importer.finish()))
      return Error::success(); // the finding is with the module
  }
  if (Error error = resetAccumulators(function, accumulations))
    return error;
  function.finish();
  return Error::success();
}

LogicalResult OptimizerImporter::importNode(NodeImporter &node) {
  if (node.getNode().domain() == kMicrosoft) {
    if (node.getOpType() == "AdamWOptimizer")
      return importAdamW(node);
    if (node.getOpType() == "SGDOptimizerV2")
      return importSGD(node);
    if (node.getOpType() == "InplaceClipGradNorm")
      return importClip(node);
  }
  return node.unsupported(
      "expected AdamWOptimizer, SGDOptimizerV2 or InplaceClipGradNorm of "
      "com.microsoft in an optimizer graph, found " +
      node.getOpType());
}

FailureOr<ArrayRef<Value>> OptimizerImporter::getGradients(NodeImporter &node,
                                                           unsigned index) {
  if (!node.hasInput(index))
    return node.invalid("input " + Twine(index) + ", the gradients, is absent");
  SmallVector<Value> &sequence = sequences[node.getInputName(index)];
  // No node has made this sequence. So the sequence is an input of the graph:
  // the gradient sums of @accumulate.
  if (sequence.empty())
    for (Accumulation accumulation : accumulations)
      sequence.push_back(function.getState(accumulation.buffer));
  return ArrayRef<Value>(sequence);
}

Value OptimizerImporter::getMoment(Accumulation accumulation,
                                   StringRef suffix) {
  std::string name = (accumulation.name + suffix).str();
  VariableOp variable = module.getVariable(name, Role::OptimizerState,
                                           accumulation.buffer.getTensorType());
  if (variable.getRole() != Role::OptimizerState)
    module.report(graph.getModel().error(
        ErrorKind::Unsupported, "'" + name +
                                    "' is a value of the model, but optimizer "
                                    "state needs that name; rename the value"));
  return function.getState(variable);
}

LogicalResult OptimizerImporter::update(NodeImporter &node, VariableOp variable,
                                        Value value) {
  if (failed(function.addUpdate(variable, value)))
    return node.invalid(
        "'" + variable.getSymName() +
        "' is updated twice: expected one optimizer node per parameter");
  return success();
}

// Imports InplaceClipGradNorm, which clips the norm of all gradients together.
LogicalResult OptimizerImporter::importClip(NodeImporter &node) {
  auto gradients = getGradients(node, 0);
  if (failed(gradients))
    return failure();
  // Only the Frobenius norm over all gradients is supported.
  std::string norm = node.string("norm_type", "fro");
  if (norm != "fro")
    return node.unsupported("norm_type '" + norm +
                            "' is not supported: expected 'fro'");
  double maxNorm = node.real("max_norm", 1.0);
  if (!(maxNorm > 0.0))
    return node.invalid("expected attribute 'max_norm' above 0, found " +
                        std::to_string(maxNorm));
  // One op clips all gradients; later nodes read the results.
  SmallVector<Value> operands(*gradients);
  SmallVector<Type> types = llvm::to_vector(ValueRange(operands).getTypes());
  OpBuilder &builder = function.getBuilder();
  types.push_back(RankedTensorType::get({}, builder.getF32Type()));
  auto op = ClipGradNormOp::create(
      builder, NameLoc::get(builder.getStringAttr(getNodeName(node.getNode()))),
      types, operands, builder.getF64FloatAttr(maxNorm));
  setPhase(op, Phase::Optimizer);
  sequences[node.getOutputName(0)] = SmallVector<Value>(op.getClipped());
  function.addOutput("grad_norm", op.getNorm(), Role::GradNorm);
  return success();
}

// Imports AdamW. adam_mode 0 is PyTorch's AdamW, 1 that of Hugging Face's
// transformers.
LogicalResult OptimizerImporter::importAdamW(NodeImporter &node) {
  auto gradients = getGradients(node, 3);
  if (failed(gradients))
    return failure();
  int64_t mode = node.integer("adam_mode", 0);
  if (mode != 0 && mode != 1)
    return node.invalid("attribute 'adam_mode' is " + Twine(mode) +
                        ", expected 0 or 1");
  bool correct = node.integer("correct_bias", 1) != 0;
  BiasCorrection correction = !correct    ? BiasCorrection::None
                              : mode == 0 ? BiasCorrection::Torch
                                          : BiasCorrection::StepSize;
  SmallVector<NamedAttribute> attributes = {
      node.attribute("beta1", node.real("alpha", 0.9f)),
      node.attribute("beta2", node.real("beta", 0.999f)),
      node.attribute("epsilon", node.real("epsilon", 1e-8f)),
      node.attribute("weight_decay", node.real("weight_decay", 1e-2f)),
      node.attribute("decay_mode", mode == 0 ? DecayMode::Decoupled
                                             : DecayMode::DecoupledAfter),
      node.attribute("bias_correction", correction)};
  // The moments of a parameter are variables, named after the parameter with a
  // suffix.
  for (auto [accumulation, gradient] : llvm::zip(accumulations, *gradients)) {
    node.setSuffix("#" + accumulation.name);
    VariableOp parameter = accumulation.parameter;
    auto op = node.create<AdamOp>({function.getState(parameter), gradient,
                                   getMoment(accumulation, kFirstMomentSuffix),
                                   getMoment(accumulation, kSecondMomentSuffix),
                                   learningRate, step},
                                  attributes);
    if (!op || failed(update(node, parameter, op.getNewParam())) ||
        failed(update(
            node, module.findVariable(accumulation.name + kFirstMomentSuffix),
            op.getNewM())) ||
        failed(update(
            node, module.findVariable(accumulation.name + kSecondMomentSuffix),
            op.getNewV())))
      return failure();
  }
  return success();
}

LogicalResult OptimizerImporter::importSGD(NodeImporter &node) {
  auto gradients = getGradients(node, 2);
  if (failed(gradients))
    return failure();
  for (auto [accumulation, gradient] : llvm::zip(accumulations, *gradients)) {
    node.setSuffix("#" + accumulation.name);
    VariableOp parameter = accumulation.parameter;
    auto op = node.create<SGDOp>(
        {function.getState(parameter), gradient, learningRate});
    if (!op || failed(update(node, parameter, op.getNewParam())))
      return failure();
  }
  return success();
}

Error mpc::onnx_frontend::importOptimizerGraph(
    ModuleImporter &module, const Graph &graph,
    ArrayRef<Accumulation> accumulations) {
  if (isOverTensors(graph))
    return importTensorOptimizer(module, graph, accumulations);
  return OptimizerImporter(module, graph, accumulations).run();
}

Error mpc::onnx_frontend::importOptimizerFile(
    ModuleImporter &module, const Model &model, StringRef path,
    ArrayRef<Accumulation> accumulations) {
  auto optimizer =
      readRepaired(path, module.getContext(), model.getSkippedRepairs());
  if (!optimizer)
    return optimizer.takeError();
  Expected<Graph> graph =
      Graph::check(**optimizer, {&(*optimizer)->getProto().graph()});
  if (!graph)
    return graph.takeError();
  return importOptimizerGraph(module, *graph, accumulations);
}
