// Moves work out of loops that can be done for all iterations at once.
//
// A product with the weights in each of 35 iterations becomes one product with
// 35 times the rows. The gradient of the weights, a sum over iterations,
// becomes one product over all rows. Computations on values carried between
// iterations stay in the loop.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Passes.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_MOVEOUTOFSCANSPASS
#include "passes/Differentiation/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct MoveOutOfScansPass
    : public mpc::impl::MoveOutOfScansPassBase<MoveOutOfScansPass> {
  void runOnOperation() override;
};

/// The equivalent, outside the loop, of a value in the loop's body: the same
/// value if equal in all iterations, or a stack of the values of all
/// iterations.
struct Lifted {
  Value value;
  bool isStack = false;
  bool reversed = false;
};

/// Moves ops from the body to before the loop.
class Hoister {
public:
  Hoister(ScanOp scan, RewriterBase &rewriter)
      : scan(scan), rewriter(rewriter) {}
  bool run();

private:
  void noteArguments();
  bool isLiftable(Operation *op) const;
  bool isWorthwhile(Operation *op) const;
  void lift(Operation *op);
  void replaceInBody(Operation *op);

  ScanOp scan;
  RewriterBase &rewriter;
  DenseMap<Value, Lifted> lifted;
};

/// Moves ops from the body to after the loop, if only stacked results need
/// them.
class Sinker {
public:
  Sinker(ScanOp scan, RewriterBase &rewriter)
      : scan(scan), rewriter(rewriter) {}
  bool run();

private:
  /// A result of the loop, and the op of the body that will compute the result
  /// after the loop.
  struct Moved {
    unsigned result;
    Operation *op;
  };

  bool canStack(Value value, std::optional<bool> &direction);
  bool isLastProduct(Operation *op);
  Operation *findSum(unsigned carried);
  void collect();
  Value stackOf(Value value);
  void replace(const Moved &moved);

  ScanOp scan;
  RewriterBase &rewriter;
  SmallVector<Moved> products, sums;
  /// Values of the body to stack, each with the direction of the stack: true if
  /// the last iteration comes first.
  llvm::MapVector<Value, bool> parts;
  DenseMap<Value, Value> stacks;
};
} // namespace

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

// True if `op` multiplies the rows of operand 0 by a matrix. Then the rows of
// all iterations can form one product.
static bool multipliesRows(Operation *op) {
  if (auto product = dyn_cast<MatMulOp>(op))
    return !product.getTransA() && typeOf(product.getLhs()).getRank() == 2 &&
           typeOf(product.getRhs()).getRank() == 2;
  auto gemm = dyn_cast<GemmOp>(op);
  if (!gemm || gemm.getTransA())
    return false;
  if (!gemm.getC())
    return true;
  ArrayRef<int64_t> shape = shapeOf(gemm.getC());
  return shape.size() < 2 || shape.front() == 1;
}

// True if `op` sums over the rows of its operands, like the gradients of a
// weight and of a bias.
static bool sumsRows(Operation *op) {
  if (auto product = dyn_cast<MatMulOp>(op))
    return product.getTransA() && !product.getTransB() &&
           typeOf(product.getLhs()).getRank() == 2 &&
           typeOf(product.getRhs()).getRank() == 2;
  if (auto gemm = dyn_cast<GemmOp>(op))
    return gemm.getTransA() && !gemm.getTransB() && !gemm.getC();
  return isa<SumToSizeOp>(op);
}

// Reshapes a stack of matrices [n, m, k] to one matrix [n * m, k].
static Value mergeRows(OpBuilder &builder, Location location, Value stack) {
  ArrayRef<int64_t> shape = shapeOf(stack);
  assert(shape.size() == 3 && "a stack of matrices");
  auto type =
      RankedTensorType::get({shape[0] * shape[1], shape[2]}, elementOf(stack));
  return ReshapeOp::create(builder, location, type, stack);
}

// Clones `op` with other operands and a result of `shape`.
static Value cloneOn(OpBuilder &builder, Operation *op, ValueRange operands,
                     ArrayRef<int64_t> shape) {
  Operation *clone = builder.clone(*op);
  clone->setOperands(operands);
  Value result = clone->getResult(0);
  result.setType(RankedTensorType::get(shape, elementOf(result)));
  return result;
}

// `op` multiplies the rows of its operand 0 in each iteration. Returns one
// product for the rows of all iterations, which `stack` contains.
static Value multiplyStack(OpBuilder &builder, Operation *op, Value stack,
                           ValueRange others) {
  assert(multipliesRows(op) && "the op multiplies rows of operand 0");
  SmallVector<Value> operands = {mergeRows(builder, op->getLoc(), stack)};
  llvm::append_range(operands, others);
  ArrayRef<int64_t> part = shapeOf(op->getResult(0));
  int64_t length = shapeOf(stack)[0];
  Value product = cloneOn(builder, op, operands, {length * part[0], part[1]});
  return ReshapeOp::create(
      builder, op->getLoc(),
      ScanOp::getStackType(op->getResult(0).getType(), length), product);
}

//===----------------------------------------------------------------------===//
// Before the loop
//===----------------------------------------------------------------------===//

void Hoister::noteArguments() {
  assert(lifted.empty() && "arguments come before the ops of the body");
  for (auto [index, argument] : llvm::enumerate(scan.getScannedArguments()))
    lifted[argument] = {scan.getScanned()[index], true,
                        scan.getReversedInputs()[index]};
  for (auto [index, argument] : llvm::enumerate(scan.getInvariantArguments()))
    lifted[argument] = {scan.getInvariant()[index]};
}

// True if `op` can run before the loop: all operands are available there, and
// either `op` is equal in all iterations, or one op on a stack can replace all
// iterations (a product that multiplies rows, or a cast).
bool Hoister::isLiftable(Operation *op) const {
  if (op->getNumRegions() > 0 || op->getNumOperands() == 0)
    return false;
  bool stacks = false;
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *producer = operand.get().getDefiningOp();
    auto known = lifted.find(operand.get());
    if (known == lifted.end() && !isa_and_present<ConstantOp>(producer))
      return false;
    bool isStack = known != lifted.end() && known->second.isStack;
    if (isStack && operand.getOperandNumber() > 0)
      return false;
    stacks |= isStack;
  }
  return !stacks || multipliesRows(op) || isa<mpc::CastOp>(op);
}

// True if moving `op` before the loop pays. A cast of a stack pays only if a
// product that also moves reads the cast.
bool Hoister::isWorthwhile(Operation *op) const {
  assert(lifted.contains(op->getResult(0)) && "lift comes first");
  auto stack = lifted.find(op->getResult(0));
  if (!stack->second.isStack || multipliesRows(op))
    return true;
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return multipliesRows(user) && isLiftable(user);
  });
}

void Hoister::lift(Operation *op) {
  // Clone constants of the body to before the loop.
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto known = lifted.find(operand);
    operands.push_back(
        known != lifted.end()
            ? known->second.value
            : rewriter.clone(*operand.getDefiningOp())->getResult(0));
  }
  // If no operand is a stack, clone the op unchanged.
  auto first = lifted.find(op->getOperand(0));
  if (first == lifted.end() || !first->second.isStack) {
    Operation *clone = rewriter.clone(*op);
    clone->setOperands(operands);
    for (auto [result, outside] :
         llvm::zip(op->getResults(), clone->getResults()))
      lifted[result] = {outside};
    return;
  }
  // Otherwise one product, or one cast, on the stack replaces the ops of all
  // iterations.
  Lifted result = first->second;
  result.value = multipliesRows(op)
                     ? multiplyStack(rewriter, op, operands[0],
                                     ValueRange(operands).drop_front())
                     : cloneOn(rewriter, op, operands, shapeOf(operands[0]));
  lifted[op->getResult(0)] = result;
}

// Replaces the results of `op` in the body by arguments that receive the values
// computed before the loop.
void Hoister::replaceInBody(Operation *op) {
  for (Value result : op->getResults()) {
    if (result.use_empty())
      continue;
    assert(lifted.contains(result) && "lift comes first");
    const Lifted &outside = lifted.find(result)->second;
    Value argument = outside.isStack
                         ? scan.addScanned(outside.value, outside.reversed)
                         : scan.addInvariant(outside.value);
    rewriter.replaceAllUsesWith(result, argument);
  }
  rewriter.eraseOp(op);
}

bool Hoister::run() {
  noteArguments();
  OpBuilder::InsertionGuard guard(rewriter);
  rewriter.setInsertionPoint(scan);
  SmallVector<Operation *> moved;
  for (Operation &op : scan.getBody().front().without_terminator()) {
    if (!isLiftable(&op))
      continue;
    lift(&op);
    moved.push_back(&op);
  }
  bool changed = false;
  // Erase users before producers, so that an erased op has no uses.
  for (Operation *op : llvm::reverse(moved)) {
    if (!isWorthwhile(op))
      continue;
    replaceInBody(op);
    changed = true;
  }
  return changed;
}

//===----------------------------------------------------------------------===//
// After the loop
//===----------------------------------------------------------------------===//

// True if the loop can stack `value` in `direction`. nullopt as `direction`
// means either; if `value` already has a direction, sets `direction`.
bool Sinker::canStack(Value value, std::optional<bool> &direction) {
  std::optional<bool> found;
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    unsigned index = argument.getArgNumber(), carried = scan.getNumCarried();
    if (index >= carried + scan.getScanned().size())
      return false;
    if (index >= carried)
      found = scan.getReversedInputs()[index - carried];
  }
  if (auto planned = parts.find(value); planned != parts.end())
    found = planned->second;
  if (found && direction && *found != *direction)
    return false;
  if (found)
    direction = found;
  return true;
}

// True if `op` multiplies rows by operands that are equal in all iterations,
// and the loop only stacks the result.
bool Sinker::isLastProduct(Operation *op) {
  if (!op || !multipliesRows(op))
    return false;
  for (Value other : op->getOperands().drop_front())
    if (auto argument = dyn_cast<BlockArgument>(other);
        !argument ||
        !llvm::is_contained(scan.getInvariantArguments(), argument))
      return false;
  return llvm::all_of(op->getResult(0).getUses(), [&](OpOperand &use) {
    return use.getOwner() == scan.getYield() &&
           use.getOperandNumber() >= scan.getNumCarried();
  });
}

// Returns the op whose results carried value number `carried` adds up over all
// iterations: sum = sum + op(...). The op must sum over rows, and nothing else
// may read the op or the running sum. Null otherwise.
Operation *Sinker::findSum(unsigned carried) {
  assert(carried < scan.getNumCarried() && "a carried value");
  Value argument = scan.getBody().front().getArgument(carried);
  auto add = scan.getYield()->getOperand(carried).getDefiningOp<AddOp>();
  if (!add || !add->hasOneUse() || !argument.hasOneUse())
    return nullptr;
  bool isFirst = add.getLhs() == argument;
  if (!isFirst && add.getRhs() != argument)
    return nullptr;
  Operation *term = (isFirst ? add.getRhs() : add.getLhs()).getDefiningOp();
  return term && term->getBlock() == &scan.getBody().front() && sumsRows(term)
             ? term
             : nullptr;
}

// Finds the sums and products to move after the loop. Lists the operands of
// these ops, which the loop must stack, in `parts`.
void Sinker::collect() {
  // A carried sum can move if all operands of the summing op can be stacked in
  // one direction.
  for (unsigned i = 0; i < scan.getNumCarried(); ++i) {
    Operation *term = scan->getResult(i).use_empty() ? nullptr : findSum(i);
    std::optional<bool> direction;
    if (!term || !llvm::all_of(term->getOperands(), [&](Value factor) {
          return canStack(factor, direction);
        }))
      continue;
    for (Value factor : term->getOperands())
      parts.try_emplace(factor, direction.value_or(false));
    sums.push_back({i, term});
  }
  // A stacked product can move if its left operand can be stacked in the
  // direction of the result.
  for (OpResult result : scan.getStacked()) {
    unsigned index = result.getResultNumber();
    Operation *op = scan.getYield()->getOperand(index).getDefiningOp();
    if (result.use_empty() || !isLastProduct(op))
      continue;
    // If the loop stacks one product in both directions, the second stays in
    // the loop.
    bool reversed = scan.getReversedOutputs()[index - scan.getNumCarried()];
    std::optional<bool> direction = reversed;
    if (!canStack(op->getOperand(0), direction))
      continue;
    parts.try_emplace(op->getOperand(0), reversed);
    products.push_back({index, op});
  }
}

Value Sinker::stackOf(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    if (argument.getArgNumber() >= scan.getNumCarried())
      return scan.getTiedOperand(argument).get();
  return stacks.lookup(value);
}

void Sinker::replace(const Moved &moved) {
  Operation *op = moved.op;
  Location location = op->getLoc();
  Value result = scan->getResult(moved.result), value;
  if (moved.result >= scan.getNumCarried()) {
    SmallVector<Value> others;
    for (Value other : op->getOperands().drop_front())
      others.push_back(scan.getTiedOperand(cast<BlockArgument>(other)).get());
    value = multiplyStack(rewriter, op, stackOf(op->getOperand(0)), others);
  } else {
    // A sum over iterations of sums over rows becomes one sum over the rows of
    // all iterations.
    SmallVector<Value> factors;
    for (Value factor : op->getOperands()) {
      Value stack = stackOf(factor);
      factors.push_back(
          isa<SumToSizeOp>(op) ? stack : mergeRows(rewriter, location, stack));
    }
    value = cloneOn(rewriter, op, factors, shapeOf(op->getResult(0)));
    // Add the initial value of the sum, unless it is zero.
    Value start = scan.getCarried()[moved.result];
    if (!matchPattern(start, m_AnyZeroFloat()))
      value = AddOp::create(rewriter, location, value.getType(), start, value);
  }
  rewriter.replaceAllUsesWith(result, value);
}

bool Sinker::run() {
  collect();
  if (sums.empty() && products.empty())
    return false;
  // Make the loop stack the operands of the moved ops. A scanned operand is a
  // stack already.
  SmallVector<Value> values;
  SmallVector<bool> directions;
  for (auto [value, reversed] : parts) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getArgNumber() >= scan.getNumCarried())
      continue;
    values.push_back(value);
    directions.push_back(reversed);
  }
  unsigned first = scan.getNumResults();
  scan = scan.addStacked(rewriter, values, directions);
  for (auto [index, value] : llvm::enumerate(values))
    stacks[value] = scan->getResult(first + index);
  rewriter.setInsertionPointAfter(scan);
  for (ArrayRef<Moved> list : {ArrayRef(sums), ArrayRef(products)})
    for (const Moved &moved : list)
      replace(moved);
  return true;
}

void MoveOutOfScansPass::runOnOperation() {
  SmallVector<ScanOp> scans;
  getOperation()->walk([&](ScanOp scan) { scans.push_back(scan); });
  IRRewriter rewriter(&getContext());
  bool changed = false;
  for (ScanOp scan : scans) {
    changed |= Hoister(scan, rewriter).run();
    changed |= Sinker(scan, rewriter).run();
  }
  if (!changed)
    markAllAnalysesPreserved();
}
