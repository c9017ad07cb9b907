// Which ops of a block will share a kernel.
//
// The one place that decides: the Precision stage asks it what a cast or a
// saved tensor costs, the Fusion stage forms what it says. It looks at roles,
// shapes and uses, never at element types, so that both get the same answer.
//
// Kernels form around heroes. Contractions go first and take the elementwise
// ops that follow (their tail) as long as these read full tensors, rows,
// columns or scalars at the element just computed. Reductions come next and
// take elementwise ops before them, and over trailing axes also those after
// and further reductions of the same rows. What remains is pointwise. Ops are
// only ever joined where no path between them leaves the kernel, so that
// kernels can be put in an order. What has become too large for a kernel is cut
// in the end (RegionSplit.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONANALYSIS_H
#define MPC_COMPILER_REGIONS_REGIONANALYSIS_H

#include "compiler/Kernels/KernelHero.h"

namespace mpc {

/// Ops that share a kernel, in program order.
struct KernelRegion {
  /// Nothing for a composite op, which the Fusion stage decomposes first.
  std::optional<KernelKind> kind;
  /// The contraction, the first reduction, or the first op.
  mlir::Operation *hero = nullptr;
  llvm::SmallVector<mlir::Operation *> ops;
  /// The shape that is iterated over, and for reductions the reduced axes.
  llvm::SmallVector<int64_t> space;
  llvm::SmallVector<int64_t> axes;
  /// In how many parts the first of these axes is reduced.
  int64_t parts = 1;

  /// What it takes in of the ops around it; nothing in a composite op's.
  Growth getGrowth() const {
    return kind ? KernelHero::get(*kind).getGrowth() : Growth::None;
  }
  bool isElementwise() const { return getGrowth() == Growth::Elementwise; }
  /// Whether ops that need what its reductions give can be in it.
  bool passesAgain() const {
    return kind && KernelHero::get(*kind).passesAgain();
  }

  /// Whether `other` reduces the same elements to the same results.
  bool reducesLike(const KernelRegion &other) const {
    return space == other.space && axes == other.axes && parts == other.parts;
  }
};

/// Whether `value` is a constant of one value: part of the code of the kernels
/// that read it, unless they copy memory.
bool isSplatConstant(mlir::Value value);

/// Valid as long as the block does not change.
class RegionAnalysis {
public:
  explicit RegionAnalysis(mlir::Block &block);

  /// The kernels, in the order of their heroes.
  llvm::ArrayRef<KernelRegion> getRegions() const { return regions; }

  /// The kernel `op` is in; null for views, constants and ops without a role.
  const KernelRegion *getRegion(mlir::Operation *op) const;

  /// Whether `value` lives in registers: every use is in its op's kernel.
  bool isInternal(mlir::Value value) const;

private:
  llvm::SmallVector<KernelRegion> regions;
  llvm::DenseMap<mlir::Operation *, unsigned> regionOf;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONANALYSIS_H
