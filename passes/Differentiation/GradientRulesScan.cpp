// The gradient of a loop: a loop from the last iteration to the first.
//
// A backward iteration receives the gradients of the forward iteration's
// yielded values, and carries the gradients of its carried values. Gradients of
// invariant operands are summed over all iterations. The forward loop stacks
// values of its body that rules read. Views, and values that depend only on
// invariant operands, are recomputed.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/BackwardPass.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mpc;

namespace {
class ScanGradient {
public:
  ScanGradient(ScanOp scan, GradientBuilder &g)
      : scan(scan), g(g), body(scan.getBody().front()),
        yielded(scan.getYield()->getOperands()) {}

  LogicalResult build();

private:
  void findActive();
  void addArguments();
  void seed(GradientBuilder &inner);
  void yieldGradients(GradientBuilder &inner);
  void resolveOperands();
  Value resolve(Value value);
  bool isInvariant(Value value);
  Value addScanned(Type part, Value whole, bool reversed);
  ScanOp stackKept();
  void createBackward(ScanOp forward);

  bool isActive(BlockArgument argument) const {
    return active.contains(argument);
  }

  ScanOp scan;
  GradientBuilder &g;
  Block &body;
  ValueRange yielded;

  /// Values of the forward body that get a gradient, and the ops between these
  /// values in program order.
  DenseSet<Value> active;
  SmallVector<Operation *> ops;
  /// Numbers of the carried values that get a gradient, and of the stacked
  /// results whose gradient is known.
  SmallVector<unsigned> carried, stacked;
  /// Arguments of the forward body with a gradient: `summed` are invariant (the
  /// gradient is a sum over iterations), `parts` are scanned (each iteration
  /// contributes a slice).
  SmallVector<BlockArgument> summed, parts;

  /// Owns the temporary loop in which the backward body is built.
  OwningOpRef<ScanOp> holder;
  Block *backward = nullptr;
  /// The first op of `backward`. Recomputed forward ops go before this op.
  Operation *first = nullptr;
  /// Operands of the backward loop: initial values of carried arguments,
  /// scanned stacks, and invariant values. An entry of `scanned` is null until
  /// the forward loop stacks the value.
  SmallVector<Value> starts, scanned, invariant;
  SmallVector<bool> reversed;
  /// Values of the forward body that gradient rules read. The forward loop will
  /// stack the values of all iterations.
  SmallVector<Value> kept;
  DenseMap<Value, Value> resolved;
  DenseMap<Value, bool> invariance;
};
} // namespace

//===----------------------------------------------------------------------===//
// Dependences
//===----------------------------------------------------------------------===//

// Finds the values of the body that get a gradient. A carried value gets a
// gradient if it depends on a value that needs a gradient (in any earlier
// iteration), and if the loss depends on the carried value (in any later
// iteration). Repeats until neither set grows.
void ScanGradient::findActive() {
  unsigned count = scan.getNumCarried();
  // `wanted`: the loop's operand needs a gradient. `used`: the loss depends on
  // the carried value.
  SmallVector<bool> wanted(count), used(count);
  for (unsigned i = 0; i < count; ++i) {
    wanted[i] = g.needs(i);
    used[i] = g.dy(i) != nullptr;
  }
  for (bool changed = true; changed;) {
    changed = false;
    auto grow = [&](bool &flag, bool holds) {
      changed |= holds && !flag;
      flag |= holds;
    };
    // Backwards: collect the values that the loss depends on through this
    // iteration.
    DenseSet<Value> sources;
    for (auto [index, value] : llvm::enumerate(yielded))
      if (isFloatTensor(value) &&
          (index < count ? used[index] : g.dy(index) != nullptr))
        for (Value source : findDifferentiableSources(value))
          sources.insert(source);
    // Forwards: collect the values that depend on an argument that needs a
    // gradient.
    active.clear();
    for (BlockArgument argument : body.getArguments()) {
      unsigned index = argument.getArgNumber();
      if (index < count && isFloatTensor(argument))
        grow(used[index], sources.contains(argument));
      if (sources.contains(argument) &&
          (index < count ? bool(wanted[index]) : g.needs(index)))
        active.insert(argument);
    }
    ops = findActiveOps(body, scan.getYield(), sources, active);
    for (unsigned i = 0; i < count; ++i)
      grow(wanted[i], active.contains(yielded[i]));
  }
  for (unsigned i = 0; i < count; ++i)
    if (wanted[i] && used[i])
      carried.push_back(i);
  // The gradient of a stacked result is sliced: each iteration gets its part.
  for (unsigned i = count; i < scan.getNumResults(); ++i)
    if (g.dy(i) && active.contains(yielded[i]))
      stacked.push_back(i);
  // Each iteration adds to the gradient of an invariant argument, but produces
  // a separate slice of the gradient of a scanned argument.
  llvm::copy_if(scan.getInvariantArguments(), std::back_inserter(summed),
                [&](BlockArgument argument) { return isActive(argument); });
  llvm::copy_if(scan.getScannedArguments(), std::back_inserter(parts),
                [&](BlockArgument argument) { return isActive(argument); });
}

//===----------------------------------------------------------------------===//
// The backward body
//===----------------------------------------------------------------------===//

// Adds a scanned argument to the backward body, before the invariant arguments.
// With `isReversed`, the backward loop reads `whole` from the last slice to the
// first. The backward loop itself runs from the last forward iteration to the
// first.
Value ScanGradient::addScanned(Type part, Value whole, bool isReversed) {
  Value argument = backward->insertArgument(starts.size() + scanned.size(),
                                            part, g.at("dx"));
  scanned.push_back(whole);
  reversed.push_back(isReversed);
  return argument;
}

// Adds the arguments of the backward body, in this order: gradients of carried
// values, running sums for invariant operands, slices of the gradients of
// stacked results.
void ScanGradient::addArguments() {
  Location loc = g.at("dx");
  auto addCarried = [&](Type type, Value start) {
    auto gradient = getGradientType(type);
    backward->addArgument(gradient, loc);
    starts.push_back(start ? start : g.zeros(loc, gradient));
  };
  for (unsigned index : carried)
    addCarried(scan->getResult(index).getType(), g.dy(index));
  for (BlockArgument argument : summed)
    addCarried(argument.getType(), Value());
  for (unsigned index : stacked) {
    Value whole = g.dy(index);
    unsigned output = index - scan.getNumCarried();
    addScanned(ScanOp::getPartType(whole.getType()), whole,
               !scan.getReversedOutputs()[output]);
  }
}

void ScanGradient::seed(GradientBuilder &inner) {
  for (auto [position, index] : llvm::enumerate(carried))
    inner.accumulate(yielded[index], scan.getLoc(),
                     backward->getArgument(position));
  for (auto [position, index] : llvm::enumerate(stacked))
    inner.accumulate(yielded[index], scan.getLoc(),
                     backward->getArgument(starts.size() + position));
}

void ScanGradient::yieldGradients(GradientBuilder &inner) {
  Location loc = g.at("dx");
  SmallVector<Value> values;
  // If an iteration adds nothing to a gradient, the body yields zeros.
  auto zeros = [&](Value like) {
    return inner.zeros(loc, getGradientType(like.getType()));
  };
  // The backward loop returns, in this order: gradients of carried values, sums
  // for invariant operands, stacks for scanned operands.
  for (unsigned index : carried) {
    Value gradient = inner.gradientOf(body.getArgument(index));
    values.push_back(gradient ? gradient : zeros(yielded[index]));
  }
  for (auto [position, argument] : llvm::enumerate(summed)) {
    Value sum = backward->getArgument(carried.size() + position);
    Value gradient = inner.gradientOf(argument);
    values.push_back(
        gradient ? AddOp::create(inner.ops(), loc, sum.getType(), sum, gradient)
                 : sum);
  }
  for (BlockArgument argument : parts) {
    Value gradient = inner.gradientOf(argument);
    values.push_back(gradient ? gradient : zeros(argument));
  }
  backward->getTerminator()->setOperands(values);
}

//===----------------------------------------------------------------------===//
// Reading values of the forward body
//===----------------------------------------------------------------------===//

// True if `value`, of the forward body, is equal in all iterations.
bool ScanGradient::isInvariant(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return llvm::is_contained(scan.getInvariantArguments(), argument);
  if (auto known = invariance.find(value); known != invariance.end())
    return known->second;
  bool result =
      llvm::all_of(value.getDefiningOp()->getOperands(),
                   [&](Value operand) { return isInvariant(operand); });
  return invariance[value] = result;
}

// Returns the value that replaces `value`, of the forward body, in the backward
// body: an argument, a recomputed op, or a slice of a stack.
Value ScanGradient::resolve(Value value) {
  if (value.getParentBlock() != &body)
    return value;
  if (Value known = resolved.lookup(value))
    return known;
  auto argument = dyn_cast<BlockArgument>(value);
  unsigned index = argument ? argument.getArgNumber() : 0;
  unsigned firstInvariant = scan.getNumCarried() + scan.getScanned().size();
  Value result;
  if (argument && index >= firstInvariant) {
    invariant.push_back(scan->getOperand(index));
    result = backward->addArgument(value.getType(), g.at("dx"));
  } else if (argument && index >= scan.getNumCarried()) {
    bool isReversed = scan.getReversedInputs()[index - scan.getNumCarried()];
    result = addScanned(value.getType(), scan->getOperand(index), !isReversed);
  } else if (!argument && (hasRole(value.getDefiningOp(), RegionRole::View) ||
                           isInvariant(value))) {
    // Recompute the value. `resolve` handles the operands first, so that their
    // clones precede this clone.
    IRMapping mapping;
    Operation *op = value.getDefiningOp();
    for (Value operand : op->getOperands())
      mapping.map(operand, resolve(operand));
    Operation *clone = OpBuilder(first).clone(*op, mapping);
    result = clone->getResult(cast<OpResult>(value).getResultNumber());
  } else {
    kept.push_back(value);
    result = addScanned(value.getType(), Value(), /*reversed=*/true);
  }
  return resolved[value] = result;
}

void ScanGradient::resolveOperands() {
  first = &backward->front();
  SmallVector<Operation *> made;
  for (Operation &op : *backward)
    made.push_back(&op);
  for (Operation *op : made)
    for (OpOperand &operand : op->getOpOperands())
      operand.set(resolve(operand.get()));
}

//===----------------------------------------------------------------------===//
// The two loops
//===----------------------------------------------------------------------===//

// Recreates the forward loop with one more stacked result for each value in
// `kept`. Users of the old loop then read the new loop.
ScanOp ScanGradient::stackKept() {
  SmallVector<Type> types(scan.getStacked().getTypes());
  SmallVector<bool> directions(scan.getReversedOutputs());
  for (Value value : kept) {
    types.push_back(ScanOp::getStackType(value.getType(), scan.getLength()));
    directions.push_back(false);
  }
  OpBuilder builder(scan);
  auto forward =
      ScanOp::create(builder, scan.getLoc(), scan.getLength(),
                     scan.getCarried(), scan.getScanned(), scan.getInvariant(),
                     types, scan.getReversedInputs(), directions);
  forward->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  // Clone the body, and yield the kept values too.
  IRMapping mapping;
  mapping.map(body.getArguments(), forward.getBody().getArguments());
  builder.setInsertionPointToEnd(&forward.getBody().front());
  for (Operation &op : body.without_terminator())
    if (!isOpTriviallyDead(&op))
      builder.clone(op, mapping);
  SmallVector<Value> values;
  for (Value value : llvm::concat<Value>(SmallVector<Value>(yielded), kept))
    values.push_back(mapping.lookup(value));
  YieldOp::create(builder, scan.getLoc(), values);
  for (auto [old, result] : llvm::zip(scan.getResults(), forward.getResults()))
    old.replaceAllUsesWith(result);
  return forward;
}

void ScanGradient::createBackward(ScanOp forward) {
  // Null entries of `scanned` stand for kept values. The forward loop returns
  // the stacks of kept values last, in the same order.
  unsigned next = scan.getNumResults();
  for (Value &whole : scanned)
    if (!whole)
      whole = forward->getResult(next++);
  // The backward loop visits iterations in reverse, so it stacks the gradient
  // of a scanned operand in the opposite direction. Then slice i of the
  // gradient belongs to slice i of the operand.
  SmallVector<Type> types;
  SmallVector<bool> directions;
  for (BlockArgument argument : parts) {
    unsigned index = argument.getArgNumber();
    types.push_back(getGradientType(scan->getOperand(index).getType()));
    directions.push_back(
        !scan.getReversedInputs()[index - scan.getNumCarried()]);
  }
  // Move the temporary body into the backward loop.
  auto loop = ScanOp::create(g.ops(), g.at("dx"), scan.getLength(), starts,
                             scanned, invariant, types, reversed, directions);
  loop.getBody().takeBody(holder->getBody());
  // Results are, in this order: gradients of carried values, sums for invariant
  // operands, stacks for scanned operands.
  unsigned result = 0;
  for (unsigned index : carried) {
    if (g.needs(index))
      g.add(index, "dx", loop->getResult(result));
    ++result;
  }
  for (ArrayRef<BlockArgument> arguments : {ArrayRef(summed), ArrayRef(parts)})
    for (BlockArgument argument : arguments)
      g.add(argument.getArgNumber(), "dx", loop->getResult(result++));
}

LogicalResult ScanGradient::build() {
  findActive();
  if (ops.empty() && carried.empty() && parts.empty() && summed.empty())
    return success();
  // Build the backward body in a temporary loop, because the operands are known
  // only after the body exists.
  OpBuilder builder(scan.getContext());
  holder = ScanOp::create(builder, scan.getLoc(), 1, ValueRange(), ValueRange(),
                          ValueRange(), TypeRange(), ArrayRef<bool>(),
                          ArrayRef<bool>());
  backward = &holder->getBody().front();
  builder.setInsertionPointToEnd(backward);
  Operation *end = YieldOp::create(builder, scan.getLoc(), ValueRange());
  addArguments();
  GradientBuilder inner(end, active);
  seed(inner);
  if (failed(runBackwards(ops, inner)))
    return failure();
  yieldGradients(inner);
  // The backward body still reads values of the forward body. Replace each by a
  // slice of a stack, or recompute the value.
  resolveOperands();
  createBackward(stackKept());
  return success();
}

static void gradScan(ScanOp op, GradientBuilder &g) {
  if (failed(ScanGradient(op, g).build()))
    g.fail();
}

void mpc::addScanRules(GradientRules &rules) { rules.add(gradScan); }
