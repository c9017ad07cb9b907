// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossBuilder.h"

#include "compiler/Dialect/MPC/SampleLoss.h"
#include "compiler/Support/ExitCode.h"

using namespace mlir;
using namespace mpc;

Operation *mpc::throughViews(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<ReshapeOp, mpc::CastOp, ExpandOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op;
}

std::string mpc::printShape(ArrayRef<int64_t> shape) {
  std::string text = "[";
  llvm::raw_string_ostream os(text);
  llvm::interleave(shape, os, ",");
  return text + "]";
}

Type mpc::lossElementType(Value output) {
  Type element = elementOf(output);
  return element.isF64() ? element : Float32Type::get(output.getContext());
}

FailureOr<Value> LossBuilder::addLabels(StringRef name, RankedTensorType type) {
  Value found = function.input(name);
  if (!found)
    return function.addInput(name, "label", type);
  if (found.getType() != type)
    return withExitCode(
               mlir::emitError(function.get()->getParentOp()->getLoc()),
               ExitCode::InvalidInput)
           << "input '" << name << "' of the model is " << found.getType()
           << ", but the loss needs labels of " << type
           << "; name another array with --target-array";
  function.setInputRole(found, "label");
  return found;
}

Value LossBuilder::mean(Value value, unsigned firstAxis, StringRef name) {
  auto type = typeOf(value);
  auto axes = llvm::to_vector(llvm::seq<int64_t>(firstAxis, type.getRank()));
  if (axes.empty())
    return value;
  return ReduceMeanOp::create(builder, at(name),
                              type.clone(type.getShape().take_front(firstAxis)),
                              value, axes, false);
}

std::optional<int64_t> LossBuilder::batchSize() {
  std::optional<int64_t> batch;
  for (Value argument : function.get().getArguments()) {
    StringRef role = function.roleOf(argument);
    if (role != "data" && role != "label")
      continue;
    auto input = typeOf(argument);
    if (input.getRank() == 0 || (batch && *batch != input.getDimSize(0)))
      return std::nullopt;
    batch = input.getDimSize(0);
  }
  return batch;
}

bool LossBuilder::isPerSample(Value value) {
  auto type = typeOf(value);
  return type.getRank() > 0 && batchSize() == type.getDimSize(0);
}

Value LossBuilder::reshape(Value value, ArrayRef<int64_t> shape,
                           StringRef name) {
  auto type = typeOf(value).clone(shape);
  return type == value.getType()
             ? value
             : ReshapeOp::create(builder, at(name), type, value).getOutput();
}

FailureOr<Loss> LossBuilder::build(const LossSpec &spec, Value output,
                                   StringRef target) {
  if (!isa<FloatType>(elementOf(output)))
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a float output for the loss, found "
           << output.getType();
  if (spec.kind == LossKind::SoftmaxCrossEntropy)
    return buildSoftmaxCrossEntropy(spec, output, target);
  if (spec.kind == LossKind::Output)
    return buildOutput(output);
  return buildElementwise(spec.kind, output, target);
}

//===----------------------------------------------------------------------===//
// Losses of elements
//===----------------------------------------------------------------------===//

Value LossBuilder::errorOf(LossKind kind, Value output, Value target) {
  Type type = typeOf(output).clone(lossElementType(output));
  if (kind == LossKind::BCEWithLogits)
    return BCEWithLogitsOp::create(builder, at("loss"), type, output, target);
  Value error = SubOp::create(builder, at("loss.error"), type, output, target);
  if (kind == LossKind::L1)
    return AbsOp::create(builder, at("loss"), type, error);
  return MulOp::create(builder, at("loss"), type, error, error);
}

// bce_with_logits applies a sigmoid of its own, as softmax_cross_entropy does a
// softmax.
static LogicalResult verifyNoSigmoid(Value logits) {
  Operation *op = throughViews(logits);
  if (!isa_and_nonnull<SigmoidOp>(op))
    return success();
  std::string advice =
      "train on the logits before it: --loss bce_with_logits@NODE";
  if (Operation *before = op->getOperand(0).getDefiningOp())
    advice += ", here @" + getNodeName(before).str();
  return withExitCode(mlir::emitError(op->getLoc()), ExitCode::InvalidInput)
         << "expected logits for bce_with_logits, which applies sigmoid "
            "itself, found the output of Sigmoid; "
         << advice;
}

FailureOr<Loss> LossBuilder::buildElementwise(LossKind kind, Value output,
                                              StringRef target) {
  auto type = typeOf(output);
  if (kind == LossKind::BCEWithLogits && failed(verifyNoSigmoid(output)))
    return failure();
  FailureOr<Value> labels =
      addLabels(target, type.clone(lossElementType(output)));
  if (failed(labels))
    return failure();
  Value error = errorOf(kind, output, *labels);
  if (!perSample || !isPerSample(error))
    return Loss{mean(error, 0, "loss.mean"), {}, output};
  Value samples = mean(error, 1, "loss.sample");
  return Loss{mean(samples, 0, "loss.mean"), samples, output};
}

// The model computes its loss, of any rank but one element: what the mean of
// others would be, nobody has asked for.
FailureOr<Loss> LossBuilder::buildOutput(Value output) {
  auto type = typeOf(output);
  if (type.getNumElements() != 1)
    return withExitCode(mlir::emitError(output.getLoc()),
                        ExitCode::InvalidInput)
           << "expected a loss of one element for --loss output:NAME, found "
           << printShape(type.getShape())
           << "; reduce it in the model with ReduceMean, or name what to "
              "compute of it, such as --loss mse@NAME";
  Value average = mean(output, 0, "loss.mean");
  std::optional<int64_t> batch = batchSize();
  if (!perSample || !batch)
    return Loss{average, {}, {}};
  return Loss{average, buildSampleLoss(builder, average, *batch), {}};
}
