// Turns functions on tensors into programs on buffers.
//
// Every value gets memory: state and inputs their own, a reshape that of its
// source, everything else a slice of the arena whose offset is assigned later.
// A new value of a state variable is written over the old one where everything
// that reads the old one is done by then; otherwise it is copied at the end. An
// elementwise kernel may write over an operand that nothing needs any more.
// A scan's carried values lie where its results do, and are treated in its body
// as state is in a function. Both branches of a condition write its results.
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
    // Bodies of loops and branches become steps of the programs that call them.
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
      if (failed(ProgramBuilder(function, symbols, target, tf32).run()))
        return signalPassFailure();
      function.erase();
    }
    // Those have been copied into each caller.
    for (StringRef body : bodies)
      symbols.lookup(body)->erase();
    // Copies of rows need no code: plan.copy does them.
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!findRowCopies(kernel, target).empty())
        kernel.erase();
  }
};
} // namespace
