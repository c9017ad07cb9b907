// mpc explain: shows which type every op got, and why.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/KernelCasts.h"
#include "compiler/Precision/Policy/PrecisionPolicy.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/PredictedTimes.h"
#include "tools/mpc/flags/RecordedFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>
#include <cstdlib>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct ExplainCommand {
  CompileOptions compile;
  std::vector<std::string> nodes;
  std::string format;
  bool printsPolicy = false, isVerbose = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

static ExitCode reportUnknownNode(const DecisionReport &report,
                                  const std::string &node) {
  std::vector<std::string> near = report.suggest(node);
  return reportError(
      ExitCode::Usage,
      "no node is called '" + node + "'; " +
          (near.empty()
               ? ""
               : "did you mean '" + llvm::join(near, "' or '") + "'? ") +
          "mpc explain --format=table lists them");
}

// Prints the decisions as a table. Shortens names to fit rows to the width of
// the terminal, and then prints a note.
static void printTable(const DecisionReport &report, llvm::raw_ostream &os) {
  bool isShortened = report.printTable(os, getColumnsOfStdout());
  os.flush();
  if (isShortened)
    llvm::errs() << "note: names are shortened to the width of the terminal; "
                    "a file or a pipe gets them in full\n";
}

static ExitCode runExplain(const ExplainCommand &command) {
  Driver driver;
  std::optional<KernelCasts> kernels;
  // Form kernels in a copy: decisions refer to the ops of the module.
  auto formKernels = [&] {
    mlir::OwningOpRef<mlir::ModuleOp> copy = driver.getModule().clone();
    nameOpsByIds(*copy);
    if (failed(runStage(*copy, command.compile.pipeline, Stage::Fusion)))
      return mlir::failure();
    kernels.emplace(*copy);
    return mlir::success();
  };
  if (ExitCode code = driver.compile(command.compile, Stage::Precision,
                                     llvm::errs(), formKernels);
      code != ExitCode::Done)
    return code;
  noteForwardOnly(driver.getModule());
  DecisionReport report(driver.getModule(), command.isVerbose);
  report.addCasts(*kernels);
  if (!command.nodes.empty())
    if (auto unknown = report.select(command.nodes))
      return reportUnknownNode(report, *unknown);

  // JSON lines, dot and HTML have own rules for escaping names. PrintableStream
  // would replace characters, so print without it.
  if (command.format == "jsonl")
    report.printJSONL(llvm::outs());
  else if (command.format == "dot")
    report.printDot(llvm::outs());
  else if (command.format == "html")
    report.printPage(llvm::outs(),
                     llvm::sys::path::filename(command.compile.model.model));
  if (command.format == "jsonl" || command.format == "dot" ||
      command.format == "html")
    return ExitCode::Done;

  PrintableStream os(llvm::outs());
  if (command.nodes.empty())
    os << llvm::join(report.getSummary(), "\n") << "\n\n";
  if (command.format == "table")
    printTable(report, os);
  else if (command.format == "reasons")
    report.printReasons(os);
  else
    report.printCounts(os);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The policy
//===----------------------------------------------------------------------===//

static ExitCode runPrintPolicy(const ExplainCommand &command) {
  mlir::MLIRContext context;
  context.loadDialect<amp::AMPDialect>();
  PrecisionPolicy fp16(mlir::Float16Type::get(&context));
  PrecisionPolicy bf16(mlir::BFloat16Type::get(&context));
  const std::string &file = command.compile.pipeline.precision.policy;
  for (PrecisionPolicy *policy : {&fp16, &bf16})
    if (llvm::Error error =
            file.empty() ? llvm::Error::success() : policy->load(file))
      return reportError(ExitCode::Usage, llvm::toString(std::move(error)));
  printPolicy(llvm::outs(), fp16, bf16);
  return ExitCode::Done;
}

static ExitCode run(ExplainCommand &command) {
  if (command.printsPolicy)
    return runPrintPolicy(command);
  if (command.compile.model.model.empty())
    throw CLI::RequiredError("model");
  if (command.format.empty())
    command.format = command.nodes.empty() ? "summary" : "reasons";
  if (command.format == "times" && !command.nodes.empty())
    return reportError(ExitCode::Usage,
                       "--format=times is about a whole step; leave out " +
                           command.nodes.front());
  if (command.format == "times")
    return printPredictedTimes(command.compile);
  // The other formats do not print which ops follow a flip.
  command.compile.pipeline.listsFollowers =
      llvm::is_contained({"reasons", "jsonl", "html"}, command.format);
  return runExplain(command);
}

void mpc::tools::addExplainCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ExplainCommand>();
  CLI::App *app = program.add_subcommand(
      "explain", "show which type every op got, and why");
  addCompileOptions(*app, command->compile);
  command->compile.assumesBatch = true;
  // The MODEL argument is optional, since --print-policy needs none.
  app->get_option("model")->required(false);
  app->add_option("nodes", command->nodes,
                  "show only these nodes; conv1 includes its backward ops, "
                  "conv1#dx is one of them")
      ->type_name("NODE");
  app->add_option(
         "--format", command->format,
         "output to print:\nsummary: counts per op and "
         "type\nreasons: the chain of reasons of every op\ntable: a "
         "row per op\njsonl: a JSON object per op and line\ndot: the "
         "graph, for Graphviz\nhtml: a page to filter and "
         "sort\ntimes: predicted times of a step in 32-true, "
         "bf16-mixed and 16-mixed\ndefault: summary; with nodes, reasons")
      ->check(CLI::IsMember(
          {"summary", "reasons", "table", "jsonl", "dot", "html", "times"}));
  app->add_flag("--print-policy", command->printsPolicy,
                "print the policy, in the format that --policy reads");
  app->add_flag("-v,--verbose", command->isVerbose,
                "print the estimated nanoseconds of each op too: in reasons, "
                "jsonl and html");
  addMetadataFlag(*app);
  addQuietFlag(*app);
  app->callback(
      [command, &exitCode] { exitCode = static_cast<int>(run(*command)); });
}
