// The gradient of a loop: a loop from the last iteration to the first.
//
// An iteration of it is given the gradients of what the forward one yielded and
// carries on those of what that was carried. Gradients of invariant operands
// are sums over all iterations. Values of the forward body that rules read are
// stacked by the forward loop; those that follow from invariant operands, and
// views, are computed again.
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

  /// Values of the body that derivatives pass through, and the ops between.
  DenseSet<Value> active;
  SmallVector<Operation *> ops;
  /// Carried values with a gradient, by their numbers; stacked results with
  /// one, by those of results.
  SmallVector<unsigned> carried, stacked;
  /// Invariant and scanned arguments with a gradient.
  SmallVector<BlockArgument> summed, parts;

  /// Has the backward body while it grows.
  OwningOpRef<ScanOp> holder;
  Block *backward = nullptr;
  /// The first op in it that a gradient rule made.
  Operation *first = nullptr;
  /// Operands of the backward loop; one that is kept is null until the forward
  /// loop stacks it.
  SmallVector<Value> starts, scanned, invariant;
  SmallVector<bool> reversed;
  /// Values of the forward body that it will stack.
  SmallVector<Value> kept;
  DenseMap<Value, Value> resolved;
  DenseMap<Value, bool> invariance;
};
} // namespace

//===----------------------------------------------------------------------===//
// What depends on what
//===----------------------------------------------------------------------===//

// A carried value has a gradient if it depends on something that is wanted, in
// this iteration or one before, and the loss depends on it, in this iteration
// or one behind: both grow until nothing is added.
void ScanGradient::findActive() {
  unsigned count = scan.getNumCarried();
  // What is known from outside.
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
    // Backwards: what the yielded values that are used depend on.
    DenseSet<Value> sources;
    for (auto [index, value] : llvm::enumerate(yielded))
      if (isFloatTensor(value) &&
          (index < count ? used[index] : g.dy(index) != nullptr))
        for (Value source : findDifferentiableSources(value))
          sources.insert(source);
    // Forwards: what depends on arguments that are wanted.
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
  // Both hold: these have gradients that the backward loop carries,
  for (unsigned i = 0; i < count; ++i)
    if (wanted[i] && used[i])
      carried.push_back(i);
  // these have gradients of each iteration from outside,
  for (unsigned i = count; i < scan.getNumResults(); ++i)
    if (g.dy(i) && active.contains(yielded[i]))
      stacked.push_back(i);
  // and these get sums and stacks of gradients.
  llvm::copy_if(scan.getInvariantArguments(), std::back_inserter(summed),
                [&](BlockArgument argument) { return isActive(argument); });
  llvm::copy_if(scan.getScannedArguments(), std::back_inserter(parts),
                [&](BlockArgument argument) { return isActive(argument); });
}

//===----------------------------------------------------------------------===//
// The backward body
//===----------------------------------------------------------------------===//

// The last iteration comes first.
Value ScanGradient::addScanned(Type part, Value whole, bool isReversed) {
  Value argument = backward->insertArgument(starts.size() + scanned.size(),
                                            part, g.at("dx"));
  scanned.push_back(whole);
  reversed.push_back(isReversed);
  return argument;
}

// Gradients of carried values, sums for invariant operands, gradients of
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
  // Where an iteration adds nothing, zeros stand for it.
  auto zeros = [&](Value like) {
    return inner.zeros(loc, getGradientType(like.getType()));
  };
  // The order of the results: carried, summed, stacked.
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
// Values of the forward body
//===----------------------------------------------------------------------===//

// Whether a value of the forward body is the same in all iterations.
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

// What stands for a value of the forward body in the backward one.
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
    // Its operands are cloned before it, and so stand there.
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

// The forward loop again, with what is kept as further stacked results. The old
// one is left without a reader.
ScanOp ScanGradient::stackKept() {
  // Kept values become results, in forward order.
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
  // The same body, with more to yield.
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
  // What is kept was added in the order it is stacked in.
  unsigned next = scan.getNumResults();
  for (Value &whole : scanned)
    if (!whole)
      whole = forward->getResult(next++);
  // Gradients of scanned operands are stacked, from the last iteration to the
  // first of the forward loop.
  SmallVector<Type> types;
  SmallVector<bool> directions;
  for (BlockArgument argument : parts) {
    unsigned index = argument.getArgNumber();
    types.push_back(getGradientType(scan->getOperand(index).getType()));
    directions.push_back(
        !scan.getReversedInputs()[index - scan.getNumCarried()]);
  }
  // The ops were collected in a region that only held them; now they are the
  // loop's body.
  auto loop = ScanOp::create(g.ops(), g.at("dx"), scan.getLength(), starts,
                             scanned, invariant, types, reversed, directions);
  loop.getBody().takeBody(holder->getBody());
  // Results in the order of the loop: carried gradients, sums for what all
  // iterations read, stacked parts.
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
  // The backward body grows in a loop that nothing reads yet, since its
  // operands are known only once it is there.
  OpBuilder builder(scan.getContext());
  holder = ScanOp::create(builder, scan.getLoc(), 1, ValueRange(), ValueRange(),
                          ValueRange(), TypeRange(), ArrayRef<bool>(),
                          ArrayRef<bool>());
  backward = &holder->getBody().front();
  builder.setInsertionPointToEnd(backward);
  Operation *end = YieldOp::create(builder, scan.getLoc(), ValueRange());
  // Seed what the loop's results have as gradients, run backwards, yield.
  addArguments();
  GradientBuilder inner(end, active);
  seed(inner);
  if (failed(runBackwards(ops, inner)))
    return failure();
  yieldGradients(inner);
  // Values of the forward body that it reads come as stacks, or are computed
  // again.
  resolveOperands();
  createBackward(stackKept());
  return success();
}

static void gradScan(ScanOp op, GradientBuilder &g) {
  if (failed(ScanGradient(op, g).build()))
    g.fail();
}

void mpc::addScanRules(GradientRules &rules) { rules.add(gradScan); }
