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
  assert(from < edgesOf.size() && to < edgesOf.size() && "nodes of the graph");
  edgesOf[from].push_back(edges.size());
  edges.push_back({to, capacity});
  edgesOf[to].push_back(edges.size());
  edges.push_back({from, 0});
}

// Computes the level of each node: its distance from the source along edges
// with capacity left. Returns false if no path leads to the sink.
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

// Sends as much flow as fits along one path to the sink, on which each edge
// leads one level further. Returns the amount; 0 if there is no path. Edges
// that led to dead ends are not tried again before the levels change.
int64_t MinCut::push() {
  // Search depth first, along edges with capacity to the next level; backtrack
  // at dead ends.
  llvm::SmallVector<unsigned> path;
  unsigned node = kSource;
  while (node != kSink) {
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
    // At a dead end, go back over the last edge and do not try the edge again.
    // Edges `n` and `n ^ 1` are each other's reverse.
    if (path.empty())
      return 0;
    node = edges[path.pop_back_val() ^ 1].to;
    ++next[node];
  }
  // The edge with the least capacity limits the amount.
  int64_t amount = kInfinite;
  for (unsigned number : path)
    amount = std::min(amount, edges[number].left);
  assert(amount > 0 && "a path has capacity left on every edge");
  // Sending flow back later is possible along the reverse edge.
  for (unsigned number : path) {
    edges[number].left -= amount;
    edges[number ^ 1].left += amount;
  }
  return amount;
}

// Marks all nodes from which a path with capacity left leads to the sink.
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
