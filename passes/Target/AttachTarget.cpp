// SPDX-License-Identifier: Apache-2.0
#include "passes/Target/Passes.h"

#include "compiler/Support/ExitCode.h"

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
    auto usage = [&] {
      return withExitCode(getOperation().emitError(), ExitCode::Usage);
    };
    auto attribute =
        TargetAttr::getChecked(usage, &getContext(), StringRef(target));
    if (!attribute)
      return signalPassFailure();
    getOperation()->setAttr(kTargetAttr, attribute);
  }
};
} // namespace
