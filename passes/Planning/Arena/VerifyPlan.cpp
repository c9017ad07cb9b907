// Checks that each launch divides the work as its kernel expects.
//
// The shapes of a kernel determine its loops, and the verifier of plan.launch
// checks the buffers. The pass compares extent, grain, threads and memory of
// each launch with the kernel's partition: a launch with a larger extent would
// make the kernel write past the end of its buffers.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelPartition.h"

#include "mlir/IR/SymbolTable.h"

namespace mpc {
#define GEN_PASS_DEF_VERIFYPLANPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct VerifyPlanPass : public mpc::impl::VerifyPlanPassBase<VerifyPlanPass> {
  void runOnOperation() override;
};
} // namespace

static LogicalResult verifyDivision(plan::LaunchOp launch,
                                    const KernelPartition &partition) {
  struct {
    StringRef name;
    uint64_t found;
    int64_t expected;
  } numbers[] = {
      {"extent", launch.getExtent(), partition.extent},
      {"grain", launch.getGrain(), partition.grain},
      {"threads", launch.getThreads().value_or(1), partition.threads},
      {"shared_bytes", launch.getSharedBytes().value_or(0), partition.shared},
      {"scratch_bytes", launch.getScratchBytes().value_or(0),
       partition.scratch}};
  for (const auto &[name, found, expected] : numbers)
    if (static_cast<int64_t>(found) != expected)
      return launch.emitOpError("expected ")
             << name << " " << expected << ", which @" << launch.getKernel()
             << " is made for, found " << static_cast<int64_t>(found);
  return success();
}

void VerifyPlanPass::runOnOperation() {
  const TargetInfo target = getTarget(getOperation());
  SymbolTable symbols(getOperation());
  llvm::StringMap<KernelPartition> partitions;
  WalkResult result = getOperation().walk([&](plan::LaunchOp launch) {
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (!kernel || !getKernelKind(kernel)) {
      launch.emitOpError("expected a kernel, found @") << launch.getKernel();
      return WalkResult::interrupt();
    }
    // A kernel may have several launches; compute its partition once.
    auto [known, isNew] = partitions.try_emplace(launch.getKernel());
    if (isNew)
      known->second = getKernelPartition(kernel, target);
    return failed(verifyDivision(launch, known->second))
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (result.wasInterrupted())
    signalPassFailure();
}
