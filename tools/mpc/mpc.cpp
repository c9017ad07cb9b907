// mpc: compiles and trains ONNX models in mixed precision.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Commands.h"
#include "tools/mpc/Options.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

using namespace mpc;

static const char description[] =
    "mpc compiles and trains ONNX models in mixed precision.\n\n"
    "  mpc train model.onnx --data train.npz --loss softmax_cross_entropy \\\n"
    "      --optimizer adamw --lr 1e-3 --epochs 10 --precision bf16-mixed\n"
    "  mpc explain model.onnx --precision bf16-mixed\n"
    "  mpc compile model.onnx --emit=precision -o -\n";

int main(int argc, char **argv) {
  llvm::setBugReportMsg("mpc crashed, which is a bug in mpc; please report it "
                        "with the model and the command\n");
  llvm::InitLLVM initialize(argc, argv);
  int exitCode = 0;
  CLI::App program(description, "mpc");
  program.set_version_flag("--version", "mpc " MPC_VERSION);
  program.require_subcommand(1);
  tools::addTrainCommand(program, exitCode);
  tools::addCompileCommand(program, exitCode);
  tools::addRunCommand(program, exitCode);
  tools::addExplainCommand(program, exitCode);
  tools::addCheckCommand(program, exitCode);
  tools::addInspectCommand(program, exitCode);
  tools::addConfiguration(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success &help) {
    return program.exit(help);
  } catch (const CLI::Error &error) {
    llvm::errs() << "error: " << tools::describe(program, error) << "\n";
    return static_cast<int>(ExitCode::Usage);
  }
  return exitCode;
}
