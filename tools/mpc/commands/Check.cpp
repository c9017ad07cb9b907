// mpc check: reports every finding about a model at once. Executes nothing.
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

// Compiles the model as far as a plan, or opens an artifact. Problems of the
// model are the command's result and go to `os`.
static ExitCode checkModel(const CompileOptions &options,
                           llvm::raw_ostream &os) {
  if (isArtifact(options.model.model)) {
    // `open` verifies the artifact, so opening is the whole check.
    auto artifact = runtime::Artifact::open(options.model.model);
    if (artifact.ok())
      return ExitCode::Done;
    if (artifact.status().getCode() != runtime::StatusCode::InvalidInput)
      return reportError(artifact.status());
    os << "error: " << artifact.status().message() << "\n";
    return ExitCode::FoundProblems;
  }
  // Compiling up to a plan prints all findings on the way.
  Driver driver;
  ExitCode code = driver.compile(options, Stage::Plan, os);
  return code == ExitCode::InvalidInput || code == ExitCode::Unsupported
             ? ExitCode::FoundProblems
             : code;
}

// Parses findings into JSON objects. A finding begins with a line "error: ...",
// "warning: ..." or "note: ..."; any other line continues the finding before.
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
  // The callback keeps the parsed flags alive.
  struct Command {
    CompileOptions options;
    std::string format = "text";
  };
  auto command = std::make_shared<Command>();
  CLI::App *app =
      program.add_subcommand("check", "report every problem of a model");
  addCompileOptions(*app, command->options);
  // An open batch size is no problem of the model.
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
