// SPDX-License-Identifier: Apache-2.0
#include "passes/Target/Passes.h"

#include "compiler/Dialect/MPC/Target.h"

namespace mpc {
#define GEN_PASS_DEF_ATTACHTARGETPASS
#include "passes/Target/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
class AttachTargetPass
    : public mpc::impl::AttachTargetPassBase<AttachTargetPass> {
public:
  using AttachTargetPassBase::AttachTargetPassBase;

  void runOnOperation() override {
    if (failed(TargetInfo::get(target, getOperation())))
      return signalPassFailure();
    getOperation()->setAttr(kTargetAttr,
                            TargetAttr::get(&getContext(), target));
  }
};
} // namespace
