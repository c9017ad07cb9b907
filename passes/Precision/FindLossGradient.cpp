// Finds where the backward pass that a model spells out can be given a loss
// scale, where no constant of ones says it.
//
// A gradient chain is linear: multiply one of its values, and all that is
// computed from it is multiplied. So nothing has to be guessed. A value that
// all gradients are proved to be multiples of may be scaled, whatever it means;
// the gradients divided by the scale are what they were. What is sought is the
// earliest one that depends on all parameters: that is the gradient by the
// model's outputs, and never the activations it is multiplied with.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/LossScaleAnalysis.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/ScaledValues.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_FINDLOSSGRADIENTPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
/// The backward pass of one function.
class OwnBackward {
public:
  explicit OwnBackward(FunctionOpInterface function);

  bool isEmpty() const { return gradients.empty(); }
  /// Values that depend on all parameters and that all gradients depend on, the
  /// likeliest first.
  SmallVector<Value> findCandidates();
  /// Multiplies `start` by a seed; false where some gradient is no multiple of
  /// it then, and everything is as before.
  bool tryStart(Value start);
  /// Makes what computes with gradients that are multiples of the seeds by
  /// other than linear ops, such as their norm, a part of the update. Whether
  /// all gradients are multiples then.
  bool settleUpdate();
  /// The node that the last start failed at; null where it was none.
  Operation *getObstacle() const { return obstacle; }

private:
  bool isBackward(Operation *op) const {
    return getPhase(op) == Phase::Backward && !belongsToUpdate(op);
  }
  bool leavesBackward(OpOperand &use) const {
    return use.getOwner()->hasTrait<OpTrait::IsTerminator>() ||
           belongsToUpdate(use.getOwner());
  }
  using Bits = llvm::DenseMap<Value, llvm::BitVector>;
  Bits findSources();
  Bits findReached();
  void collectGradients();
  void collectTail();
  void moveToUpdate(Operation *op);

  FunctionOpInterface function;
  VariableTable variables;
  SmallVector<Operation *> ops;
  /// What the update reads of the backward pass, or the function returns.
  llvm::SetVector<Value> gradients;
  /// Ops of the backward pass after which no contraction comes.
  llvm::DenseSet<Operation *> tail;
  SmallVector<Operation *> moved;
  Operation *obstacle = nullptr;
};

struct FindLossGradientPass
    : mpc::impl::FindLossGradientPassBase<FindLossGradientPass> {
  using FindLossGradientPassBase::FindLossGradientPassBase;
  void runOnOperation() override;

private:
  bool scalesLoss() const;
};
} // namespace

//===----------------------------------------------------------------------===//
// What depends on what
//===----------------------------------------------------------------------===//

static bool isFloat(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool contracts(Operation *op) {
  auto precision = dyn_cast<PrecisionOpInterface>(op);
  return precision && precision.getNumContractedOperands() > 0;
}

OwnBackward::OwnBackward(FunctionOpInterface function)
    : function(function), variables(function->getParentOfType<ModuleOp>()) {
  for (Operation &op : function.getFunctionBody().front().without_terminator())
    ops.push_back(&op);
  collectGradients();
  collectTail();
}

// Sums and products of data, as gradients are, and what has one of those before
// it in the backward pass; without any, all that leaves it. The count of right
// answers, say, is no gradient.
void OwnBackward::collectGradients() {
  // Results that leave the backward pass: all, and those that a contraction
  // or a body lead to.
  llvm::DenseSet<Operation *> afterContraction;
  llvm::SetVector<Value> all;
  for (Operation *op : ops) {
    if (!isBackward(op))
      continue;
    bool follows = contracts(op) || isa<BodyOpInterface>(op);
    for (Value operand : op->getOperands())
      follows |= afterContraction.contains(operand.getDefiningOp());
    if (follows)
      afterContraction.insert(op);
    for (Value result : op->getResults()) {
      if (!isFloat(result) ||
          llvm::none_of(result.getUses(),
                        [&](OpOperand &use) { return leavesBackward(use); }))
        continue;
      all.insert(result);
      if (follows)
        gradients.insert(result);
    }
  }
  // A graph without contractions has no others.
  if (gradients.empty())
    gradients = std::move(all);
}

void OwnBackward::collectTail() {
  for (Operation *op : llvm::reverse(ops)) {
    if (!isBackward(op) || contracts(op) || isa<BodyOpInterface>(op))
      continue;
    if (llvm::all_of(op->getUsers(), [&](Operation *user) {
          return !isBackward(user) || tail.contains(user);
        }))
      tail.insert(op);
  }
}

// Which parameters each value depends on, a bit for each that the forward pass
// reads.
OwnBackward::Bits OwnBackward::findSources() {
  // The parameters that the forward pass reads, each of itself.
  SmallVector<Value> parameters;
  for (BlockArgument argument : function.getArguments()) {
    VariableOp variable =
        variables.lookupVariable(getArgumentPort(argument).getState());
    if (variable && variable.getRole() == Role::Parameter &&
        llvm::any_of(argument.getUsers(), [&](Operation *user) {
          return !isBackward(user) && !belongsToUpdate(user) &&
                 !user->hasTrait<OpTrait::IsTerminator>();
        }))
      parameters.push_back(argument);
  }
  Bits sources;
  for (auto [index, parameter] : llvm::enumerate(parameters)) {
    sources[parameter].resize(parameters.size());
    sources[parameter].set(index);
  }
  // A result depends on what any operand depends on.
  for (Operation *op : ops) {
    llvm::BitVector bits(parameters.size());
    for (Value operand : op->getOperands())
      if (auto it = sources.find(operand); it != sources.end())
        bits |= it->second;
    if (bits.any())
      for (Value result : op->getResults())
        sources[result] = bits;
  }
  return sources;
}

// Which gradients depend on each value through the backward pass alone, a bit
// for each.
OwnBackward::Bits OwnBackward::findReached() {
  Bits reached;
  for (auto [index, gradient] : llvm::enumerate(gradients)) {
    reached[gradient].resize(gradients.size());
    reached[gradient].set(index);
  }
  for (Operation *op : llvm::reverse(ops))
    for (Value result : op->getResults()) {
      llvm::BitVector bits(gradients.size());
      for (Operation *user : result.getUsers())
        if (isBackward(user))
          for (Value next : user->getResults())
            if (auto it = reached.find(next); it != reached.end())
              bits |= it->second;
      if (bits.any())
        reached[result] |= bits;
    }
  return reached;
}

SmallVector<Value> OwnBackward::findCandidates() {
  const Bits sources = findSources(), reached = findReached();
  const bool hasContractions = llvm::any_of(
      ops, [&](Operation *op) { return isBackward(op) && contracts(op); });
  auto hasAll = [](const Bits &bits, Value value) {
    auto it = bits.find(value);
    return it != bits.end() && it->second.all();
  };
  // Behind the last contraction a scale would come too late.
  auto isEarly = [&](Value value) {
    return !hasContractions ||
           llvm::any_of(value.getUsers(), [&](Operation *user) {
             return isBackward(user) && !tail.contains(user);
           });
  };
  SmallVector<Value> own, forward;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isFloat(result) && !belongsToUpdate(op) && hasAll(sources, result) &&
          hasAll(reached, result) && isEarly(result))
        (isBackward(op) ? own : forward).push_back(result);
  // The first of the backward pass, else the last of the forward pass.
  own.append(forward.rbegin(), forward.rend());
  return own;
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

// With all that is computed from it.
void OwnBackward::moveToUpdate(Operation *op) {
  SmallVector<Operation *> worklist = {op};
  while (!worklist.empty()) {
    Operation *next = worklist.pop_back_val();
    if (!isBackward(next))
      continue;
    setPhase(next, Phase::Optimizer);
    moved.push_back(next);
    worklist.append(next->getUsers().begin(), next->getUsers().end());
  }
}

bool OwnBackward::settleUpdate() {
  obstacle = nullptr;
  const bool updates = updatesParameters(function);
  // What is moved is looked at no more, so there is an end.
  for (bool isSettled = false; !isSettled;) {
    isSettled = true;
    SmallVector<Operation *> complaints;
    LossScaleAnalysis analysis(
        function, variables,
        [&](Operation *op) -> std::optional<InFlightDiagnostic> {
          bool isExpected = op == function.getOperation() ||
                            op->hasTrait<OpTrait::IsTerminator>() ||
                            belongsToUpdate(op);
          if (!isExpected)
            complaints.push_back(op);
          return std::nullopt;
        });
    for (Operation *op : complaints) {
      // Only there are gradients unscaled before they are read.
      if (!updates || !tail.contains(op)) {
        obstacle = op;
        return false;
      }
      isSettled = false;
      moveToUpdate(op);
    }
    // Gradients that are now within the update enter it earlier.
    for (Value gradient : gradients)
      if (isSettled && isBackward(gradient.getDefiningOp()) &&
          !analysis.carriesScale(gradient)) {
        obstacle = gradient.getDefiningOp();
        return false;
      }
  }
  return true;
}

bool OwnBackward::tryStart(Value start) {
  // start * seed, for what reads it in the backward pass.
  OpBuilder builder(function.getContext());
  builder.setInsertionPointAfterValue(start);
  Location loc = start.getLoc();
  auto scalar = RankedTensorType::get({}, builder.getF32Type());
  auto seed = GradientSeedOp::create(builder, loc, scalar);
  auto scaled = MulOp::create(builder, loc, start.getType(), start, seed);
  setPhase(seed, Phase::Backward);
  setPhase(scaled, Phase::Backward);
  bool isOwn = isBackward(start.getDefiningOp());
  start.replaceUsesWithIf(scaled, [&](OpOperand &use) {
    return use.getOwner() != scaled && (isOwn || isBackward(use.getOwner()));
  });
  bool wasGradient = gradients.remove(start);
  if (wasGradient)
    gradients.insert(scaled);
  if (settleUpdate())
    return true;
  // As it was.
  for (Operation *op : moved)
    setPhase(op, Phase::Backward);
  moved.clear();
  if (wasGradient) {
    gradients.remove(scaled);
    gradients.insert(start);
  }
  if (obstacle == scaled)
    obstacle = nullptr;
  scaled.getOutput().replaceAllUsesWith(start);
  scaled.erase();
  seed.erase();
  return false;
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

bool FindLossGradientPass::scalesLoss() const {
  if (lossScale.empty())
    return symbolizePrecisionMode(mode) == PrecisionMode::FP16Mixed;
  return symbolizeLossScale(lossScale) != LossScale::None;
}

// The first op of a backward pass that the model spells out, or null: ops of
// gradients that are made here have a suffix, such as "relu1#dx".
static Operation *findOwnBackward(FunctionOpInterface function) {
  Operation *found = nullptr;
  function->walk([&](Operation *op) {
    if (getPhase(op) != Phase::Backward || isa<GradientSeedOp>(op) ||
        getNodeName(op).contains('#'))
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

void FindLossGradientPass::runOnOperation() {
  if (!scalesLoss())
    return;
  constexpr unsigned kMostStarts = 64;
  bool hasSeeds =
      getOperation()
          .walk([](GradientSeedOp) { return WalkResult::interrupt(); })
          .wasInterrupted();
  for (auto function :
       llvm::to_vector(getOperation().getOps<FunctionOpInterface>())) {
    Operation *first = findOwnBackward(function);
    if (!first)
      continue;
    OwnBackward backward(function);
    if (backward.isEmpty())
      continue;
    // A start that the file names stays; what is no multiple is reported later.
    if (hasSeeds) {
      (void)backward.settleUpdate();
      continue;
    }
    SmallVector<Value> candidates = backward.findCandidates();
    if (candidates.size() > kMostStarts)
      candidates.truncate(kMostStarts);
    Operation *obstacle = nullptr;
    bool found = llvm::any_of(candidates, [&](Value start) {
      bool starts = backward.tryStart(start);
      if (!starts && !obstacle)
        obstacle = backward.getObstacle();
      return starts;
    });
    if (found)
      continue;
    auto diagnostic =
        withExitCode((obstacle ? obstacle : first)->emitError(),
                     ExitCode::Unsupported)
        << "the model's own backward pass has no start that a loss scale could "
           "be given to: one value that depends on all parameters and that all "
           "gradients are multiples of";
    if (obstacle)
      diagnostic << ", which '" << getNodeName(obstacle) << "' is not";
    diagnostic << "; use --precision bf16-mixed, or --loss-scale none";
    return signalPassFailure();
  }
}
