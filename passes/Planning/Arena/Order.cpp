// Sorts the ops of a function into execution order. Readers of the old value of
// a state variable come before the update, so the new value can overwrite the
// old. Updates then run as early as possible, so gradients of weights are not
// all in memory at once. Reductions over ranks begin as early as possible, and
// their readers wait, so that the backward pass goes on meanwhile. Otherwise,
// the order stays.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"

#include <queue>

namespace mpc {
#define GEN_PASS_DEF_ORDERPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct OrderPass : public mpc::impl::OrderPassBase<OrderPass> {
  void runOnOperation() override;
};

/// The ops of a block and the order constraints between them.
class OrderGraph {
public:
  explicit OrderGraph(Block &block);
  /// Makes `before` run first, unless `before` depends on `after`.
  void addUnlessCyclic(Operation *before, Operation *after);
  /// Makes `op` run as early as possible.
  void hasten(Operation *op) {
    assert(indexOf.contains(op) && "an op of the block");
    isHasty.set(indexOf.lookup(op));
  }
  /// Returns a valid order: ops marked by hasten() come as early as possible,
  /// all others keep their present order if they can.
  SmallVector<Operation *> sort() const;

private:
  bool reaches(unsigned from, unsigned to) const;

  SmallVector<Operation *> ops;
  DenseMap<Operation *, unsigned> indexOf;
  SmallVector<llvm::SmallSetVector<unsigned, 4>> successors;
  llvm::BitVector isHasty;
};
} // namespace

OrderGraph::OrderGraph(Block &block) {
  for (Operation &op : block.without_terminator()) {
    indexOf[&op] = ops.size();
    ops.push_back(&op);
  }
  successors.resize(ops.size());
  isHasty.resize(ops.size());
  for (auto [index, op] : llvm::enumerate(ops))
    for (Operation *user : op->getUsers())
      if (indexOf.count(user))
        successors[index].insert(indexOf.lookup(user));
}

bool OrderGraph::reaches(unsigned from, unsigned to) const {
  llvm::BitVector seen(ops.size());
  SmallVector<unsigned> worklist = {from};
  while (!worklist.empty()) {
    unsigned current = worklist.pop_back_val();
    if (current == to)
      return true;
    for (unsigned next : successors[current])
      if (!seen.test(next)) {
        seen.set(next);
        worklist.push_back(next);
      }
  }
  return false;
}

void OrderGraph::addUnlessCyclic(Operation *before, Operation *after) {
  assert(indexOf.contains(before) && indexOf.contains(after) &&
         "ops of the block");
  unsigned first = indexOf.lookup(before), second = indexOf.lookup(after);
  if (first != second && !reaches(second, first))
    successors[first].insert(second);
}

SmallVector<Operation *> OrderGraph::sort() const {
  // Kahn's algorithm: count for each op the predecessors that have not run, and
  // start with ops that have no predecessor. Among the ready ops, take those
  // marked by hasten() first, then the first in the block, so that the order
  // changes only if required.
  SmallVector<unsigned> pending(ops.size(), 0);
  for (const auto &list : successors)
    for (unsigned next : list)
      ++pending[next];
  using Turn = std::pair<bool, unsigned>; // {not hasty, index}
  std::priority_queue<Turn, std::vector<Turn>, std::greater<>> ready;
  auto push = [&](unsigned index) { ready.push({!isHasty[index], index}); };
  for (unsigned i = 0; i < ops.size(); ++i)
    if (pending[i] == 0)
      push(i);
  SmallVector<Operation *> result;
  while (!ready.empty()) {
    unsigned next = ready.top().second;
    ready.pop();
    result.push_back(ops[next]);
    for (unsigned user : successors[next])
      if (--pending[user] == 0)
        push(user);
  }
  assert(result.size() == ops.size() && "the order has no cycle");
  return result;
}

// Returns the ops that read `value`, also through views.
static SmallVector<Operation *> readersOf(Value value) {
  SmallVector<Operation *> readers;
  SmallVector<Value> worklist = {value};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (plan::isView(user))
        worklist.push_back(user->getResult(0));
      else if (!user->hasTrait<OpTrait::IsTerminator>())
        readers.push_back(user);
    }
  return readers;
}

// True if all results of `op` are new values of state. The op should then run
// early, because no new memory is needed, and operands such as a gradient
// become free.
static bool onlyUpdatesState(Operation &op, func::FuncOp function) {
  Operation *terminator = op.getBlock()->getTerminator();
  return !op.use_empty() && llvm::all_of(op.getUses(), [&](OpOperand &use) {
    return use.getOwner() == terminator &&
           getResultPort(function, use.getOperandNumber()).getUpdated();
  });
}

// True if `op` reads the result of a reduction over ranks, also through views.
static bool readsReduction(Operation &op) {
  return llvm::any_of(op.getOperands(), [](Value operand) {
    while (operand.getDefiningOp() && plan::isView(operand.getDefiningOp()))
      operand = operand.getDefiningOp()->getOperand(0);
    return operand.getDefiningOp<AllReduceOp>() != nullptr;
  });
}

void OrderPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  Block &block = function.getBody().front();
  DenseMap<Attribute, Value> oldValues;
  for (BlockArgument argument : block.getArguments())
    if (Attribute state = getArgumentPort(argument).getState())
      oldValues[state] = argument;

  // Readers of the old value come before the update, so the new value can
  // overwrite the old. A reader of both values prevents the overwriting.
  OrderGraph graph(block);
  for (OpOperand &result : block.getTerminator()->getOpOperands()) {
    Attribute state =
        getResultPort(function, result.getOperandNumber()).getUpdated();
    Operation *update = result.get().getDefiningOp();
    if (Value old = oldValues.lookup(state); state && old && update)
      // The reader may be nested in the body of a library product, so use the
      // product.
      for (Operation *reader : readersOf(old))
        graph.addUnlessCyclic(block.findAncestorOpInBlock(*reader), update);
  }
  // State updates then run as early as possible, and so do reductions over
  // ranks.
  for (Operation &op : block.without_terminator())
    if (isa<AllReduceOp>(op) ||
        (onlyUpdatesState(op, function) && !readsReduction(op)))
      graph.hasten(&op);
  for (Operation *op : graph.sort())
    op->moveBefore(block.getTerminator());
}
