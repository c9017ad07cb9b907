// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/RequestOptions.h"

#include "compiler/Support/ExitCode.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

// Reports `error`, which ends mpc with `code`.
static LogicalResult refuseText(ModuleOp module, ExitCode code,
                                llvm::Error error) {
  return withExitCode(module.emitError(), code)
         << llvm::toString(std::move(error));
}

LogicalResult mpc::applyOptions(ModuleOp module,
                                const RequestOptions &options) {
  Request request = getRequest(module);
  if (!options.mode.empty()) {
    bool isUnsupported = false;
    auto mode = parsePrecisionMode(options.mode, isUnsupported);
    if (!mode)
      return refuseText(module,
                        isUnsupported ? ExitCode::Unsupported : ExitCode::Usage,
                        mode.takeError());
    request.mode = *mode;
  }
  if (!options.lossScale.empty()) {
    auto scaling = parseLossScaling(options.lossScale);
    if (!scaling)
      return refuseText(module, ExitCode::Usage, scaling.takeError());
    request.lossScale = *scaling;
  }
  if (!options.policy.empty())
    request.policy = options.policy.str();
  if (!options.keepFP32.empty())
    request.keepFP32 = options.keepFP32.vec();
  if (!options.forceLow.empty())
    request.forceLow = options.forceLow.vec();
  setRequest(module, request);
  return success();
}
