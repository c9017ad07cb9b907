// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/ParameterGroups.h"

#include "passes/Differentiation/NamePatterns.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Uses of a parameter in the model
//===----------------------------------------------------------------------===//

namespace {
/// The ways in which the forward pass uses a parameter: as an addend (a bias)
/// or as a factor (a scale).
struct ParameterUse {
  bool isAdded = false, isMultiplied = false;
};
} // namespace

// True if at most one axis is longer than 1, as in [1, 64, 1].
static bool isVector(Value value) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(value.getType()).getShape();
  return llvm::count_if(shape, [](int64_t extent) { return extent > 1; }) <= 1;
}

static void addUse(OpOperand &operand, ParameterUse &found) {
  Operation *op = operand.getOwner();
  // Look through ops that keep the elements, and through slices: a recurrent
  // layer slices its bias into halves.
  if (isa<ReshapeOp, mpc::CastOp, ExpandOp, TransposeOp, SliceOp>(op) &&
      operand.getOperandNumber() == 0)
    for (OpOperand &use : op->getResult(0).getUses())
      addUse(use, found);
  Value value = operand.get();
  // A normalization takes the scale as operand 1 and the bias as operand 2, so
  // shapes do not matter.
  if (op->hasTrait<NormalizationTrait>()) {
    found.isMultiplied |= operand.getOperandNumber() == 1;
    found.isAdded |= operand.getOperandNumber() == 2;
  } else if (isa<AddOp>(op)) {
    found.isAdded |= isVector(value);
  } else if (isa<MulOp>(op)) {
    found.isMultiplied |= isVector(value);
  } else if (auto gemm = dyn_cast<GemmOp>(op)) {
    found.isAdded |= gemm.getC() == value && isVector(value);
  } else if (auto conv = dyn_cast<ConvOp>(op)) {
    found.isAdded |= conv.getBias() == value;
  }
}

// Returns the uses of a parameter in the forward pass.
static ParameterUse findUse(Value parameter) {
  ParameterUse found;
  for (OpOperand &use : parameter.getUses())
    addUse(use, found);
  return found;
}

//===----------------------------------------------------------------------===//
// The groups
//===----------------------------------------------------------------------===//

static LogicalResult reportUsage(Location location, const Twine &message) {
  return withExitCode(mlir::emitError(location), ExitCode::Usage) << message;
}

// Clears `decays` for the parameters that --no-decay names.
static LogicalResult spareFromDecay(FunctionEditor &step,
                                    ArrayRef<VariableOp> trainables,
                                    ArrayRef<std::string> words,
                                    MutableArrayRef<ParameterGroup> groups) {
  assert(groups.size() == trainables.size() && "a group per parameter");
  Location location = step.get()->getParentOp()->getLoc();
  bool takesBias = llvm::is_contained(words, "bias");
  bool takesNorm = llvm::is_contained(words, "norm");
  std::vector<std::string> names;
  for (const std::string &word : words)
    if (word != "bias" && word != "norm")
      names.push_back(word);
  NamePatterns patterns("--no-decay", names);
  bool foundBias = false, foundNorm = false;
  for (auto [trainable, group] : llvm::zip(trainables, groups)) {
    VariableOp variable = trainable; // a handle without const accessors
    ParameterUse use = findUse(step.state(variable));
    foundBias |= use.isAdded;
    foundNorm |= use.isMultiplied;
    bool isSpared = patterns.match(variable);
    isSpared |= (takesBias && use.isAdded) || (takesNorm && use.isMultiplied);
    group.decays = !isSpared;
  }
  // Recipes usually say `--no-decay bias,norm`, and many models have no biases.
  // So with both words one match suffices.
  if (takesBias && !foundBias && !(takesNorm && foundNorm))
    return reportUsage(location, "--no-decay bias: no bias is trained");
  if (takesNorm && !foundNorm && !(takesBias && foundBias))
    return reportUsage(location,
                       "--no-decay norm: no scale of a normalization is "
                       "trained");
  return patterns.verify(location);
}

static LogicalResult scaleRates(FunctionEditor &step,
                                ArrayRef<VariableOp> trainables,
                                ArrayRef<std::string> texts,
                                MutableArrayRef<ParameterGroup> groups) {
  Location location = step.get()->getParentOp()->getLoc();
  for (StringRef text : texts) {
    auto [name, number] = text.rsplit('=');
    double factor;
    if (name.empty() || number.getAsDouble(factor) || !std::isfinite(factor) ||
        factor < 0)
      return reportUsage(location,
                         "--lr-scale " + text +
                             ": expected REGEX=FACTOR with a factor of at "
                             "least 0, such as ^backbone=0.1");
    std::vector<std::string> names = {name.str()};
    NamePatterns pattern("--lr-scale", names);
    for (auto [trainable, group] : llvm::zip(trainables, groups)) {
      VariableOp variable = trainable; // a handle without const accessors
      if (pattern.match(variable))
        group.learningRateScale = factor;
    }
    if (failed(pattern.verify(location)))
      return failure();
  }
  return success();
}

FailureOr<SmallVector<ParameterGroup>>
mpc::findParameterGroups(FunctionEditor &step, ArrayRef<VariableOp> trainables,
                         const GroupPatterns &patterns) {
  SmallVector<ParameterGroup> groups(trainables.size());
  if (!patterns.noDecay.empty() &&
      failed(spareFromDecay(step, trainables, patterns.noDecay, groups)))
    return failure();
  if (failed(scaleRates(step, trainables, patterns.learningRateScale, groups)))
    return failure();
  return groups;
}
