// mpc check: every finding about a model in one go; executes nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

// What is wrong with the model is this command's result: it goes to stdout.
static ExitCode runCheck(const CompileOptions &options) {
  if (isArtifact(options.model.model)) {
    // An artifact checks itself when it is opened.
    auto artifact = runtime::Artifact::open(options.model.model);
    if (!artifact.ok() &&
        artifact.status().getCode() != runtime::StatusCode::InvalidInput)
      return reportError(artifact.status());
    if (!artifact.ok()) {
      llvm::outs() << "error: " << artifact.status().message() << "\n";
      return ExitCode::FoundProblems;
    }
  } else {
    // A model is compiled as far as a plan; what is wrong is printed on the
    // way.
    Driver driver;
    ExitCode code = driver.compile(options, Stage::Plan, llvm::outs());
    if (code == ExitCode::InvalidInput || code == ExitCode::Unsupported)
      return ExitCode::FoundProblems;
    if (code != ExitCode::Done)
      return code;
  }
  llvm::outs() << options.model.model << ": no problems found\n";
  return ExitCode::Done;
}

void mpc::tools::addCheckCommand(CLI::App &program, int &exitCode) {
  auto options = std::make_shared<CompileOptions>();
  CLI::App *app =
      program.add_subcommand("check", "report every problem of a model");
  addCompileOptions(*app, *options);
  options->assumesBatch = true;
  app->callback([options, &exitCode] {
    exitCode = static_cast<int>(runCheck(*options));
  });
}
