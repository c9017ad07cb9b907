// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/MinCut.h"

#include <algorithm>
#include <cassert>

using namespace mpc;

static constexpr unsigned kFar = ~0u;

MinCut::MinCut() {
  addNode();
  addNode();
}

unsigned MinCut::addNode() {
  edgesOf.emplace_back();
  return edgesOf.size() - 1;
}

void MinCut::addEdge(unsigned from, unsigned to, int64_t capacity) {
  assert(capacity >= 0 && capacity <= kInfinite && "a capacity");
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, capacity});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

// Whether the sink can still be reached.
bool MinCut::findLevels() {
  level.assign(edgesOf.size(), kFar);
  next.assign(edgesOf.size(), 0);
  level[kSource] = 0;
  llvm::SmallVector<unsigned> reached = {kSource};
  for (size_t i = 0; i < reached.size(); ++i)
    for (unsigned number : edgesOf[reached[i]]) {
      const Edge &edge = edges[number];
      if (edge.left == 0 || level[edge.to] != kFar)
        continue;
      level[edge.to] = level[reached[i]] + 1;
      reached.push_back(edge.to);
    }
  return level[kSink] != kFar;
}

// Sends what one path to the sink takes, always a level on; 0 where there is
// no path. What a node has tried in vain it tries no more at these levels.
int64_t MinCut::push() {
  // Depth first along edges with room to the next level; back where there are
  // none.
  llvm::SmallVector<unsigned> path;
  unsigned node = kSource;
  while (node != kSink) {
    // The next edge of this node that has room and leads one level on.
    if (next[node] < edgesOf[node].size()) {
      unsigned number = edgesOf[node][next[node]];
      const Edge &edge = edges[number];
      if (edge.left > 0 && level[edge.to] == level[node] + 1) {
        path.push_back(number);
        node = edge.to;
      } else {
        ++next[node];
      }
      continue;
    }
    // A dead end: back over the last edge, which is not tried again; its
    // reverse, `^ 1`, leads to where it began.
    if (path.empty())
      return 0;
    node = edges[path.pop_back_val() ^ 1].to;
    ++next[node];
  }
  // The narrowest edge says how much.
  int64_t amount = kInfinite;
  for (unsigned number : path)
    amount = std::min(amount, edges[number].left);
  // What goes forth may later come back, so the reverse edge gains it.
  for (unsigned number : path) {
    edges[number].left -= amount;
    edges[number ^ 1].left += amount;
  }
  return amount;
}

// What the sink can be reached from.
void MinCut::findSinkSide() {
  withSink.clear();
  withSink.resize(edgesOf.size());
  withSink.set(kSink);
  llvm::SmallVector<unsigned> reached = {kSink};
  while (!reached.empty())
    for (unsigned number : edgesOf[reached.pop_back_val()]) {
      unsigned from = edges[number].to;
      if (edges[number ^ 1].left == 0 || withSink.test(from))
        continue;
      withSink.set(from);
      reached.push_back(from);
    }
}

std::optional<int64_t> MinCut::solve() {
  int64_t flow = 0;
  while (findLevels())
    while (int64_t amount = push()) {
      flow += amount;
      if (flow >= kInfinite)
        return std::nullopt;
    }
  findSinkSide();
  return flow;
}
