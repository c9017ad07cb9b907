// mpc explain: which type every op got, and why.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/PrintableStream.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct ExplainCommand {
  CompileOptions compile;
  std::vector<std::string> nodes;
  std::string format = "summary";
};
} // namespace

static ExitCode explainNodes(const DecisionReport &report,
                             const std::vector<std::string> &nodes) {
  PrintableStream os(llvm::outs());
  for (const std::string &node : nodes)
    if (!report.explainNode(node, os))
      return reportError(ExitCode::Usage,
                         "no node is called '" + node +
                             "'; mpc explain --format=table lists them");
  return ExitCode::Done;
}

static ExitCode runExplain(const ExplainCommand &command) {
  Driver driver;
  if (ExitCode code = driver.compile(command.compile, Stage::Precision);
      code != ExitCode::Done)
    return code;
  noteForwardOnly(driver.getModule());
  DecisionReport report(driver.getModule());
  if (!command.nodes.empty())
    return explainNodes(report, command.nodes);
  if (command.format == "jsonl") {
    report.printJSONL(llvm::outs());
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  os << report.getSummary() << "\n\n";
  if (command.format == "table")
    report.printNodes(os);
  else
    report.printCounts(os);
  return ExitCode::Done;
}

void mpc::tools::addExplainCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App *app = program.add_subcommand(
      "explain", "show which type every op got, and why");
  addCompileOptions(*app, command->compile);
  app->add_option("nodes", command->nodes,
                  "nodes to give the chain of reasons for; conv1 stands for "
                  "its backward ops too, conv1#dx for that one")
      ->type_name("NODE");
  app->add_option("--format", command->format, "what to print")
      ->check(CLI::IsMember({"summary", "table", "jsonl"}))
      ->capture_default_str();
  app->callback([command, &exitCode] {
    exitCode = static_cast<int>(runExplain(*command));
  });
}
