// Forms the kernels of a block, for RegionAnalysis alone.
//
// Kernels have as many ops as a model likes, and so have values users. So no
// step looks over a kernel again when it has grown: an edge leads to an op
// once, and again when what kept the op out has joined.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONFORMER_H
#define MPC_COMPILER_REGIONS_REGIONFORMER_H

#include "compiler/Regions/KernelOrder.h"
#include "compiler/Regions/RegionAnalysis.h"

#include <map>

namespace mpc {

/// The kernel an op makes up on its own; nothing where it needs none.
std::optional<KernelRegion> seedRegion(mlir::Operation *op);

/// Whether elementwise `op` can follow the contraction of `region`.
bool fitsTail(mlir::Operation *op, const KernelRegion &region);

/// Whether elementwise `op` has results of a shape that the kernel of a
/// reduction computes: its space, or over rows one value per row.
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

  void growTail(unsigned region);
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
  /// The reductions among the users of a value, by its pointer.
  std::map<void *, Operations> reductionsOf;
  /// The ops of each kernel that read an operand from memory.
  llvm::SmallVector<Operations> memoryReaders;
  /// The pointwise kernels that have taken in all they can.
  llvm::DenseSet<unsigned> hasGrown;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONFORMER_H
