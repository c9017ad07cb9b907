// Computes the loss of each sample from the graph of a mean loss. Walks from
// the loss back through linear ops, such as a scaling, to the op that averages.
// Then applies the linear ops to the unaveraged losses.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/SampleLoss.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;

static RankedTensorType tensorType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

static bool hasOneElement(Value value) {
  return tensorType(value).getNumElements() == 1;
}

static bool hasSamples(Value value, int64_t batch) {
  auto type = tensorType(value);
  return type.getRank() > 0 && type.getDimSize(0) == batch;
}

// Averages `value` over all axes except axis 0, the samples. The new op gets
// the phase and the location of `loss`.
static Value averageSamples(OpBuilder &builder, Operation *loss, Value value) {
  auto type = tensorType(value);
  if (type.getRank() == 1)
    return value;
  auto axes = llvm::to_vector(llvm::seq<int64_t>(1, type.getRank()));
  auto mean = ReduceMeanOp::create(builder, loss->getLoc(),
                                   type.clone(type.getShape().take_front(1)),
                                   value, axes, /*keepdims=*/false);
  copyPhase(loss, mean);
  return mean.getOutput();
}

// True if evaluation can skip samples with an ignored label. This requires one
// label per sample. `loss` must also be the only loss over labels in its block,
// so that there is one ignored label.
static bool canLeaveOut(Operation *loss, RankedTensorType labels) {
  return labels.getRank() == 1 &&
         llvm::count_if(*loss->getBlock(), [](Operation &op) {
           return isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op);
         }) == 1;
}

// Rebuilds a loss over labels without its reduction, averaged per sample: a
// vector of `batch` losses. Null if the loss is not a plain mean over the
// samples.
template <typename OpT>
static Value withoutReduction(OpBuilder &builder, OpT loss, int64_t batch) {
  auto labels = tensorType(loss.getLabels());
  bool isPlain = loss.getReduction() == LossReduction::Mean &&
                 !loss.getWeights() &&
                 (!loss.getIgnoreIndex() || canLeaveOut(loss, labels));
  if (!isPlain || !hasSamples(loss.getLabels(), batch))
    return {};
  auto all = cast<OpT>(builder.clone(*loss));
  all.setReduction(LossReduction::None);
  all.getLoss().setType(
      labels.clone(tensorType(loss.getLoss()).getElementType()));
  return averageSamples(builder, loss, all.getLoss());
}

// If `op` computes a mean over samples, returns the vector of the samples'
// terms; else null.
static Value findTerms(OpBuilder &builder, Operation *op, int64_t batch) {
  if (auto loss = dyn_cast<SoftmaxCrossEntropyLossOp>(op))
    return withoutReduction(builder, loss, batch);
  if (auto loss = dyn_cast<NLLLossOp>(op))
    return withoutReduction(builder, loss, batch);
  auto mean = dyn_cast<ReduceMeanOp>(op);
  if (mean && hasOneElement(mean.getOutput()) &&
      hasSamples(mean.getInput(), batch))
    return averageSamples(builder, mean, mean.getInput());
  return {};
}

// True for ops that only reshape a scalar.
static bool isScalarView(Operation *op) {
  return isa<ReshapeOp, ReduceMeanOp, ReduceSumOp>(op) &&
         hasOneElement(op->getOperand(0));
}

// Returns the operand of `op` in which the result is linear: a mean of samples
// of this operand gives the mean of the results. Null if there is none.
static OpOperand *findLinearOperand(Operation *op) {
  if (isScalarView(op) || isa<mpc::CastOp, NegOp>(op))
    return &op->getOpOperand(0);
  if (!isa<MulOp, DivOp>(op))
    return nullptr;
  if (op->getOperand(1).getDefiningOp<ConstantOp>())
    return &op->getOpOperand(0);
  if (isa<MulOp>(op) && op->getOperand(0).getDefiningOp<ConstantOp>())
    return &op->getOpOperand(1);
  return nullptr;
}

// Applies the op that uses `scalar`, and maps scalars to scalars, to the vector
// `samples` instead.
static Value applyToSamples(OpBuilder &builder, OpOperand &scalar,
                            Value samples) {
  Operation *op = scalar.getOwner();
  if (isScalarView(op))
    return samples;
  auto type =
      tensorType(samples).clone(tensorType(op->getResult(0)).getElementType());
  Operation *copy = builder.clone(*op);
  copy->setOperand(scalar.getOperandNumber(), samples);
  copy->getResult(0).setType(type);
  return copy->getResult(0);
}

Value mpc::buildSampleLoss(OpBuilder &builder, Value loss, int64_t batch) {
  SmallVector<OpOperand *> linear;
  Operation *op = loss.getDefiningOp();
  if (!op || !hasOneElement(loss))
    return {};
  Value samples;
  while (op && !(samples = findTerms(builder, op, batch))) {
    OpOperand *operand = findLinearOperand(op);
    // Other operands must be scalars. An operand of rank 2 would broadcast the
    // vector of samples to a matrix.
    auto fits = [&](OpOperand &factor) {
      return &factor == operand || (hasOneElement(factor.get()) &&
                                    tensorType(factor.get()).getRank() <= 1);
    };
    if (!operand || !llvm::all_of(op->getOpOperands(), fits))
      return {};
    linear.push_back(operand);
    op = operand->get().getDefiningOp();
  }
  if (!samples)
    return {};
  for (OpOperand *operand : llvm::reverse(linear))
    samples = applyToSamples(builder, *operand, samples);
  return samples;
}

// True if the labels are an input, at most reshaped or converted, so they are
// in the order of the samples.
static bool areInputs(Value labels) {
  while (Operation *op = labels.getDefiningOp()) {
    if (!isa<ReshapeOp, mpc::CastOp>(op))
      return false;
    labels = op->getOperand(0);
  }
  return true;
}

Operation *mpc::findLabelLoss(Block &block) {
  Operation *found = nullptr;
  for (Operation &op : block) {
    if (!isa<SoftmaxCrossEntropyLossOp, NLLLossOp>(op))
      continue;
    if (!areInputs(op.getOperand(1)))
      return nullptr;
    // Evaluation computes the mean loss and the loss per sample, from the same
    // scores and labels. Count both as one loss.
    auto same = [&](unsigned operand) {
      return op.getOperand(operand) == found->getOperand(operand);
    };
    if (found && !(same(0) && same(1)))
      return nullptr;
    found = &op;
  }
  return found;
}

Value mpc::buildAccuracy(OpBuilder &builder, Operation *loss) {
  return buildAccuracy(builder, loss, loss->getOperand(0), loss->getOperand(1));
}

Value mpc::buildAccuracy(OpBuilder &builder, Operation *op, Value scores,
                         Value labels) {
  if (tensorType(scores).getDimSize(1) > kMaxAccuracyClasses)
    return {};
  auto type = tensorType(labels).clone(builder.getF32Type());
  auto accuracy =
      AccuracyOp::create(builder, op->getLoc(), type, scores, labels);
  copyPhase(op, accuracy);
  return accuracy.getCorrect();
}
