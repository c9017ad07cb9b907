// Imports BatchNormalization and the softmax family. Statistics are the running
// mean and variance of a batch normalization. Each node is one call of a layer,
// and a layer may be called several times.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Ops/NN/BatchStatistics.h"

#include "compiler/Dialect/MPC/RunningVariance.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// BatchNormalization
//===----------------------------------------------------------------------===//

// Returns the name of input `index`. If the input is another name for a state,
// returns the name of the state.
static StringRef getStateName(NodeImporter &node, unsigned index) {
  StringRef name = node.getInputName(index);
  StringRef origin = node.getFunction().lookup(name).aliasOf;
  return origin.empty() ? name : origin;
}

// Returns the variable of the state in input `index`; null if the input is no
// state.
static VariableOp findState(NodeImporter &node, unsigned index) {
  return node.getFunction().getModule().findVariable(getStateName(node, index));
}

// True if a batch normalization with this scale and bias reads `statistic`.
// Calls of one layer have the same scale and bias.
static bool isReadBySameLayer(Value statistic, Value scale, Value bias) {
  return llvm::any_of(statistic.getUsers(), [&](Operation *user) {
    return isa<BatchNormOp, BatchNormInferenceOp>(user) &&
           user->getOperand(1) == scale && user->getOperand(2) == bias;
  });
}

// True if metadata of the exporter say that the node calls the layer that owns
// `statistic`. Scale and bias do not tell for a layer without them
// (affine=False): they are separate constants for each call.
static bool isCallOfLayer(NodeImporter &node, StringRef statistic) {
  StringRef layer = findLayer(node.getNode());
  return !layer.empty() &&
         node.getFunction().getLayerOfStatistic(statistic) == layer;
}

// True if `value` is `statistic` after a chain of batch_norm calls. PyTorch's
// newer exporter writes the update by each call as an Identity of the old
// value, with the call as metadata. An Identity may also come from merging
// equal statistics of two layers: the call then does not read the Identity's
// input.
static bool isUpdateInProgram(NodeImporter &node, StringRef value,
                              StringRef statistic) {
  const Graph &graph = node.getFunction().getGraph();
  const auto &signature = graph.getModel().getProgram().signature;
  while (value != statistic) {
    const proto::NodeProto *identity = graph.getProducer(value);
    if (!identity || identity->op_type() != "Identity")
      return false;
    const ProgramCall call = readCall(*identity);
    value = identity->input(0);
    // The metadata of calls use the program's names of parameters and buffers.
    // `signature` maps them to names in the file.
    const bool isRead = llvm::is_contained(call.results, value) ||
                        llvm::any_of(call.sources, [&](StringRef source) {
                          return signature.lookup(source) == value;
                        });
    if (!call.target.contains("batch_norm") || !isRead)
      return false;
  }
  return true;
}

// True if the program passes this call a statistic that an earlier call has
// updated, even if scale and bias are constants or differ. PyTorch's newer
// exporter names the argument in the node's metadata. The older exporter merges
// no statistics in training mode (three outputs), so the name of the input
// suffices. But if scale or bias is a weight, another tool may have merged the
// initial statistics of two layers.
static bool isGivenAgain(NodeImporter &node, unsigned index) {
  StringRef name = node.getInputName(index);
  const proto::ModelProto &file = node.getFunction().getModel().getProto();
  const ProgramCall call = readCall(node.getNode());
  const bool hasWeights =
      llvm::any_of(ArrayRef<unsigned>{1, 2}, [&](unsigned i) {
        const ImportedValue &value =
            node.getFunction().lookup(node.getInputName(i));
        return value.stateRole == Role::Parameter;
      });
  if (call.target.empty())
    return file.producer_name() == "pytorch" && node.hasOutput(2) &&
           !hasWeights;
  const std::optional<StringRef> source = call.findSource(index);
  return source && node.getFunction().getModel().getProgram().signature.lookup(
                       *source) == name;
}

// Returns input, scale, bias, mean and variance. An initializer read as mean or
// variance becomes state of role statistic. Exporters merge equal initializers,
// and give each reader an Identity; before training, the statistics of all
// layers are equal. So an Identity of a statistic belongs to another layer, or
// to a second call of the same layer. The layer is the same if scale and bias
// are the same parameters, if metadata name the same layer, or if metadata tell
// that the first call has updated the statistic. Then both calls share the
// statistic.
static SmallVector<Value> readBatchNormOperands(NodeImporter &node) {
  const Value scale = node.operand(1), bias = node.operand(2);
  const bool isNamed = llvm::all_of(ArrayRef<unsigned>{1, 2}, [&](unsigned i) {
    return node.getFunction().lookup(node.getInputName(i)).aliasOf.empty();
  });
  for (unsigned index : {3, 4}) {
    ImportedValue &entry = node.getFunction().lookup(node.getInputName(index));
    if (entry.value || !entry.constant || !entry.stateRole)
      continue;
    // Layers may share a constant scale, so only a scale that is an argument of
    // the function identifies a layer.
    const Value origin =
        entry.statisticOf.empty()
            ? Value()
            : node.getFunction().lookup(entry.statisticOf).value;
    bool isOneLayer = isNamed && isa<BlockArgument>(scale) && origin &&
                      isReadBySameLayer(origin, scale, bias);
    if (isOneLayer ||
        (origin && (isCallOfLayer(node, entry.statisticOf) ||
                    isUpdateInProgram(node, node.getInputName(index),
                                      entry.statisticOf)))) {
      entry.aliasOf = entry.statisticOf;
      continue;
    }
    entry.stateRole = Role::Statistic;
    entry.aliasOf.clear();
  }
  return node.operands();
}

// Returns the value to which an earlier node has updated the statistic in input
// `index`; null if none has.
static Value findUpdate(NodeImporter &node, unsigned index) {
  VariableOp variable = findState(node, index);
  Value update = variable ? node.getFunction().getUpdate(variable) : Value();
  // A 16-bit statistic is updated through a cast to 32 bits.
  if (update)
    if (auto cast = update.getDefiningOp<CastOp>())
      return cast.getInput();
  return update;
}

// Reads the operands for training. A layer that is called several times, as in
// a siamese network, continues from the statistics of its previous call.
static SmallVector<Value> readTrainingOperands(NodeImporter &node) {
  SmallVector<Value> operands = readBatchNormOperands(node);
  for (unsigned index : {3, 4}) {
    Value update = findUpdate(node, index);
    auto before = update ? update.getDefiningOp<BatchNormOp>() : BatchNormOp();
    if (!before)
      continue;
    bool isOneLayer = before->getOperand(1) == operands[1] &&
                      before->getOperand(2) == operands[2];
    // If the names differ, the input is an Identity that
    // readBatchNormOperands() has accepted as another name of the statistic.
    StringRef name = getStateName(node, index);
    const bool isUpdate = name != node.getInputName(index);
    if (isOneLayer || isUpdate || isCallOfLayer(node, name) ||
        isGivenAgain(node, index))
      operands[index] = update;
  }
  return operands;
}

static LogicalResult updateStatistic(NodeImporter &node, unsigned index,
                                     Value oldValue, Value newValue) {
  // The body of a loop or branch may run several times or never, but a step
  // updates a statistic once.
  if (!node.getFunction().runsOnce())
    return node.unsupported("running statistics are not updated within a loop "
                            "or a branch; --as-exported keeps them as they "
                            "are");
  VariableOp variable = findState(node, index);
  bool isTraining = node.getMode() == ImportMode::Training;
  if (!variable && isTraining && node.operand(index).getDefiningOp())
    // A statistic lasts from step to step. A value that nodes compute in every
    // step does not.
    return node.unsupported(
        "expected initializers as running statistics, found '" +
        node.getInputName(index) +
        "', which a node other than a BatchNormalization computes; if "
        "the exporter has folded its inputs into constants, export with "
        "do_constant_folding=False");
  if (!variable)
    return success();
  if (variable.getRole() != Role::Statistic)
    return node.unsupported("'" + node.getInputName(index) +
                            "' is a running statistic of this node, and "
                            "another node reads it with role '" +
                            stringify(variable.getRole()) +
                            "'; give each its own initializer");
  // Two calls of one layer update its statistics in sequence: the later update
  // includes the earlier and replaces it.
  if (oldValue == findUpdate(node, index))
    node.getFunction().removeUpdate(variable);
  if (failed(node.getFunction().addUpdate(variable, newValue)))
    return node.unsupported("running statistic '" + node.getInputName(index) +
                            "' also belongs to another BatchNormalization "
                            "with another scale or bias, and the file does "
                            "not say that both are calls of one layer");
  return success();
}

static bool isVarianceUnbiased(NodeImporter &node) {
  switch (node.getFunction().getModule().getOptions().runningVariance) {
  case RunningVariance::Unbiased:
    return true;
  case RunningVariance::Population:
    return false;
  case RunningVariance::Auto:
    return node.getFunction().getModel().isFromUnbiasedProducer();
  }
  llvm_unreachable("all kinds are above");
}

static LogicalResult importTrainingBatchNorm(NodeImporter &node, double epsilon,
                                             double momentum,
                                             StringRef savedReader) {
  auto op = node.create<BatchNormOp>(readTrainingOperands(node),
                                     {node.attribute("epsilon", epsilon),
                                      node.attribute("momentum", momentum)});
  if (!op ||
      failed(updateStatistic(node, 3, op->getOperand(3),
                             op.getNewRunningMean())) ||
      failed(
          updateStatistic(node, 4, op->getOperand(4), op.getNewRunningVar())))
    return failure();
  // ONNX keeps the biased variance. PyTorch keeps the unbiased one, which is
  // larger by n / (n - 1).
  if (isVarianceUnbiased(node))
    op->setAttr(kUnbiasedRunningVarAttr, node.attributes().getUnitAttr());
  // A BatchNormalizationGrad in the same file reads outputs 3 and 4.
  (void)node.define(0, op.getOutput());
  (void)node.define(1, op.getNewRunningMean());
  (void)node.define(2, op.getNewRunningVar());
  (void)node.defineSaved(3, op.getMean(), savedReader);
  return node.defineSaved(4, op.getInvStd(), savedReader);
}

//===----------------------------------------------------------------------===//
// Statistics that are not state
//===----------------------------------------------------------------------===//

static bool hasComputedStatistics(NodeImporter &node) {
  return isComputed(node.operand(3)) || isComputed(node.operand(4));
}

// Casts operand `index`, one number per channel, to `type`, and reshapes it to
// [1, channels, 1, ...].
static Value readAlongChannels(NodeImporter &node, unsigned index, Type type) {
  SmallVector<int64_t> shape(node.operandShape(0).size(), 1);
  shape[1] = node.operandShape(index)[0];
  return node.reshape(castTo(node, node.operand(index), type), shape);
}

// Checks that operands 1 to 4 have one number per channel.
static LogicalResult checkChannels(NodeImporter &node) {
  if (node.operandShape(0).size() < 2)
    return node.invalid("expected an input of rank 2 and more" +
                        node.found({0}));
  for (unsigned index : {1, 2, 3, 4})
    if (node.operandShape(index) != node.operandShape(0).slice(1, 1))
      return node.invalid("expected input " + Twine(index) + " of shape [" +
                          Twine(node.operandShape(0)[1]) + "]" +
                          node.found({index}));
  return success();
}

// Defines outputs 1 and 2, the new statistics, as inputs 3 and 4, the given
// statistics. This is right in evaluation, and for given statistics of the
// batch: their average with the batch's statistics is the same.
static LogicalResult keepStatistics(NodeImporter &node) {
  (void)node.define(1, node.operand(3));
  return node.define(2, node.operand(4));
}

// Normalizes by the batch statistics that the graph computes, in training and
// evaluation alike. PyTorch's exporters write layers without running
// statistics, and standardized weights, in this form.
static LogicalResult importBatchStatistics(NodeImporter &node, double epsilon) {
  if (failed(checkChannels(node)))
    return failure();
  Value x = node.operand(0);
  Type element = elementTypeOf(x), f32 = node.attributes().getF32Type();
  Type compute = element.getIntOrFloatBitWidth() < 32 ? f32 : element;
  // Reduce over all axes but the channel axis.
  SmallVector<int64_t> axes = {0};
  llvm::append_range(axes,
                     llvm::seq<int64_t>(2, NodeImporter::typeOf(x).getRank()));
  auto op = node.create<LayerNormOp>(
      {castTo(node, x, compute), readAlongChannels(node, 1, compute),
       readAlongChannels(node, 2, compute)},
      {node.attribute("axes", axes), node.attribute("epsilon", epsilon)});
  if (!op || failed(keepStatistics(node)))
    return failure();
  return node.define(0, castTo(node, op.getOutput(), element));
}

// Computes (x - mean) / sqrt(var + epsilon) * scale + bias, op by op. The graph
// computes mean and var, which need a gradient; the op batch_norm_inference
// would not give one.
static LogicalResult importGivenStatistics(NodeImporter &node, double epsilon) {
  if (failed(checkChannels(node)))
    return failure();
  Value x = node.operand(0);
  Type element = elementTypeOf(x), f32 = node.attributes().getF32Type();
  Type compute = element.getIntOrFloatBitWidth() < 32 ? f32 : element;
  auto read = [&](unsigned index) {
    return readAlongChannels(node, index, compute);
  };
  // (x - mean) * (1 / sqrt(variance + epsilon) * scale) + bias
  Value variance =
      node.emit<AddOp>({read(4), numberConstant(node, epsilon, compute)});
  Value invStd = node.emit<ReciprocalOp>({node.emit<SqrtOp>({variance})});
  Value centred = node.emit<SubOp>({castTo(node, x, compute), read(3)});
  Value factor = node.emit<MulOp>({invStd, read(1)});
  Value scaled = node.emit<MulOp>({centred, factor});
  Value output = node.emit<AddOp>({scaled, read(2)});
  if (failed(keepStatistics(node)))
    return failure();
  return node.define(0, castTo(node, output, element));
}

//===----------------------------------------------------------------------===//
// BatchNormalization in all modes
//===----------------------------------------------------------------------===//

static LogicalResult importBatchNorm(NodeImporter &node) {
  double epsilon = node.real("epsilon", 1e-5);
  double momentum = node.real("momentum", 0.9);
  if (node.getOpset() < 9 && node.integer("spatial", 1) == 0)
    return node.unsupported(
        "attribute 'spatial' of 0 is not supported: expected 1");
  // Before opset 14, a node with further outputs is in training mode. Before
  // opset 7, attribute 'is_test' decides, if present.
  bool exportedForTraining = node.hasOutput(1);
  if (node.getOpset() >= 14)
    exportedForTraining = node.integer("training_mode", 0) != 0;
  else if (node.getOpset() < 7 && node.hasAttribute("is_test"))
    exportedForTraining = node.integer("is_test", 0) == 0;
  // If the graph computes the statistics of the batch, there are no running
  // statistics to update.
  SmallVector<Value> operands = readBatchNormOperands(node);
  if (isMeanOfChannels(operands[3], operands[0]) &&
      isVarianceOfChannels(operands[4], operands[0]))
    return importBatchStatistics(node, epsilon);
  if (node.getMode() == ImportMode::Training ||
      (node.getMode() == ImportMode::AsExported && exportedForTraining))
    return importTrainingBatchNorm(node, epsilon, momentum,
                                   "BatchNormalizationGrad");
  if (hasComputedStatistics(node))
    return importGivenStatistics(node, epsilon);
  auto op = node.create<BatchNormInferenceOp>(
      operands, {node.attribute("epsilon", epsilon)});
  if (!op)
    return failure();
  // The running statistics, outputs 1 and 2, stay unchanged. Outputs 3 and 4,
  // saved for a gradient, stay undefined: reading them is an error.
  (void)node.define(1, op.getMean());
  (void)node.define(2, op.getVar());
  return node.define(0, op.getOutput());
}

// Imports com.microsoft's BatchNormInternal, always in training mode. Outputs 3
// and 4 are saved for the gradient.
static LogicalResult importBatchNormInternal(NodeImporter &node) {
  node.ignore("training_mode");
  return importTrainingBatchNorm(node, node.real("epsilon", 1e-5),
                                 node.real("momentum", 0.9),
                                 "BatchNormalizationGrad");
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

template <typename OpT>
static LogicalResult importSoftmax(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", -1), node.operandShape(0).size());
  if (failed(axis))
    return failure();
  auto op =
      node.create<OpT>({node.operand(0)}, {node.attribute("axis", *axis)});
  return op ? node.define(0, op.getOutput()) : failure();
}

// Imports a softmax before opset 13: all axes from `axis` on count as one. [4,
// 3, 5] from axis 1 on has the rows of [4, 15].
template <typename OpT>
static LogicalResult importFlattenedSoftmax(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", 1), shape.size());
  if (failed(axis))
    return failure();
  int64_t rows = 1, columns = 1;
  for (auto [i, extent] : llvm::enumerate(shape))
    (static_cast<int64_t>(i) < *axis ? rows : columns) *= extent;
  auto op = node.create<OpT>({node.reshape(node.operand(0), {rows, columns})},
                             {node.attribute("axis", int64_t(1))});
  return op ? node.define(0, node.reshape(op.getOutput(), shape)) : failure();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getNormalizationOps() {
  static const OpEntry entries[] = {
      {"", "BatchNormalization", 6, 13, 5, 5, 5, importBatchNorm},
      {"", "BatchNormalization", 14, kNoEnd, 5, 5, 3, importBatchNorm},
      {"", "LogSoftmax", 1, 12, 1, 1, 1, importFlattenedSoftmax<LogSoftmaxOp>},
      {"", "LogSoftmax", 13, kNoEnd, 1, 1, 1, importSoftmax<LogSoftmaxOp>},
      {"", "Softmax", 1, 12, 1, 1, 1, importFlattenedSoftmax<SoftmaxOp>},
      {"", "Softmax", 13, kNoEnd, 1, 1, 1, importSoftmax<SoftmaxOp>},
      {kMicrosoft, "BatchNormInternal", 1, kNoEnd, 5, 5, 5,
       importBatchNormInternal},
  };
  return entries;
}
