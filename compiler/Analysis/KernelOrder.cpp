// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/KernelOrder.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;
using namespace mpc;

static constexpr unsigned kNone = ~0u;

KernelOrder::KernelOrder(Block &block) : block(block) {
  for (Operation &op : block) {
    unsigned group = ops.size();
    groupOf[&op] = group;
    ops.push_back({&op});
    order.push_back(group);
    positionOf.push_back(group);
  }
}

std::optional<SmallVector<unsigned>>
KernelOrder::findBetween(unsigned first, unsigned last) const {
  SmallVector<unsigned> found;
  llvm::DenseSet<unsigned> seen = {first};
  SmallVector<unsigned> worklist = {first};
  while (!worklist.empty()) {
    unsigned group = worklist.pop_back_val();
    for (Operation *op : ops[group])
      for (Operation *user : op->getUsers()) {
        unsigned next = getGroup(block.findAncestorOpInBlock(*user));
        if (next == last && group != first)
          return std::nullopt;
        if (positionOf[next] >= positionOf[last] || !seen.insert(next).second)
          continue;
        found.push_back(next);
        worklist.push_back(next);
      }
  }
  return found;
}

bool KernelOrder::tryJoin(unsigned a, unsigned b) {
  if (positionOf[a] > positionOf[b])
    std::swap(a, b);
  auto between = findBetween(a, b);
  if (!between)
    return false;

  // What does not depend on `a` runs before the new group, the rest after it.
  llvm::DenseSet<unsigned> dependent(between->begin(), between->end());
  unsigned begin = positionOf[a], end = positionOf[b];
  SmallVector<unsigned> before, after;
  for (unsigned position = begin + 1; position < end; ++position)
    if (unsigned group = order[position]; group != kNone)
      (dependent.contains(group) ? after : before).push_back(group);
  unsigned position = begin;
  auto place = [&](unsigned group) {
    order[position] = group;
    positionOf[group] = position++;
  };
  llvm::for_each(before, place);
  place(a);
  llvm::for_each(after, place);
  std::fill(order.begin() + position, order.begin() + end + 1, kNone);

  for (Operation *op : ops[b])
    groupOf[op] = a;
  llvm::append_range(ops[a], ops[b]);
  ops[b].clear();
  return true;
}
