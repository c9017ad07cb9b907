// The common base of row and column reduction kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_HEROES_REDUCTIONS_H
#define MPC_COMPILER_KERNELS_HEROES_REDUCTIONS_H

#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSpace.h"

namespace mpc::heroes {

/// A kernel of reductions over the same axes, with the elementwise ops before
/// and after them.
class ReductionHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Reduction; }
  Company getCompany() const override { return Company::Heroes; }
  Growth getGrowth() const override { return Growth::Reductions; }
  bool loadsByElement() const override { return true; }
  /// Checks that the reduced axes are adjacent and that the result has the rank
  /// of the operand: reduced axes have extent 1.
  llvm::LogicalResult verify(mlir::Operation *hero) const override;
};

} // namespace mpc::heroes

#endif // MPC_COMPILER_KERNELS_HEROES_REDUCTIONS_H
