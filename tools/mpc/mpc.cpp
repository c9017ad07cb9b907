// mpc: compiles and trains ONNX models in mixed precision.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/Version.h"
#include "tools/mpc/flags/CommandLine.h"
#include "tools/mpc/flags/Configuration.h"
#include "tools/mpc/flags/Effects.h"
#include "tools/mpc/flags/OtherNames.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Interruption.h"
#include "tools/mpc/model/OutOfMemory.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <new>
#include <string>
#include <unistd.h>

using namespace mpc;

static const char description[] =
    "mpc compiles and trains ONNX models in mixed precision.\n\n"
    "  mpc train model.onnx --data train.npz --loss softmax_cross_entropy \\\n"
    "      --optimizer adamw --lr 1e-3 --epochs 10 --precision bf16-mixed\n"
    "  mpc explain model.onnx --precision bf16-mixed\n"
    "  mpc compile model.onnx --emit=precision -o -\n";

// Parses the arguments, runs the named subcommand, and returns the exit code.
static int run(CLI::App &program, int argc, char **argv, int &exitCode) {
  try {
    program.parse(argc, argv);
    return exitCode;
  } catch (const CLI::Success &help) {
    return program.exit(help);
  } catch (const CLI::FileError &error) {
    return static_cast<int>(tools::reportError(ExitCode::IO, error.what()));
  } catch (const CLI::Error &error) {
    return static_cast<int>(
        tools::reportError(ExitCode::Usage, tools::describe(program, error)));
  } catch (const std::bad_alloc &) {
    llvm::errs() << "error: out of memory\n";
    return static_cast<int>(ExitCode::IO);
  } catch (const std::exception &error) {
    llvm::errs() << "error: internal error: " << error.what() << "\n";
    return static_cast<int>(ExitCode::Internal);
  }
}

// Flushes stdout and reports a failed write like any other error. Without this
// call, LLVM would report the failure at exit and abort.
static int flush(int exitCode) {
  std::cout.flush();
  llvm::outs().flush();
  llvm::errs().clear_error();
  if (!llvm::outs().has_error())
    return exitCode;
  llvm::errs() << "error: cannot write to stdout: "
               << llvm::outs().error().message() << "\n";
  llvm::errs().clear_error();
  llvm::outs().clear_error();
  return exitCode ? exitCode : static_cast<int>(ExitCode::IO);
}

int main(int argc, char **argv) {
  llvm::setBugReportMsg("mpc crashed, which is a bug in mpc; please report it "
                        "with the model and the command\n");
  tools::prepareSignals();
  llvm::InitLLVM initialize(argc, argv);
  tools::limitCrashReports();
  tools::ignoreFileSizeSignal();
  tools::installMemoryHandlers();
  llvm::sys::SetOneShotPipeSignalFunction(
      [] { _exit(static_cast<int>(ExitCode::IO)); });
  int exitCode = 0;
  CLI::App program(description, "mpc");
  program.set_version_flag("--version", tools::describeVersion);
  program.require_subcommand(1);
  tools::addTrainCommand(program, exitCode);
  tools::addCompileCommand(program, exitCode);
  tools::addEvalCommand(program, exitCode);
  tools::addRunCommand(program, exitCode);
  tools::addExportCommand(program, exitCode);
  tools::addProfileCommand(program, exitCode);
  tools::addExplainCommand(program, exitCode);
  tools::addCheckCommand(program, exitCode);
  tools::addInspectCommand(program, exitCode);
  tools::addReportCommand(program, exitCode);
  tools::addDoctorCommand(program, exitCode);
  tools::Configuration configuration(program);
  tools::addHelpCommands(program);
  tools::finishCommands(program);
  // Check flags here, when the environment and files have set all values and no
  // command has run yet.
  program.parse_complete_callback([&] {
    for (CLI::App *command : program.get_subcommands()) {
      tools::checkOtherNames(*command);
      tools::takeRecordedFlags(*command, configuration);
      tools::checkEffects(*command, configuration);
    }
  });
  return flush(run(program, argc, argv, exitCode));
}
