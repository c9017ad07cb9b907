// mpc check: every finding about a model in one go; executes nothing.
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

// What is wrong with the model is this command's result, and goes to `os`.
static ExitCode checkModel(const CompileOptions &options,
                           llvm::raw_ostream &os) {
  if (isArtifact(options.model.model)) {
    // An artifact checks itself when it is opened.
    auto artifact = runtime::Artifact::open(options.model.model);
    if (artifact.ok())
      return ExitCode::Done;
    if (artifact.status().getCode() != runtime::StatusCode::InvalidInput)
      return reportError(artifact.status());
    os << "error: " << artifact.status().message() << "\n";
    return ExitCode::FoundProblems;
  }
  // A model is compiled as far as a plan; what is wrong is printed on the way.
  Driver driver;
  ExitCode code = driver.compile(options, Stage::Plan, os);
  return code == ExitCode::InvalidInput || code == ExitCode::Unsupported
             ? ExitCode::FoundProblems
             : code;
}

// Findings as objects: each begins with a line "error: ...", "warning: ..." or
// "note: ...", and what follows it belongs to it.
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
  // What the flags are read into lives as long as the callback.
  struct Command {
    CompileOptions options;
    std::string format = "text";
  };
  auto command = std::make_shared<Command>();
  CLI::App *app =
      program.add_subcommand("check", "report every problem of a model");
  addCompileOptions(*app, command->options);
  // A batch that is left open is no problem of the model.
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
