// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/KernelOrder.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Edges
//===----------------------------------------------------------------------===//

void KernelOrder::findEdges(Block &block) {
  SmallVector<unsigned> counts(ops.size(), 0);
  for (Operation *op : ops) {
    size_t begin = users.ends.size();
    for (Operation *user : op->getUsers()) {
      Operation *inBlock = block.findAncestorOpInBlock(*user);
      assert(indexOf.contains(inBlock) && "users lie in the block");
      users.ends.push_back(indexOf.lookup(inBlock));
    }
    llvm::sort(users.ends.begin() + begin, users.ends.end());
    users.ends.erase(std::unique(users.ends.begin() + begin, users.ends.end()),
                     users.ends.end());
    users.begins.push_back(users.ends.size());
    for (unsigned user : ArrayRef(users.ends).drop_front(begin))
      ++counts[user];
  }
  // Derive the producers by a counting sort of the same edges.
  for (unsigned count : counts)
    producers.begins.push_back(producers.begins.back() + count);
  producers.ends.resize(users.ends.size());
  SmallVector<unsigned> filled(producers.begins);
  for (unsigned op = 0; op < ops.size(); ++op)
    for (unsigned user : users.of(op))
      producers.ends[filled[user]++] = op;
}

// Builds a depth-first tree of the ops along users, longest path first. The
// longest path of a training step leads through the whole forward and backward
// pass, and thus makes most paths part of the tree.
void KernelOrder::buildTree() {
  // `height` is the length of the longest path from an op to an op without
  // users. The users of each op are sorted by height, tallest first.
  SmallVector<unsigned> height(ops.size(), 0), roots;
  // Go from the end: the heights of users must be known.
  for (unsigned op = ops.size(); op-- > 0;) {
    for (unsigned user : users.of(op)) {
      assert(user > op && "the block is in topological order");
      height[op] = std::max(height[op], height[user] + 1);
    }
    auto list = MutableArrayRef(users.ends)
                    .slice(users.begins[op], users.of(op).size());
    llvm::stable_sort(
        list, [&](unsigned a, unsigned b) { return height[a] > height[b]; });
    if (producers.of(op).empty())
      roots.push_back(op);
  }
  llvm::stable_sort(
      roots, [&](unsigned a, unsigned b) { return height[a] > height[b]; });

  // Use an explicit stack: recursion would be as deep as a training step is
  // long.
  entered.assign(ops.size(), ~0u);
  left.assign(ops.size(), 0);
  unsigned time = 0;
  SmallVector<std::pair<unsigned, unsigned>> path;
  auto enter = [&](unsigned op) {
    if (entered[op] != ~0u)
      return;
    entered[op] = time++;
    path.push_back({op, 0});
  };
  // Each op is entered once, from the first root whose search reaches it. All
  // ops below an op in the tree are entered in the time from entered[op] to
  // left[op] - 1.
  for (unsigned root : roots) {
    enter(root);
    while (!path.empty()) {
      auto &[op, next] = path.back();
      if (next < users.of(op).size()) {
        enter(users.of(op)[next++]);
        continue;
      }
      left[op] = time;
      path.pop_back();
    }
  }
  assert(time == ops.size() && "every op is below a root");
}

KernelOrder::KernelOrder(Block &block) : order(block.getOperations().size()) {
  for (Operation &op : block) {
    unsigned index = ops.size();
    indexOf[&op] = index;
    ops.push_back(&op);
    groupOf.push_back(index);
    members.push_back({index});
    top.push_back(index);
  }
  seenBy.assign(ops.size(), 0);
  findEdges(block);
  buildTree();
  assert(isTopological() && "every op is before its users");
}

//===----------------------------------------------------------------------===//
// Searches
//===----------------------------------------------------------------------===//

/// A search from a group: along users towards a later group, or along producers
/// towards an earlier group.
struct KernelOrder::Search {
  const Edges &edges;
  unsigned from, to, number;
  bool isDown;
  /// The groups reached so far, in order of visit. The search next follows edge
  /// number `edge` of op number `member` in the group reached[group].
  SmallVector<unsigned> reached = {from};
  unsigned group = 0, member = 0, edge = 0;

  bool isThrough() const { return group == reached.size(); }
};

// Moves a search to its next edge; false if no edge is left.
bool KernelOrder::advance(Search &search, unsigned &source,
                          unsigned &target) const {
  for (; search.group < search.reached.size(); ++search.group) {
    source = search.reached[search.group];
    for (; search.member < members[source].size(); ++search.member) {
      ArrayRef<unsigned> ends = search.edges.of(members[source][search.member]);
      if (search.edge < ends.size()) {
        target = groupOf[ends[search.edge++]];
        return true;
      }
      search.edge = 0;
    }
    search.member = 0;
  }
  return false;
}

// Follows the next edge of `search`. Returns true if the edge proves a path
// between the two end groups through a third group.
bool KernelOrder::step(Search &search, const Search &other) {
  unsigned source, target;
  if (!advance(search, source, target) || target == source)
    return false;
  if (target == search.to)
    return source != search.from;
  bool isBeyond = search.isDown ? order.isBefore(search.to, target)
                                : order.isBefore(target, search.to);
  if (isBeyond || seenBy[target] == search.number)
    return false;
  if (seenBy[target] == other.number)
    return true;
  seenBy[target] = search.number;
  search.reached.push_back(target);
  return false;
}

// Returns true if a path leads from one group to the other through a third
// group. Steps both searches in turn until the searches meet, or one has
// visited all groups in reach. So the time is that of the shorter search.
bool KernelOrder::findPath(Search &below, Search &above) {
  assert(below.number != above.number && "searches mark groups by number");
  assert(below.from == above.to && below.to == above.from &&
         "the searches go towards each other");
  while (!below.isThrough() && !above.isThrough())
    if (step(below, above) || step(above, below))
      return true;
  return false;
}

// True if the tree shows a path from group `a` to group `b` through a third
// group. Looks at a few edges of the smaller group only; a search finds the
// rest.
bool KernelOrder::isPathInTree(unsigned a, unsigned b) const {
  assert(order.isBefore(a, b) && "a path leads from the earlier group");
  constexpr unsigned kMostTries = 32;
  // Try users of `a` if `a` is smaller, otherwise producers of `b`.
  bool fromAbove = members[a].size() < members[b].size();
  // A user of `a` lies on a path to `b` if the tree has an op of `b` below the
  // user. Only three ops of `b` are tried: the top, the first and the last. A
  // producer of `b` lies on a path from `a` if the tree has the producer below
  // the top of `a`.
  auto isBetween = [&](unsigned op) {
    if (groupOf[op] == a || groupOf[op] == b)
      return false;
    if (!fromAbove)
      return isAbove(top[a], op);
    return isAbove(op, top[b]) || isAbove(op, members[b].front()) ||
           isAbove(op, members[b].back());
  };
  unsigned tries = 0;
  for (unsigned op : members[fromAbove ? a : b])
    for (unsigned neighbour : (fromAbove ? users : producers).of(op)) {
      if (isBetween(neighbour))
        return true;
      if (++tries == kMostTries)
        return false;
    }
  return false;
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

// Joins the groups `place` and `other`, at the position of `place` in the
// order. The joint group has the number of the group with more ops, so few ops
// change their group number.
void KernelOrder::merge(unsigned place, unsigned other) {
  assert(place != other && "two groups");
  unsigned kept = place, gone = other;
  if (members[kept].size() < members[gone].size()) {
    std::swap(kept, gone);
    order.moveAfter(kept, place);
  }
  order.remove(gone);
  for (unsigned op : members[gone])
    groupOf[op] = kept;
  llvm::append_range(members[kept], members[gone]);
  members[gone].clear();
  auto reach = [&](unsigned op) { return left[op] - entered[op]; };
  if (reach(top[gone]) > reach(top[kept]))
    top[kept] = top[gone];
}

bool KernelOrder::isTopological() const {
  for (unsigned op = 0; op < ops.size(); ++op)
    for (unsigned user : users.of(op))
      if (groupOf[op] != groupOf[user] &&
          !order.isBefore(groupOf[op], groupOf[user]))
        return false;
  return true;
}

bool KernelOrder::tryJoin(unsigned a, unsigned b) {
  assert(a != b && !members[a].empty() && !members[b].empty() &&
         "two groups that are there");
  if (order.isBefore(b, a))
    std::swap(a, b);
  if (isPathInTree(a, b))
    return false;
  Search below{users, a, b, ++numSearches, /*isDown=*/true};
  Search above{producers, b, a, ++numSearches, /*isDown=*/false};
  if (findPath(below, above))
    return false;

  // Clear the order between `a` and `b`: move the groups there that depend on
  // `a` behind `b`, or else the groups there on which `b` depends before `a`.
  auto isEarlier = [&](unsigned x, unsigned y) { return order.isBefore(x, y); };
  bool movesDown = below.isThrough();
  Search &through = movesDown ? below : above;
  MutableArrayRef<unsigned> moved =
      MutableArrayRef(through.reached).drop_front();
  llvm::sort(moved, isEarlier);
  if (movesDown) {
    for (unsigned group : llvm::reverse(moved))
      order.moveAfter(group, b);
    merge(b, a);
  } else {
    for (unsigned group : moved)
      order.moveBefore(group, a);
    merge(a, b);
  }
  return true;
}
