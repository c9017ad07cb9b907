// Reports how the work of every kernel is divided, as remarks.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"

namespace mpc {
#define GEN_PASS_DEF_PRINTPARTITIONPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct PrintPartitionPass
    : public mpc::impl::PrintPartitionPassBase<PrintPartitionPass> {
  using PrintPartitionPassBase::PrintPartitionPassBase;

  void runOnOperation() override {
    TargetInfo target = getTarget(getOperation());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      std::optional<KernelKind> kind = getKernelKind(function);
      // An epilogue runs on tiles chosen by the library.
      if (!kind || KernelHero::get(*kind).isCalledPerTile())
        continue;
      KernelPartition partition = getKernelPartition(function, target);
      InFlightDiagnostic remark = function.emitRemark("extent ")
                                  << partition.extent << ", grain "
                                  << partition.grain << ", inner "
                                  << partition.inner;
      if (partition.threads > 1)
        remark << ", threads " << partition.threads << ", lanes "
               << partition.lanes << ", vector " << partition.vector;
      if (partition.scratch > 0)
        remark << ", scratch " << partition.scratch;
    }
  }
};
} // namespace
