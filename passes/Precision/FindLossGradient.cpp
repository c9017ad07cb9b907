// Finds a value at which a loss scale can enter a backward pass that the model
// brings along, without a gradient seed.
//
// A backward pass is linear: multiplying one value by the scale multiplies
// everything computed from the value. So the pass tries values and proves the
// effect: a value may be scaled if all gradients become multiples of the scale;
// dividing the gradients by the scale restores them. The pass seeks the
// earliest value that depends on all parameters: the gradient of the model's
// outputs, never an activation.
//
// Candidates are tried in order. The start is the candidate that gets
// multiplied by a new seed, which InsertLossScaling later replaces by the
// scale.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/LossScaleAnalysis.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/RequestOptions.h"
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
/// The model's own backward pass in one function.
class OwnBackward {
public:
  explicit OwnBackward(FunctionOpInterface function);

  bool isEmpty() const { return gradients.empty(); }
  /// Returns the values that could be scaled, the likeliest first: values that
  /// depend on all parameters and influence all gradients.
  SmallVector<Value> findCandidates();
  /// Multiplies `start` by a seed. Returns true if all gradients are then
  /// multiples of the seed; otherwise undoes all changes and returns false.
  bool tryStart(Value start);
  /// Moves computations that are not linear, such as the norm of the gradients,
  /// from the backward pass to the update, where gradients will be unscaled.
  /// Returns true if all gradients are then multiples of the seeds.
  bool settleUpdate();
  /// Returns the op because of which the last `tryStart` or `settleUpdate`
  /// failed; null if there is none.
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
  SmallVector<Value> listParameters();
  Bits findSources(ArrayRef<Value> parameters) const;
  Bits findReached(ArrayRef<Value> gradients) const;
  void collectGradients();
  void collectTail();
  void moveToUpdate(Operation *op);

  FunctionOpInterface function;
  VariableTable variables;
  SmallVector<Operation *> ops;
  /// Results of the backward pass that the update reads or the function
  /// returns.
  llvm::SetVector<Value> gradients;
  /// Ops of the backward pass without a contraction downstream in the backward
  /// pass.
  llvm::DenseSet<Operation *> tail;
  SmallVector<Operation *> moved;
  Operation *obstacle = nullptr;
};

struct FindLossGradientPass
    : mpc::impl::FindLossGradientPassBase<FindLossGradientPass> {
  using FindLossGradientPassBase::FindLossGradientPassBase;
  void runOnOperation() override;
};
} // namespace

//===----------------------------------------------------------------------===//
// Dependences
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

// Fills `gradients` with the values that leave the backward pass and depend on
// a contraction or a loop in the backward pass. Others that leave, such as a
// count of right answers, are no gradients. If no value qualifies, takes all
// that leave.
void OwnBackward::collectGradients() {
  // `all`: values that leave the backward pass. `afterContraction`: ops that
  // are, or depend on, a contraction or a loop.
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
  // Without contractions, take every value that leaves the backward pass.
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

// Returns the parameters that the forward pass reads. Only these can have
// gradients.
SmallVector<Value> OwnBackward::listParameters() {
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
  return parameters;
}

// Maps each value to a bit vector of the parameters behind the value: one bit
// per parameter.
OwnBackward::Bits OwnBackward::findSources(ArrayRef<Value> parameters) const {
  Bits sources;
  for (auto [index, parameter] : llvm::enumerate(parameters)) {
    sources[parameter].resize(parameters.size());
    sources[parameter].set(index);
  }
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

// Maps each value to the set of gradients that depend on the value through the
// backward pass: one bit per gradient.
OwnBackward::Bits OwnBackward::findReached(ArrayRef<Value> gradients) const {
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

// Returns the values for which `find` sets the bits of all `items`. Takes the
// items in groups, since bits of all items at once would need memory for each
// pair of a value and an item.
template <typename FindFn>
static llvm::DenseSet<Value> findComplete(ArrayRef<Value> items, FindFn find) {
  constexpr size_t kGroup = 4096;
  llvm::DenseSet<Value> complete;
  for (size_t begin = 0; begin < items.size(); begin += kGroup) {
    llvm::DenseSet<Value> found;
    for (const auto &[value, bits] :
         find(items.drop_front(begin).take_front(kGroup)))
      if (bits.all() && (begin == 0 || complete.contains(value)))
        found.insert(value);
    complete = std::move(found);
  }
  return complete;
}

SmallVector<Value> OwnBackward::findCandidates() {
  const auto dependent =
      findComplete(listParameters(),
                   [&](ArrayRef<Value> group) { return findSources(group); });
  const auto influential =
      findComplete(gradients.getArrayRef(),
                   [&](ArrayRef<Value> group) { return findReached(group); });
  const bool hasContractions = llvm::any_of(
      ops, [&](Operation *op) { return isBackward(op) && contracts(op); });
  // The scale must enter before the last contraction of the backward pass.
  // Later, the scale would protect no low gradients from underflow.
  auto isEarly = [&](Value value) {
    return !hasContractions ||
           llvm::any_of(value.getUsers(), [&](Operation *user) {
             return isBackward(user) && !tail.contains(user);
           });
  };
  SmallVector<Value> own, forward;
  for (Operation *op : ops)
    for (Value result : op->getResults())
      if (isFloat(result) && !belongsToUpdate(op) &&
          dependent.contains(result) && influential.contains(result) &&
          isEarly(result))
        (isBackward(op) ? own : forward).push_back(result);
  // First try values of the backward pass from first to last, then values of
  // the forward pass from last to first.
  own.append(forward.rbegin(), forward.rend());
  return own;
}

//===----------------------------------------------------------------------===//
// The update
//===----------------------------------------------------------------------===//

// Moves `op`, and all dependent ops of the backward pass, to the update:
// changes the phase of the ops.
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
  const bool updates = updatesParameters(function, variables);
  // Each repetition moves ops to the update, so the loop ends.
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
      // Only functions with an update can unscale gradients, and only ops
      // without a contraction downstream may move.
      if (!updates || !tail.contains(op)) {
        obstacle = op;
        return false;
      }
      isSettled = false;
      moveToUpdate(op);
    }
    // A gradient whose producer has moved need not carry the scale: operands of
    // the moved ops are unscaled instead. Every other gradient must.
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
  // Insert scaled = start * seed. Ops of the backward pass read `scaled`
  // instead of `start`.
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
  // The candidate fails: undo all changes, so that the next can be tried.
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

// Returns the first op of the backward pass that the model brings along; null
// if there is none. Gradient ops made by mpc have names with a suffix, such as
// "relu1#dx".
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
  if (failed(applyOptions(getOperation(), {mode, lossScale})))
    return signalPassFailure();
  if (getRequest(getOperation()).getLossScaling().kind == LossScale::None)
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
    // If the model declares seeds, use these. InsertLossScaling reports
    // gradients that are not multiples of a seed.
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
        << "cannot apply a loss scale to the model's own backward pass: found "
           "no value to scale, because all gradients must be proportional to "
           "one value that depends on all parameters";
    if (obstacle)
      diagnostic << ", but '" << getNodeName(obstacle) << "' breaks this";
    diagnostic << "; use --precision bf16-mixed, or --loss-scale none";
    return signalPassFailure();
  }
}
