// Forms the kernels of a block, for RegionAnalysis alone.
//
// Kernels may hold any number of ops, and values may have any number of users.
// To stay fast, no step revisits a whole kernel after the kernel has grown.
// Each edge is tried once. If another op blocked the join, the edge is tried
// again after that op has joined.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONFORMER_H
#define MPC_COMPILER_REGIONS_REGIONFORMER_H

#include "compiler/Regions/KernelOrder.h"
#include "compiler/Regions/RegionAnalysis.h"

#include <map>

namespace mpc {

/// Returns the kernel that `op` alone makes; nullopt if `op` needs no kernel.
std::optional<KernelRegion> seedRegion(mlir::Operation *op);

/// True if elementwise `op` can join the epilogue of the contraction `region`.
bool fitsEpilogue(mlir::Operation *op, const KernelRegion &region);

/// True if the results of elementwise `op` have a shape that the reduction
/// kernel computes: the space, or, in a row kernel, one value per row.
bool fitsReduction(mlir::Operation *op, const KernelRegion &region);

class RegionFormer {
public:
  explicit RegionFormer(mlir::Block &block);
  void run();

  llvm::SmallVector<KernelRegion> regions;

private:
  friend class ReductionGrowth;
  using Operations = llvm::SmallVector<mlir::Operation *>;
  static constexpr unsigned kNone = ~0u;

  unsigned find(mlir::Operation *op) const {
    return op ? regionOfGroup[order.getGroup(op)] : kNone;
  }
  bool isAlonePointwise(mlir::Operation *op) const;
  bool feedsMemory(unsigned producer, unsigned consumer) const;
  bool tryMerge(unsigned into, unsigned from);

  void growEpilogue(unsigned region);
  llvm::ArrayRef<mlir::Operation *> getReductionsOf(mlir::Value tensor);
  void growReduction(unsigned region);
  bool followsReduction(mlir::Operation *op, unsigned region) const;
  void mergeReductions();
  bool addsSums(unsigned region) const;
  void mergeSums();
  void growScatter(unsigned region);
  void growPointwise(unsigned region);
  void mergeSmall();

  llvm::DenseMap<mlir::Operation *, unsigned> position;
  KernelOrder order;
  bool isOnGPU;
  llvm::SmallVector<unsigned> regionOfGroup;
  /// The reductions among the users of a value, by the value's opaque pointer.
  std::map<void *, Operations> reductionsOf;
  /// The ops of each kernel that read an operand from memory.
  llvm::SmallVector<Operations> memoryReaders;
  /// The pointwise kernels that have finished growing.
  llvm::DenseSet<unsigned> hasGrown;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONFORMER_H
