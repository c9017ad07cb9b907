// Which values kernels keep in memory for each other, forward for backward
// above all, and which each computes again.
//
// A minimum cut of the block's values, blind to element types. Each value that
// more kernels than its own need is either kept: stored once and loaded by each
// kernel that reads it; or computed again in each of these, from values that
// are kept or that are in memory anyway (parameters, inputs, what contractions,
// windows and movements read or make, results). For example, with h = x * w + b
// of a matrix product and
//
//   h -> t = erf(h / sqrt(2)) -> y = h / 2 * (1 + t)
//
// the gradient of y reads h and t. Keeping t costs a store and a load per
// element, computing it again an erf: so h alone is kept, written by the
// product's tail.
//
// What it costs to compute a value depends on which kernels will, which depends
// on what else is kept. So a cut takes all for granted that could, the next
// those that would by the best cut so far, and the best of all is taken.
//
// Every kernel that reads a value must be able to take what computes it, or the
// value is kept. What a value is computed by has a bound, so that kernels do
// not grow without one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_KEPTVALUES_H
#define MPC_COMPILER_REGIONS_KEPTVALUES_H

#include "compiler/Regions/RegionAnalysis.h"

#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/SetVector.h"

namespace mpc {

class MinCut;

/// Valid as long as the block does not change.
class KeptValues {
public:
  KeptValues(mlir::Block &block, const RegionAnalysis &analysis);

  /// Whether kernels that read the result of `op` compute it themselves, the
  /// kernel of `op` aside.
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
  /// The kernels that compute each op again if exactly the ops of the set are
  /// kept in memory. An op of the set has those kernels that would compute it
  /// again if it were not.
  llvm::DenseMap<mlir::Operation *, Kernels>
  findKernels(mlir::Block &block, const llvm::DenseSet<mlir::Operation *> &);
  llvm::DenseSet<mlir::Operation *> solve(mlir::Block &block);
  int64_t getCost(mlir::Block &block,
                  const llvm::DenseSet<mlir::Operation *> &solution);
  void addValue(mlir::Value value, MinCut &cut);
  void addLoads(mlir::Operation *op, MinCut &cut);

  const Kernels &getReaders(mlir::Value value) const;

  const RegionAnalysis &analysis;
  /// The kernels beside its own that read a value.
  llvm::DenseMap<mlir::Value, Kernels> readers;
  llvm::DenseSet<mlir::Value> inMemory;
  /// For each op that can be computed again: the kernels that would do so,
  /// because they read its result or compute from it.
  llvm::DenseMap<mlir::Operation *, Kernels> needs;
  /// Those of `needs` that a cut takes to do so.
  llvm::DenseMap<mlir::Operation *, Kernels> charged;
  /// Those whose chain would become too long.
  llvm::DenseSet<mlir::Operation *> refused;
  llvm::DenseSet<mlir::Operation *> recomputed;

  /// Of a value in the cut: the first node is with the source unless it is
  /// computed again, the second unless it is needed beyond its kernel.
  struct Nodes {
    unsigned computed, needed;
  };
  llvm::DenseMap<mlir::Value, Nodes> nodes;
  /// By value and kernel that would load it anew.
  llvm::DenseMap<std::pair<mlir::Value, const KernelRegion *>, unsigned> loads;
};

/// The elements that the kernels of a block store and load.
int64_t countTraffic(mlir::Block &block, const RegionAnalysis &analysis);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_KEPTVALUES_H
