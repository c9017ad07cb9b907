// mpc report: writes an HTML page of charts from the metrics of one or more
// runs.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Support/NearestNames.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/Inspect.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/report/Page.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
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

// Lists the metrics files (.jsonl) in a folder and its subfolders, sorted by
// path. A folder may hold one run, or all runs of a sweep. Skips hidden
// folders, and with a note, .jsonl files that mpc train has not written.
static StatusOr<std::vector<std::string>>
findMetrics(const std::string &folder) {
  constexpr int deepest = 16;
  std::vector<std::string> files, others;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error,
                                              /*follow_symlinks=*/false),
       end;
       entry != end && !error; entry.increment(error)) {
    if (path::filename(entry->path()).starts_with(".") ||
        entry.level() >= deepest) {
      entry.no_push();
      continue;
    }
    if (path::extension(entry->path()) == ".jsonl")
      (isMetricsFile(entry->path()) ? files : others).push_back(entry->path());
  }
  if (error)
    return Status(StatusCode::IO, folder + ": cannot list: " + error.message());
  llvm::sort(files);
  if (!others.empty())
    note(folder + ": left out, since mpc train has not written them: " +
         listNearestNames("", others));
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

// Names each run after its file, without the extension. If files of several
// folders have one name, adds the parts of the paths in which they differ:
// sweep/a/run.jsonl and sweep/b/run.jsonl become "a" and "b".
static void nameRuns(std::vector<RunMetrics> &runs,
                     const std::vector<std::string> &files) {
  using Parts = llvm::SmallVector<llvm::StringRef>;
  std::vector<Parts> paths;
  llvm::StringSet<> stems;
  for (llvm::StringRef file : files) {
    Parts parts(path::begin(file), path::end(file));
    parts.back().consume_back(path::extension(file));
    stems.insert(parts.back());
    paths.push_back(std::move(parts));
  }
  size_t front = 0, back = 0;
  const auto have = [&](size_t count, auto &&part) {
    return llvm::all_of(paths, [&](const Parts &parts) {
      return parts.size() > count && part(parts) == part(paths.front());
    });
  };
  while (stems.size() == 1 && files.size() > 1 &&
         have(back + 1, [&](const Parts &p) { return p[p.size() - back - 1]; }))
    ++back;
  while (have(front + back + 1, [&](const Parts &p) { return p[front]; }))
    ++front;
  llvm::StringSet<> labels;
  for (auto [run, parts, file] : llvm::zip_equal(runs, paths, files)) {
    run.name = stems.size() == files.size()
                   ? parts.back().str()
                   : llvm::join(llvm::ArrayRef(parts).slice(
                                    front, parts.size() - front - back),
                                "/");
    labels.insert(run.name);
  }
  // The same file may be given twice.
  if (labels.size() != files.size())
    for (auto [run, file] : llvm::zip_equal(runs, files))
      run.name = file;
}

// Reads the metrics files. Leaves out files of folders, for which `isFound` is
// true, that are no metrics after all.
static ExitCode readRuns(std::vector<std::string> &files,
                         const llvm::StringSet<> &isFound,
                         std::vector<RunMetrics> &runs) {
  std::vector<std::string> read;
  Status problem;
  for (const std::string &file : files) {
    StatusOr<RunMetrics> run = readMetrics(file);
    if (!run.ok() && (run.status().getCode() != StatusCode::InvalidInput ||
                      !isFound.contains(file)))
      return reportError(run.status());
    if (!run.ok()) {
      problem = run.status();
      warn(problem.message() + "; the file is left out");
      continue;
    }
    runs.push_back(std::move(*run));
    read.push_back(file);
  }
  files = std::move(read);
  return files.empty() ? reportError(problem) : ExitCode::Done;
}

static ExitCode runReport(const ReportCommand &command) {
  std::vector<std::string> files;
  llvm::StringSet<> isFound;
  std::vector<RunMetrics> runs;
  // Find all files before writing the page, to refuse a page that would
  // overwrite one.
  for (const std::string &run : command.runs) {
    StatusOr<std::vector<std::string>> found = resolve(run);
    if (!found.ok())
      return reportError(found.status());
    for (const std::string &file : *found)
      if (file != run)
        isFound.insert(file);
    files.insert(files.end(), found->begin(), found->end());
  }
  if (ExitCode code = refuseOverwriting("-o", command.output, files);
      code != ExitCode::Done)
    return code;
  if (ExitCode code =
          checkDestination("-o", command.output, /*replaces=*/false);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = readRuns(files, isFound, runs); code != ExitCode::Done)
    return code;
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
  if (!isQuiet())
    llvm::outs() << "wrote " << command.output << "\n";
  return ExitCode::Done;
}

void mpc::tools::addReportCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ReportCommand>();
  CLI::App *app = program.add_subcommand(
      "report", "write a page of charts from the metrics of training runs");
  app->add_option("run", command->runs,
                  "metrics of mpc train in JSON lines, or a folder of such "
                  "files, also in subfolders; several runs are compared")
      ->required()
      ->type_name("RUN");
  app->add_option("-o,--output", command->output,
                  "HTML page to write, - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
  addQuietFlag(*app);
  app->callback([command, &exitCode] {
    exitCode = static_cast<int>(runReport(*command));
  });
}
