// mpc report: writes an HTML page of charts from the metrics of one or more
// runs.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/report/Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace {
struct ReportCommand {
  std::vector<std::string> runs;
  std::string output = "report.html";
};
} // namespace

// Lists the metrics files (.jsonl) in a folder, sorted by name. A folder may
// hold one run, or all runs of a sweep.
static StatusOr<std::vector<std::string>>
findMetrics(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; entry != end && !error;
       entry.increment(error))
    if (path::extension(entry->path()) == ".jsonl")
      files.push_back(entry->path());
  if (error)
    return Status(StatusCode::IO, folder + ": cannot list: " + error.message());
  llvm::sort(files);
  if (files.empty())
    return Status(StatusCode::InvalidInput,
                  folder + ": has no metrics file; expected a .jsonl that mpc "
                           "train --metrics has written");
  return files;
}

// Returns the metrics files of a RUN argument: the file itself, or those in the
// folder.
static StatusOr<std::vector<std::string>> resolve(const std::string &run) {
  fs::file_status status;
  if (std::error_code error = fs::status(run, status))
    return Status(StatusCode::IO, run + ": " + error.message());
  if (fs::is_directory(status))
    return findMetrics(run);
  if (fs::is_regular_file(status))
    return std::vector<std::string>{run};
  return Status(StatusCode::InvalidInput,
                run + ": expected a metrics file, or a folder of metrics "
                      "files");
}

// Names each run after its file, without the extension; after the whole path if
// another file has the same name.
static void nameRuns(std::vector<RunMetrics> &runs,
                     const std::vector<std::string> &files) {
  for (size_t i = 0; i < files.size(); ++i) {
    llvm::StringRef stem = path::stem(files[i]);
    const bool isAlone = llvm::count_if(files, [&](llvm::StringRef file) {
                           return path::stem(file) == stem;
                         }) == 1;
    runs[i].name = isAlone ? stem.str() : files[i];
  }
}

static ExitCode runReport(const ReportCommand &command) {
  std::vector<std::string> files;
  std::vector<RunMetrics> runs;
  // Find all files before writing the page, to refuse a page that would
  // overwrite one.
  for (const std::string &run : command.runs) {
    StatusOr<std::vector<std::string>> found = resolve(run);
    if (!found.ok())
      return reportError(found.status());
    files.insert(files.end(), found->begin(), found->end());
  }
  if (ExitCode code = refuseOverwriting("-o", command.output, files);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = checkDestination("-o", command.output);
      code != ExitCode::Done)
    return code;
  for (const std::string &file : files) {
    StatusOr<RunMetrics> run = readMetrics(file);
    if (!run.ok())
      return reportError(run.status());
    runs.push_back(std::move(*run));
  }
  nameRuns(runs, files);
  const std::string page = writePage(runs);
  if (command.output == "-") {
    llvm::outs() << page;
    return ExitCode::Done;
  }
  if (llvm::Error error = writeFileAtomically(
          command.output, [&](llvm::raw_ostream &os) -> llvm::Error {
            os << page;
            return llvm::Error::success();
          }))
    return reportFileError(std::move(error), command.output + ": ");
  llvm::outs() << "wrote " << command.output << "\n";
  return ExitCode::Done;
}

void mpc::tools::addReportCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App *app = program.add_subcommand(
      "report", "write a page of charts from the metrics of training runs");
  app->add_option("run", command->runs,
                  "metrics of mpc train in JSON lines, or a folder of such "
                  "files; several runs are compared")
      ->required()
      ->type_name("RUN");
  app->add_option("-o,--output", command->output,
                  "HTML page to write, - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
  app->callback([command, &exitCode] {
    exitCode = static_cast<int>(runReport(*command));
  });
}
