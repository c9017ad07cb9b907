// Decides which ops of a block will share a kernel.
//
// Two stages use the decision: Precision to price casts and saved tensors,
// Fusion to form the kernels. The decision depends on roles, shapes and uses,
// never on element types, so both stages get the same answer.
//
// Kernels form around heroes, in this order:
// - Contractions take the elementwise ops that follow: their epilogue. The
//   epilogue may read full tensors, rows, columns or scalars at the computed
//   element.
// - Reductions take preceding elementwise ops. Reductions over trailing axes
//   also take the elementwise ops that follow, and further reductions of the
//   same rows.
// - The remaining elementwise ops form pointwise kernels.
//
// Ops only join if no path between the ops leaves the kernel. The kernels can
// then be put in an order. Finally, kernels that have become too large are cut
// (RegionSplit.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONANALYSIS_H
#define MPC_COMPILER_REGIONS_REGIONANALYSIS_H

#include "compiler/Kernels/KernelHero.h"

namespace mpc {

/// Ops that share a kernel, in program order.
struct KernelRegion {
  /// nullopt for a composite op, which the Fusion stage decomposes first.
  std::optional<KernelKind> kind;
  /// The op that decides the loops: the contraction, the first reduction, or
  /// the first op.
  mlir::Operation *hero = nullptr;
  llvm::SmallVector<mlir::Operation *> ops;
  /// The iteration shape, and the reduced axes of a reduction.
  llvm::SmallVector<int64_t> space;
  llvm::SmallVector<int64_t> axes;
  /// The number of parts in which a reduction sums the first of `axes`. Each
  /// part gives a sum of its own.
  int64_t parts = 1;

  /// The ops that the kernel fuses; Growth::None for a composite op.
  Growth getGrowth() const {
    return kind ? KernelHero::get(*kind).getGrowth() : Growth::None;
  }
  bool isElementwise() const { return getGrowth() == Growth::Elementwise; }
  /// True if the kernel's loops pass over the elements again after a reduction.
  /// Such a kernel can hold ops that read the results of the reduction.
  bool passesAgain() const {
    return kind && KernelHero::get(*kind).passesAgain();
  }

  /// True if `other` reduces tensors of the same shape along the same axes, in
  /// as many parts.
  bool reducesLike(const KernelRegion &other) const {
    return space == other.space && axes == other.axes && parts == other.parts;
  }
};

/// True if `value` is a constant of one repeated value. The constant becomes
/// part of a kernel's code, except in kernels that copy memory.
bool isSplatConstant(mlir::Value value);

/// The kernels of one block. Valid as long as the block does not change.
class RegionAnalysis {
public:
  explicit RegionAnalysis(mlir::Block &block);

  /// The kernels, in the order of their heroes.
  llvm::ArrayRef<KernelRegion> getRegions() const { return regions; }

  /// Returns the kernel of `op`; null for views, constants and ops without a
  /// role.
  const KernelRegion *getRegion(mlir::Operation *op) const;

  /// True if `value` stays in registers: every use is in the producer's kernel.
  bool isInternal(mlir::Value value) const;

private:
  llvm::SmallVector<KernelRegion> regions;
  llvm::DenseMap<mlir::Operation *, unsigned> regionOf;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONANALYSIS_H
