// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/PredictedTimes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/PlanTime.h"
#include "compiler/Support/TextTable.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mpc;
using namespace mpc::tools;

static plan::ProgramOp findProgram(mlir::ModuleOp module) {
  for (llvm::StringRef name : {kStepFunction, kForwardFunction})
    if (auto program = module.lookupSymbol<plan::ProgramOp>(name))
      return program;
  llvm_unreachable("a module has a step, or only a forward pass");
}

static std::string microseconds(double nanoseconds) {
  return llvm::formatv("{0:F1}", nanoseconds / 1000).str();
}

ExitCode mpc::tools::printPredictedTimes(const CompileOptions &options) {
  using Mode = amp::PrecisionMode;
  using Align = TextTable::Align;
  TextTable table(
      {Align::Left, Align::Right, Align::Right, Align::Right, Align::Right});
  table.addRow({"us", "step", "kernels", "products", "convolutions"});
  std::string place;
  for (Mode mode : {Mode::FP32True, Mode::BF16Mixed, Mode::FP16Mixed}) {
    CompileOptions inMode = options;
    // The flags of a mixed mode do not fit 32-true.
    if (mode == Mode::FP32True)
      inMode.pipeline.precision = {};
    inMode.pipeline.precision.mode = mode;
    Driver driver;
    if (ExitCode code = driver.compile(inMode, Stage::Plan);
        code != ExitCode::Done)
      return code;
    plan::ProgramOp program = findProgram(driver.getModule());
    const PlanTime time = predictTime(program);
    table.addRow({amp::stringifyPrecisionMode(mode).str(),
                  microseconds(time.getTotal()), microseconds(time.kernels),
                  microseconds(time.products),
                  microseconds(time.convolutions)});
    place = getTarget(program).isGPU() ? "on the GPU" : "on one core";
  }
  llvm::outs() << "predicted times of a step " << place << "\n\n";
  table.print(llvm::outs());
  return ExitCode::Done;
}
