// Merges kernels with equal computations.
//
// Layers of equal shape have equal kernels, forward, backward and in the
// optimizer. Without merging, code generation would mostly produce copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "mlir/IR/OperationSupport.h"

namespace mpc {
#define GEN_PASS_DEF_DEDUPLICATEKERNELSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

// Ops may differ in location and in discardable attributes, such as the reasons
// for types: neither changes the generated code.
static constexpr auto kFlags = OperationEquivalence::IgnoreLocations |
                               OperationEquivalence::IgnoreDiscardableAttrs;

static llvm::hash_code hashKernel(func::FuncOp kernel) {
  llvm::hash_code hash = llvm::hash_combine(kernel.getFunctionType(),
                                            kernel->getAttr(kKernelAttr));
  for (Operation &op : kernel.getBody().front())
    hash = llvm::hash_combine(
        hash, OperationEquivalence::computeHash(
                  &op, OperationEquivalence::ignoreHashValue,
                  OperationEquivalence::ignoreHashValue, kFlags));
  return hash;
}

static bool doTheSame(func::FuncOp a, func::FuncOp b) {
  return a.getFunctionType() == b.getFunctionType() &&
         a->getAttr(kKernelAttr) == b->getAttr(kKernelAttr) &&
         OperationEquivalence::isRegionEquivalentTo(&a.getBody(), &b.getBody(),
                                                    kFlags);
}

namespace {
struct DeduplicateKernelsPass
    : mpc::impl::DeduplicateKernelsPassBase<DeduplicateKernelsPass> {
  void runOnOperation() override;
};
} // namespace

void DeduplicateKernelsPass::runOnOperation() {
  llvm::DenseMap<size_t, SmallVector<func::FuncOp, 1>> kept;
  llvm::DenseMap<StringAttr, FlatSymbolRefAttr> replacement;
  for (auto kernel :
       llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
    // Kernels with the same hash are candidates; replace a kernel by an equal
    // candidate.
    if (!kernel->hasAttr(kKernelAttr) || kernel.isExternal())
      continue;
    auto &candidates = kept[hashKernel(kernel)];
    auto same = llvm::find_if(candidates, [&](func::FuncOp candidate) {
      return doTheSame(candidate, kernel);
    });
    if (same == candidates.end()) {
      candidates.push_back(kernel);
      continue;
    }
    replacement[kernel.getSymNameAttr()] = FlatSymbolRefAttr::get(*same);
    kernel.erase();
  }
  // Calls of erased kernels go to the equal kernel that stayed.
  getOperation().walk([&](func::CallOp call) {
    auto found = replacement.find(call.getCalleeAttr().getAttr());
    if (found != replacement.end())
      call.setCalleeAttr(found->second);
  });
}
