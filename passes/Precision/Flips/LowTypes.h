// Tells which types of the ops are low in a placement.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FLIPS_LOWTYPES_H
#define MPC_PASSES_PRECISION_FLIPS_LOWTYPES_H

#include "compiler/Precision/PrecisionGraph.h"
#include "compiler/Target/TargetInfo.h"
#include "passes/Precision/Flips/PlacementChanges.h"

namespace mpc::amp {

/// The types of an op in a placement: low, or else the type of the model.
struct LowTypes {
  bool computesLow = false, storesLow = false;
  /// True if the results are low only since the GPU's library has no float32
  /// weight gradient of low operands.
  bool isRounded = false;

  bool operator!=(const LowTypes &other) const {
    return computesLow != other.computesLow || storesLow != other.storesLow;
  }
};

/// Finds the types of nodes in placements of one graph. Holds references to the
/// graph and the target.
class LowTypesFinder {
public:
  LowTypesFinder(const PrecisionGraph &graph, const TargetInfo &target);

  /// Returns the types of node `index`, given the placements of all nodes.
  LowTypes find(unsigned index, llvm::ArrayRef<Placement> placements) const;
  LowTypes find(unsigned index, const PlacementChanges &changes) const;

  /// Returns the nodes whose types may change if the placements of `changed`
  /// do, in ascending order.
  llvm::SmallVector<unsigned>
  listDependents(llvm::ArrayRef<unsigned> changed) const;

private:
  /// The placement of one node.
  struct Placed {
    bool isLow, isForcedLow, hasLowConsumer;
  };
  template <typename GetFn>
  LowTypes findBy(unsigned index, GetFn getPlaced) const;
  bool storesLow(unsigned index, Placed placed) const;

  const PrecisionGraph &graph;
  const TargetInfo &target;
  /// For a node with a maximum, or a view of one: the node that computes the
  /// values of which the maximum is, or kNoNode if no node does.
  llvm::DenseMap<unsigned, unsigned> sourceOfMaximum;
  /// The nodes with maxima of the values of each node.
  llvm::DenseMap<unsigned, llvm::SmallVector<unsigned, 1>> maximaOf;
  static constexpr unsigned kNoNode = ~0u;
};

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_FLIPS_LOWTYPES_H
