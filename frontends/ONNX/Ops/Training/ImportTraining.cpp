// Imports the ops of ai.onnx.preview.training: Gradient and the optimizers.
//
// One optimizer node updates any number of tensors. The importer creates one op
// per tensor, named node#tensor.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Importer.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Gradient
//===----------------------------------------------------------------------===//

static std::vector<std::string> readNames(NodeImporter &node, StringRef name) {
  const auto *attribute = node.find(name, proto::AttributeProto::STRINGS);
  if (!attribute)
    return {};
  return {attribute->strings().begin(), attribute->strings().end()};
}

// Checks that input i of a Gradient has the i-th name of xs and zs. ONNX also
// allows another value as input, to differentiate at that value; this is not
// supported.
static LogicalResult checkNamedInputs(NodeImporter &node,
                                      ArrayRef<std::string> names) {
  if (names.size() != node.getNumInputs())
    return node.invalid("expected one input per name in xs and zs, " +
                        Twine(names.size()) + ", found " +
                        Twine(node.getNumInputs()));
  for (auto [i, name] : llvm::enumerate(names))
    if (node.getInputName(i) != name)
      return node.unsupported("input " + Twine(i) + " is '" +
                              node.getInputName(i) + "', expected '" + name +
                              "' as xs and zs say; gradients at other values "
                              "than the graph's are not supported");
  return success();
}

static bool isFloatTensor(Value value) {
  return isa<FloatType>(NodeImporter::typeOf(value).getElementType());
}

static LogicalResult importGradient(NodeImporter &node) {
  // Gradient differentiates by the xs. The zs are further inputs.
  std::vector<std::string> xs = readNames(node, "xs"), all = xs;
  for (const std::string &z : readNames(node, "zs"))
    all.push_back(z);
  std::string y = node.string("y", "");
  if (xs.empty() || y.empty())
    return node.invalid("attributes 'xs' and 'y' are missing");
  if (failed(checkNamedInputs(node, all)))
    return failure();
  if (node.getNode().output_size() != static_cast<int>(xs.size()))
    return node.invalid("expected one output per name in xs, " +
                        Twine(xs.size()) + ", found " +
                        Twine(node.getNode().output_size()));
  // y, the value to differentiate, is not an input of the node: attribute 'y'
  // names any value of the graph.
  FunctionImporter &function = node.getFunction();
  Value target = function.materialize(y, node.getOpType());
  if (!target)
    return failure();
  SmallVector<Value> sources;
  for (unsigned i = 0; i < xs.size(); ++i)
    sources.push_back(node.operand(i));
  if (node.hasFailed())
    return failure();
  if (!isFloatTensor(target))
    return node.invalid("expected floats as xs and y, found '" + y + "' " +
                        printTensorType(NodeImporter::typeOf(target)));
  for (unsigned i = 0; i < xs.size(); ++i)
    if (!isFloatTensor(sources[i]))
      return node.invalid("expected floats as xs and y" + node.found({i}));
  // The pass `mpc-expand-gradients` replaces the op by the derivatives.
  OpBuilder &builder = function.getBuilder();
  auto loc = NameLoc::get(builder.getStringAttr(getNodeName(node.getNode())));
  auto op = GradientOp::create(builder, loc, ValueRange(sources).getTypes(),
                               target, sources);
  for (unsigned i = 0; i < xs.size(); ++i)
    (void)node.define(i, op.getResult(i));
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizers
//===----------------------------------------------------------------------===//

namespace {
/// The inputs of an optimizer: the rate R, the count T, and groups of `count`
/// tensors.
struct OptimizerInputs {
  Value rate, step;
  int64_t count;

  /// Returns tensor `i` of group `group`. Group 0 holds the parameters, group 1
  /// the gradients, each further group one kind of state.
  Value tensor(NodeImporter &node, unsigned group, int64_t i) const {
    return node.operand(2 + group * count + i);
  }
};
} // namespace

static FailureOr<OptimizerInputs> readInputs(NodeImporter &node,
                                             unsigned groups) {
  unsigned tensors = node.getNumInputs() - 2;
  int64_t count = tensors / groups;
  if (tensors % groups != 0 || count == 0)
    return node.invalid("expected a learning rate, a step count and then " +
                        Twine(groups) + " tensors for each parameter, found " +
                        Twine(tensors) + " tensors");
  unsigned outputs = node.getNode().output_size();
  if (outputs != (groups - 1) * count)
    return node.invalid("expected " + Twine((groups - 1) * count) +
                        " outputs, found " + Twine(outputs));
  // Some tools write scalars with shape [1].
  Value rate = node.reshape(node.operand(0), {});
  Value step = node.reshape(node.operand(1), {});
  if (!rate || !step)
    return failure();
  return OptimizerInputs{rate, step, count};
}

// Creates one OpT per parameter, from the parameter, the gradient and one state
// (the momentum, or Adagrad's sum of squares). OpT returns the new parameter
// and the new state.
template <typename OpT>
static LogicalResult updateEach(NodeImporter &node,
                                const OptimizerInputs &inputs,
                                ArrayRef<NamedAttribute> attributes) {
  for (int64_t i = 0; i < inputs.count; ++i) {
    node.setSuffix(("#" + node.getInputName(2 + i)).str());
    auto op =
        node.create<OpT>({inputs.tensor(node, 0, i), inputs.tensor(node, 1, i),
                          inputs.tensor(node, 2, i), inputs.rate, inputs.step},
                         attributes);
    if (!op)
      return failure();
    (void)node.define(i, op->getResult(0));
    (void)node.define(inputs.count + i, op->getResult(1));
  }
  return success();
}

static LogicalResult importAdam(NodeImporter &node) {
  // Four groups: parameters, gradients, first moments and second moments.
  auto inputs = readInputs(node, 4);
  if (failed(inputs))
    return failure();
  // ONNX's `alpha` and `beta` are beta1 and beta2 in the literature.
  SmallVector<NamedAttribute> attributes = {
      node.attribute("beta1", node.real("alpha", 0.9f)),
      node.attribute("beta2", node.real("beta", 0.999f)),
      node.attribute("epsilon", node.real("epsilon", 1e-6f)),
      node.attribute("weight_decay", node.real("norm_coefficient", 0.0)),
      node.attribute("decay_mode", DecayMode::L2),
      node.attribute("bias_correction", BiasCorrection::StepSize)};
  double post = node.real("norm_coefficient_post", 0.0);
  // A separate name for each tensor's op tells messages which tensor is meant.
  for (int64_t i = 0; i < inputs->count; ++i) {
    node.setSuffix(("#" + node.getInputName(2 + i)).str());
    Value gradient = inputs->tensor(node, 1, i);
    auto op = node.create<AdamOp>(
        {inputs->tensor(node, 0, i), gradient, inputs->tensor(node, 2, i),
         inputs->tensor(node, 3, i), inputs->rate, inputs->step},
        attributes);
    if (!op)
      return failure();
    Value parameter = op.getNewParam();
    if (post != 0.0) {
      // (1 - post) * p is an SGD step of rate 1 with only weight decay. As an
      // optimizer op, it is skipped together with the AdamOp.
      Type element = NodeImporter::typeOf(parameter).getElementType();
      auto type = NodeImporter::typeOf(parameter);
      auto zero = node.create<ConstantOp>(
          {},
          {node.attribute("value",
                          DenseElementsAttr::get(
                              type, node.attributes().getZeroAttr(element)))},
          type);
      auto decay = node.create<SGDOp>(
          {parameter, zero.getOutput(), node.scalarConstant(1.0, element)},
          {node.attribute("weight_decay", post)});
      if (!decay)
        return failure();
      parameter = decay.getNewParam();
    }
    // The outputs are all new parameters, then all first moments, then all
    // second moments.
    (void)node.define(i, parameter);
    (void)node.define(inputs->count + i, op.getNewM());
    (void)node.define(2 * inputs->count + i, op.getNewV());
  }
  return success();
}

static LogicalResult importMomentum(NodeImporter &node) {
  auto inputs = readInputs(node, 3);
  if (failed(inputs))
    return failure();
  // These attributes have no default in ONNX.
  for (StringRef name : {"alpha", "beta", "norm_coefficient", "mode"})
    if (!node.hasAttribute(name))
      return node.invalid("attribute '" + name + "' is missing");
  std::string mode = node.string("mode", "");
  if (mode != "standard" && mode != "nesterov")
    return node.invalid("attribute 'mode' is '" + mode +
                        "', expected 'standard' or 'nesterov'");
  SmallVector<NamedAttribute> attributes = {
      node.attribute("momentum", node.real("alpha", 0.0)),
      node.attribute("beta", node.real("beta", 1.0)),
      node.attribute("weight_decay", node.real("norm_coefficient", 0.0)),
      node.attribute("nesterov", mode == "nesterov")};
  return updateEach<MomentumOp>(node, *inputs, attributes);
}

static LogicalResult importAdagrad(NodeImporter &node) {
  auto inputs = readInputs(node, 3);
  if (failed(inputs))
    return failure();
  SmallVector<NamedAttribute> attributes = {
      node.attribute("epsilon", node.real("epsilon", 1e-6f)),
      node.attribute("lr_decay", node.real("decay_factor", 0.0)),
      node.attribute("weight_decay", node.real("norm_coefficient", 0.0))};
  return updateEach<AdagradOp>(node, *inputs, attributes);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getTrainingOps() {
  static const OpEntry entries[] = {
      {kTraining, "Adagrad", 1, kNoEnd, 2, kAnyNumber, kAnyNumber,
       importAdagrad},
      {kTraining, "Adam", 1, kNoEnd, 2, kAnyNumber, kAnyNumber, importAdam},
      {kTraining, "Gradient", 1, kNoEnd, 1, kAnyNumber, kAnyNumber,
       importGradient},
      {kTraining, "Momentum", 1, kNoEnd, 2, kAnyNumber, kAnyNumber,
       importMomentum},
  };
  return entries;
}
