// Elementwise ops on a tile of a library's product. The library calls the
// kernel once per tile.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/KernelSpace.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class EpilogueHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Elementwise; }
  // No op is the hero of an epilogue: Planning makes epilogues from the ops
  // that follow a library's product.
  bool isHero(Operation *) const override { return false; }
  Company getCompany() const override { return Company::Heroes; }
  bool isCalledPerTile() const override { return true; }
  bool loadsByElement() const override { return true; }
  bool storesArranged() const override { return true; }
  bool storesJoined() const override { return true; }
  bool writesWhereItReads(func::FuncOp kernel,
                          const TargetInfo &) const override {
    return llvm::none_of(kernel.getBody().front(),
                         [](Operation &op) { return isArrangement(&op); });
  }
  KernelPartition partition(func::FuncOp) const override {
    llvm_unreachable("an epilogue is called per tile");
  }
  KernelPartition partition(func::FuncOp, const TargetInfo &) const override {
    llvm_unreachable("there are no epilogues on a GPU");
  }
};
} // namespace

const KernelHero &heroes::getEpilogue() {
  static const EpilogueHero hero;
  return hero;
}
