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

/// The equivalent of a body's value outside the loop: the value, if equal in
/// all iterations, or the stack of all its values.
struct Lifted {
  Value value;
  bool isStack = false;
  bool reversed = false;
};

/// Moves ops before a loop.
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

/// Moves ops that consume stacked values after a loop.
class Sinker {
public:
  Sinker(ScanOp scan, RewriterBase &rewriter)
      : scan(scan), rewriter(rewriter) {}
  bool run();

private:
  /// A result of the loop that is computed after the loop.
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
  /// Values to stack, each with its direction (true for reversed).
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

// Reshapes a stack of matrices to one matrix with all rows.
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

// Applies an op that multiplies rows to `stack` instead of operand 0.
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

// True if all operands are known outside and the op can run there: on values of
// one iteration, or as a product with the rows of all iterations.
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

// A cast alone stays next to its users.
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
  // Constants of the body are cloned outside.
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto known = lifted.find(operand);
    operands.push_back(
        known != lifted.end()
            ? known->second.value
            : rewriter.clone(*operand.getDefiningOp())->getResult(0));
  }
  // If all operands are invariant, clone the op unchanged.
  auto first = lifted.find(op->getOperand(0));
  if (first == lifted.end() || !first->second.isStack) {
    Operation *clone = rewriter.clone(*op);
    clone->setOperands(operands);
    for (auto [result, outside] :
         llvm::zip(op->getResults(), clone->getResults()))
      lifted[result] = {outside};
    return;
  }
  // A product of parts becomes one product of the whole stack; a cast applies
  // to the stack.
  Lifted result = first->second;
  result.value = multipliesRows(op)
                     ? multiplyStack(rewriter, op, operands[0],
                                     ValueRange(operands).drop_front())
                     : cloneOn(rewriter, op, operands, shapeOf(operands[0]));
  lifted[op->getResult(0)] = result;
}

// Makes the body read the values computed outside.
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
  // Users come first, so that their operands lose all uses.
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

// True if `value` is or can be stacked in `direction`, the common direction of
// the values checked before. Sets `direction` if `value` determines it.
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

// True if `op` multiplies rows by invariant operands, and its result is only
// stacked.
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

// Returns the op whose results carried value `carried` adds up over all
// iterations. The op must sum rows, and nothing else may read its result or the
// running sum. Returns null otherwise.
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

// Finds the sums and products to move after the loop, and their factors, which
// the loop must stack.
void Sinker::collect() {
  // Find carried sums whose factors can be stacked.
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
  // Find stacked products of a factor with invariant operands.
  for (OpResult result : scan.getStacked()) {
    unsigned index = result.getResultNumber();
    Operation *op = scan.getYield()->getOperand(index).getDefiningOp();
    if (result.use_empty() || !isLastProduct(op))
      continue;
    // If a product is stacked in both directions, one of the two stays in the
    // loop.
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
  // A stacked product becomes one product of the whole stack.
  Operation *op = moved.op;
  Location location = op->getLoc();
  Value result = scan->getResult(moved.result), value;
  if (moved.result >= scan.getNumCarried()) {
    SmallVector<Value> others;
    for (Value other : op->getOperands().drop_front())
      others.push_back(scan.getTiedOperand(cast<BlockArgument>(other)).get());
    value = multiplyStack(rewriter, op, stackOf(op->getOperand(0)), others);
  } else {
    // A sum over iterations becomes a contraction over the rows of all
    // iterations.
    SmallVector<Value> factors;
    for (Value factor : op->getOperands()) {
      Value stack = stackOf(factor);
      factors.push_back(
          isa<SumToSizeOp>(op) ? stack : mergeRows(rewriter, location, stack));
    }
    value = cloneOn(rewriter, op, factors, shapeOf(op->getResult(0)));
    // Add the initial value, unless it is zero.
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
  // Stack the factors, except scanned operands, which are stacked already.
  SmallVector<Value> values;
  SmallVector<bool> directions;
  for (auto [value, reversed] : parts) {
    auto argument = dyn_cast<BlockArgument>(value);
    if (argument && argument.getArgNumber() >= scan.getNumCarried())
      continue;
    values.push_back(value);
    directions.push_back(reversed);
  }
  // One op over all iterations, after the loop, replaces an op in each
  // iteration.
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
