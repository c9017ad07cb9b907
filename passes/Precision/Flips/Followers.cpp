// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/Flips/Followers.h"

#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

/// The most steps of all searches together: a few seconds of one core. Each
/// flip gets an equal share, so that the result does not depend on the order.
/// In a model of 2000 ops, a share suffices for any flip.
static constexpr uint64_t kMostSteps = 200'000'000;

namespace {
/// Finds the followers of all flips, on all cores.
class FollowerSearch {
public:
  FollowerSearch(const PrecisionGraph &graph, const TargetInfo &target,
                 ArrayRef<Placement> placements);
  std::vector<Followers> run(ArrayRef<Flip> flips);

private:
  void solveDrops(ArrayRef<Flip> flips);
  Followers find(const Flip &flip, PlacementChanges &changes,
                 uint64_t maxSteps) const;

  const PrecisionGraph &graph;
  const LowTypesFinder finder;
  std::vector<LowTypes> present;
  /// Maps each flag to the nodes that get other types without the flag.
  llvm::StringMap<SmallVector<unsigned>> changedByDrop;
};
} // namespace

FollowerSearch::FollowerSearch(const PrecisionGraph &graph,
                               const TargetInfo &target,
                               ArrayRef<Placement> placements)
    : graph(graph), finder(graph, target) {
  for (unsigned i = 0; i < placements.size(); ++i)
    present.push_back(finder.find(i, placements));
}

// Solves the whole problem for each flag of the user: a flag may name many
// nodes, but users give few flags.
void FollowerSearch::solveDrops(ArrayRef<Flip> flips) {
  for (const Flip &flip : flips) {
    if (flip.dropped.empty() || changedByDrop.contains(flip.dropped))
      continue;
    SmallVector<unsigned> &changed = changedByDrop[flip.dropped];
    std::vector<Placement> placed = createGreedyPlacement(/*findsPaths=*/false)
                                        ->place(graph.dropFlag(flip.dropped));
    for (unsigned i = 0; i < present.size(); ++i)
      if (finder.find(i, placed) != present[i])
        changed.push_back(i);
  }
}

Followers FollowerSearch::find(const Flip &flip, PlacementChanges &changes,
                               uint64_t maxSteps) const {
  if (!flip.dropped.empty())
    return changedByDrop.lookup(flip.dropped);
  auto changed = changes.settle(
      graph.listNamed(flip.node),
      flip.toLow ? PlacementNode::Pin::Low : PlacementNode::Pin::High,
      flip.toLow ? Reason::ForceLow : Reason::KeepFP32, maxSteps);
  Followers followers;
  if (changed) {
    followers.emplace();
    for (unsigned node : finder.listDependents(*changed))
      if (finder.find(node, changes) != present[node])
        followers->push_back(node);
  }
  changes.restore();
  return followers;
}

std::vector<Followers> FollowerSearch::run(ArrayRef<Flip> flips) {
  std::vector<Followers> followers(flips.size());
  if (flips.empty())
    return followers;
  solveDrops(flips);
  // Each part works on a copy of the solution.
  const size_t part = std::max<size_t>(256, flips.size() / 64);
  const uint64_t maxSteps = kMostSteps / flips.size();
  const PlacementChanges solution(graph.getProblem());
  MLIRContext *context = graph.getNodes().front().ops.front()->getContext();
  parallelFor(context, 0, llvm::divideCeil(flips.size(), part), [&](size_t i) {
    PlacementChanges changes = solution;
    const size_t end = std::min((i + 1) * part, flips.size());
    for (size_t flip = i * part; flip < end; ++flip)
      followers[flip] = find(flips[flip], changes, maxSteps);
  });
  return followers;
}

std::vector<Followers> amp::findFollowers(const PrecisionGraph &graph,
                                          const TargetInfo &target,
                                          ArrayRef<Placement> placements,
                                          ArrayRef<Flip> flips) {
  return FollowerSearch(graph, target, placements).run(flips);
}
