// Turns functions on tensors into programs on buffers.
//
// Every value gets memory:
// - State variables and inputs have memory of their own.
// - A reshape shares the source's memory.
// - All other values get an allocation in the arena; a later pass assigns the
// offset.
//
// Some results share memory with other values:
// - The new value of a state variable is written over the old value, if all
//   readers of the old value are done. Otherwise, a copy at the end of the
//   program overwrites the old value.
// - An elementwise kernel may overwrite an operand that is not read later.
// - The carried values of a scan use the memory of the scan's results. Inside
//   the body, carried values are treated like state variables of a function.
// - Both branches of a condition write the results of the condition.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"
#include "passes/Planning/Programs/ProgramBuilder.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_BUILDPROGRAMSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct BuildProgramsPass
    : public mpc::impl::BuildProgramsPassBase<BuildProgramsPass> {
  using BuildProgramsPassBase::BuildProgramsPassBase;
  void runOnOperation() override {
    TargetInfo target = getTarget(getOperation());
    SymbolTable symbols(getOperation());
    // Bodies of loops and branches are copied into each calling program.
    llvm::SetVector<StringRef> bodies;
    getOperation().walk([&](Operation *op) {
      if (auto scan = dyn_cast<ScanCallOp>(op))
        bodies.insert(scan.getFunction());
      if (auto condition = dyn_cast<IfCallOp>(op)) {
        bodies.insert(condition.getThenFunction());
        bodies.insert(condition.getElseFunction());
      }
    });
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (getKernelKind(function) || bodies.contains(function.getName()))
        continue;
      if (failed(ProgramBuilder(function, symbols, target).run()))
        return signalPassFailure();
      function.erase();
    }
    // All programs hold copies of the bodies now.
    for (StringRef body : bodies)
      symbols.lookup(body)->erase();
    // Copies of rows need no code, because plan.copy performs them.
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!findRowCopies(kernel, target).empty())
        kernel.erase();
  }
};
} // namespace
