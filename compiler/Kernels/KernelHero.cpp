// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelHero.h"

#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/MatrixOperand.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

const KernelHero &KernelHero::get(KernelKind kind) {
  switch (kind) {
#define MPC_KERNEL_KIND(KIND, WORD)                                            \
  case KernelKind::KIND:                                                       \
    return heroes::get##KIND();
#include "compiler/Dialect/MPC/KernelKinds.def"
  }
  llvm_unreachable("an unknown kind");
}

std::optional<KernelKind> KernelHero::findKind(Operation *op) {
  auto candidate = dyn_cast<RegionOpInterface>(op);
  if (!candidate)
    return std::nullopt;
  for (size_t i = 0; i < std::size(Words<KernelKind>::list); ++i) {
    auto kind = static_cast<KernelKind>(i);
    const KernelHero &hero = get(kind);
    if (hero.getRole() == candidate.getRegionRole() && hero.isHero(op))
      return kind;
  }
  return std::nullopt;
}

bool mpc::mayBeWrittenOver(BlockArgument argument, const TargetInfo &target) {
  auto kernel = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  bool isReadBesideAProduct =
      llvm::any_of(argument.getUsers(), [](Operation *user) {
        return !hasRole(user, RegionRole::Contraction) && !movesOperand(user);
      });
  return isReadBesideAProduct &&
         llvm::is_contained(kernel.getResultTypes(), argument.getType()) &&
         KernelHero::get(*getKernelKind(kernel))
             .writesWhereItReads(kernel, target);
}

bool mpc::mayHold(KernelKind kind, Operation *op) {
  auto candidate = dyn_cast<RegionOpInterface>(op);
  if (!candidate)
    return false;
  RegionRole role = candidate.getRegionRole();
  return role == RegionRole::Constant || role == RegionRole::Elementwise ||
         role == KernelHero::get(kind).getRole();
}

int64_t mpc::divideEvenly(int64_t extent, int64_t most, int64_t unit) {
  int64_t parts = llvm::divideCeilSigned(extent, most);
  return llvm::alignTo(llvm::divideCeilSigned(extent, parts), unit);
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel) {
  return KernelHero::get(*getKernelKind(kernel)).partition(kernel);
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel,
                                        const TargetInfo &target) {
  if (!target.isGPU())
    return getKernelPartition(kernel);
  return KernelHero::get(*getKernelKind(kernel)).partition(kernel, target);
}
