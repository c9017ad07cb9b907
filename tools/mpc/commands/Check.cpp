// mpc check: reports all problems of a model at once. Executes no code of the
// model.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/InspectJSON.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

// Compiles a model up to its plan, without machine code, or opens an artifact.
// Problems of the model are the result of the command, printed to `os`, not to
// stderr.
static ExitCode checkModel(const CompileOptions &options,
                           llvm::raw_ostream &os) {
  if (isArtifact(options.model.model)) {
    // An artifact needs no further check, since `open` verifies all of it.
    auto artifact = runtime::Artifact::open(options.model.model);
    if (artifact.ok())
      return ExitCode::Done;
    if (artifact.status().getCode() != runtime::StatusCode::InvalidInput)
      return reportError(artifact.status());
    os << "error: " << artifact.status().message() << "\n";
    return ExitCode::FoundProblems;
  }
  // Importing and planning a model prints all problems to `os`.
  Driver driver;
  ExitCode code = driver.compile(options, Stage::Plan, os);
  return code == ExitCode::InvalidInput || code == ExitCode::Unsupported
             ? ExitCode::FoundProblems
             : code;
}

// Parses printed findings into JSON objects. A finding starts at a line "error:
// ...", "warning: ..." or "note: ...". Any other line continues the finding
// above.
static nlohmann::json parseFindings(llvm::StringRef text) {
  nlohmann::json findings = nlohmann::json::array();
  for (llvm::StringRef line : llvm::split(text.rtrim('\n'), '\n')) {
    auto [severity, message] = line.split(": ");
    const bool begins =
        severity == "error" || severity == "warning" || severity == "note";
    if (begins)
      findings.push_back(
          {{"severity", severity.str()}, {"message", message.str()}});
    else if (!findings.empty())
      findings.back()["message"] =
          findings.back()["message"].get<std::string>() + "\n" + line.str();
  }
  return findings;
}

static ExitCode runCheck(const CompileOptions &options, bool isJSON) {
  if (!isJSON) {
    ExitCode code = checkModel(options, llvm::outs());
    if (code == ExitCode::Done)
      llvm::outs() << options.model.model << ": no problems found\n";
    return code;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  ExitCode code = checkModel(options, os);
  if (code == ExitCode::Done || code == ExitCode::FoundProblems)
    printJSON({{"file", options.model.model},
               {"ok", code == ExitCode::Done},
               {"findings", parseFindings(text)}});
  return code;
}

void mpc::tools::addCheckCommand(CLI::App &program, int &exitCode) {
  // The callback runs after this function returns, and shares ownership of the
  // parsed flags.
  struct Command {
    CompileOptions options;
    std::string format = "text";
  };
  auto command = std::make_shared<Command>();
  CLI::App *app =
      program.add_subcommand("check", "report every problem of a model");
  addCompileOptions(*app, command->options);
  // A model with an open batch size is fine: check it with an assumed size.
  command->options.assumesBatch = true;
  app->add_option("--format", command->format,
                  "text, or json: one object with all findings on one line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  addQuietFlag(*app);
  app->callback([command, &exitCode] {
    exitCode =
        static_cast<int>(runCheck(command->options, command->format == "json"));
  });
}
