// Decides which values kernels keep in memory for each other, above all from
// forward to backward, and which values each kernel recomputes.
//
// The decision is a minimum cut over the block's values, independent of element
// types. A value that other kernels need is either kept or recomputed. A kept
// value is stored once, and loaded by each kernel that reads it. A recomputed
// value is computed again in each kernel that needs it, from kept values or
// from values in memory anyway: parameters, inputs, results, and operands and
// results of contractions, windows and movements. For example, with h = x * w +
// b of a matrix product and
//
//   h -> t = erf(h / sqrt(2)) -> y = h / 2 * (1 + t)
//
// the gradient of y reads h and t. Keeping t costs a store and a load per
// element; recomputing t costs an erf. Only h is kept, written by the product's
// epilogue.
//
// A cut needs fixed costs, but the cost of recomputing a value depends on the
// kernels that do so, and thus on which other values are kept. The first cut
// assumes that every kernel that could recompute a value does. Each later cut
// assumes the choices of the best cut so far. The best of all cuts wins.
//
// A value is kept if any reading kernel cannot compute the value. The number of
// ops to recompute a value is limited, so kernels do not grow without bound.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_KEPTVALUES_H
#define MPC_COMPILER_REGIONS_KEPTVALUES_H

#include "compiler/Regions/RegionAnalysis.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {

class MinCut;

/// The decision for the values of one block. Valid as long as the block does
/// not change.
class KeptValues {
public:
  KeptValues(mlir::Block &block, const RegionAnalysis &analysis);

  /// True if other kernels recompute the result of `op` instead of loading the
  /// result.
  bool isRecomputed(mlir::Operation *op) const {
    return recomputed.contains(op);
  }
  bool isAnyRecomputed() const { return !recomputed.empty(); }

private:
  using Kernels = llvm::SmallSetVector<const KernelRegion *, 4>;

  void findReaders(mlir::Block &block);
  void findNeeds(mlir::Block &block);
  bool canRecompute(mlir::Operation *op, const Kernels &kernels) const;
  void limitChains(mlir::Block &block);
  /// Returns, for each recomputable op, the kernels that compute it again if
  /// exactly the ops of the set are recomputed. For an op outside the set,
  /// returns the kernels that would compute the op again if the op joined the
  /// set.
  llvm::DenseMap<mlir::Operation *, Kernels>
  findKernels(mlir::Block &block, const llvm::DenseSet<mlir::Operation *> &);
  llvm::DenseSet<mlir::Operation *> solve(mlir::Block &block);
  int64_t getCost(mlir::Block &block,
                  const llvm::DenseSet<mlir::Operation *> &solution);
  void addValue(mlir::Value value, MinCut &cut);
  void addLoads(mlir::Operation *op, MinCut &cut);

  const Kernels &getReaders(mlir::Value value) const;

  const RegionAnalysis &analysis;
  /// The kernels that read a value, except the value's own kernel.
  llvm::DenseMap<mlir::Value, Kernels> readers;
  llvm::DenseSet<mlir::Value> inMemory;
  /// For each recomputable op: the kernels that read the result, or that need
  /// the result to recompute another op.
  llvm::DenseMap<mlir::Operation *, Kernels> needs;
  /// For each recomputable op: the kernels, all or some of `needs`, whose work
  /// counts as the cost of recomputing the op in the next cut.
  llvm::DenseMap<mlir::Operation *, Kernels> charged;
  /// Ops that are never recomputed, because too many ops would be computed
  /// again.
  llvm::DenseSet<mlir::Operation *> refused;
  llvm::DenseSet<mlir::Operation *> recomputed;

  /// The two nodes of a value in the cut. `computed` is on the sink's side if
  /// the value is recomputed. `needed` is on the sink's side if another kernel
  /// needs the value.
  struct Nodes {
    unsigned computed, needed;
  };
  llvm::DenseMap<mlir::Value, Nodes> nodes;
  /// The nodes of loads that recomputing would add, by loaded value and loading
  /// kernel.
  llvm::DenseMap<std::pair<mlir::Value, const KernelRegion *>, unsigned> loads;
};

/// Counts the elements that the kernels of a block store and load.
int64_t countTraffic(mlir::Block &block, const RegionAnalysis &analysis);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_KEPTVALUES_H
