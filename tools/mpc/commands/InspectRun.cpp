// mpc inspect for the files that `mpc train` writes during a run: checkpoints
// and metrics.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "tools/mpc/commands/Inspect.h"
#include "tools/mpc/commands/InspectJSON.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Arrays.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

static bool isCheckpoint(const std::string &folder) {
  return llvm::sys::fs::exists(folder + "/train.json");
}

bool mpc::tools::isCheckpointFolder(const std::string &folder) {
  StatusOr<std::vector<int64_t>> steps = listCheckpoints(folder);
  return isCheckpoint(folder) || (steps.ok() && !steps->empty());
}

static std::string wordOf(const nlohmann::json &value) {
  return value.is_string() ? value.get<std::string>() : textOf(value);
}

// Returns "step 88, 2 epochs and 3 steps, 2,816 samples, 1 skipped".
static std::string describeProgress(const Progress &progress) {
  return "step " + formatCount(progress.step) + ", " +
         formatCount(progress.epoch) + " epoch" +
         (progress.epoch == 1 ? "" : "s") +
         (progress.stepInEpoch > 0
              ? " and " + formatCount(progress.stepInEpoch) + " steps"
              : "") +
         ", " + formatCount(progress.samples) + " samples, " +
         formatCount(progress.skipped) + " skipped";
}

static void printEntries(llvm::raw_ostream &os, llvm::StringRef title,
                         const std::map<std::string, std::string> &entries) {
  os << title << "\n";
  std::vector<std::vector<std::string>> rows;
  for (const auto &[key, value] : entries)
    rows.push_back({"  " + key, value});
  printTable(os, rows);
}

// Parses the recipe of a checkpoint, a JSON object, into texts by key. Leaves
// out empty values.
static std::map<std::string, std::string> readRecipe(const std::string &text) {
  std::map<std::string, std::string> entries;
  const nlohmann::json recipe = parseBoundedJSON(text);
  if (!recipe.is_object())
    return {{"recipe", text}};
  for (const auto &[key, value] : recipe.items())
    if (!value.is_null() && !value.empty() && value != "")
      entries[key] = wordOf(value);
  return entries;
}

static void printArrays(llvm::raw_ostream &os,
                        const std::vector<Array> &arrays) {
  double bytes = 0;
  std::vector<std::vector<std::string>> rows;
  for (const Array &array : arrays) {
    bytes += double(array.bytes());
    std::vector<std::string> row = {"  " + array.name,
                                    std::string(train::nameOf(array.type)) +
                                        " " + describeShape(array.shape)};
    StatusOr<Tensor> value = array.shape.empty() ? toTensor(array) : Tensor();
    // Show the values of scalars, such as step counters and the loss scale.
    if (array.shape.empty() && value.ok())
      row.push_back("= " + describeValues(*value));
    rows.push_back(std::move(row));
  }
  os << "arrays    " << arrays.size() << ", " << formatBytes(bytes) << "\n";
  printTable(os, rows);
}

static nlohmann::json describe(const Progress &progress) {
  return {{"step", progress.step},
          {"epochs", progress.epoch},
          {"step_in_epoch", progress.stepInEpoch},
          {"sample_in_epoch", progress.sampleInEpoch},
          {"samples", progress.samples},
          {"skipped", progress.skipped}};
}

static nlohmann::json describe(const std::string &folder,
                               const CheckpointContents &contents) {
  nlohmann::json object = describeFile(folder, "checkpoint");
  object["progress"] = describe(contents.progress);
  object["settings"] = contents.progress.settings;
  object["run"] = contents.identity;
  if (const auto recipe = contents.identity.find("recipe");
      recipe != contents.identity.end()) {
    object["recipe"] = parseBoundedJSON(recipe->second);
    object["run"].erase("recipe");
  }
  object["arrays"] = tools::describe(contents.arrays);
  return object;
}

static ExitCode inspectCheckpoint(const std::string &folder,
                                  const InspectOptions &options) {
  StatusOr<CheckpointContents> contents = readCheckpointFiles(folder);
  if (!contents.ok())
    return reportError(contents.status());
  if (options.isJSON) {
    printJSON(describe(folder, *contents));
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  os << folder << ": checkpoint of mpc train, complete\n"
     << "progress  " << describeProgress(contents->progress) << "\n";
  printEntries(os, "settings", contents->progress.settings);
  std::map<std::string, std::string> run = contents->identity;
  const std::string recipe = run["recipe"];
  run.erase("recipe");
  printEntries(os, "run", run);
  printEntries(os, "recipe", readRecipe(recipe));
  printArrays(os, contents->arrays);
  return ExitCode::Done;
}

// Prints the checkpoints of a folder as one JSON object. Reports damaged
// checkpoints as errors, without an entry.
static ExitCode listAsJSON(const std::string &folder,
                           const std::vector<int64_t> &steps) {
  ExitCode code = ExitCode::Done;
  nlohmann::json object = describeFile(folder, "checkpoints");
  object["checkpoints"] = nlohmann::json::array();
  for (int64_t step : steps) {
    const std::string path = folder + "/step-" + std::to_string(step);
    StatusOr<CheckpointContents> header = readCheckpointHeader(path);
    if (!header.ok()) {
      code = reportError(header.status());
      continue;
    }
    nlohmann::json entry = describe(header->progress);
    entry["folder"] = path;
    object["checkpoints"].push_back(std::move(entry));
  }
  printJSON(object);
  return code;
}

ExitCode mpc::tools::inspectCheckpoints(const std::string &folder,
                                        const InspectOptions &options) {
  if (isCheckpoint(folder))
    return inspectCheckpoint(folder, options);
  StatusOr<std::vector<int64_t>> steps = listCheckpoints(folder);
  if (!steps.ok())
    return reportError(steps.status());
  if (options.isJSON)
    return listAsJSON(folder, *steps);
  // Print one line per checkpoint. Continue after a damaged checkpoint, but
  // return its error.
  PrintableStream os(llvm::outs());
  os << folder << ": " << steps->size() << " checkpoint"
     << (steps->size() == 1 ? "" : "s") << " of mpc train\n";
  ExitCode code = ExitCode::Done;
  for (int64_t step : *steps) {
    const std::string path = folder + "/step-" + std::to_string(step);
    StatusOr<CheckpointContents> header = readCheckpointHeader(path);
    if (header.ok())
      os << "  " << path << ": " << describeProgress(header->progress) << "\n";
    else
      code = reportError(header.status());
  }
  if (!steps->empty())
    os << "mpc inspect " << folder << "/step-" << steps->back()
       << " shows what it contains\n";
  return code;
}

//===----------------------------------------------------------------------===//
// Metrics
//===----------------------------------------------------------------------===//

bool mpc::tools::isMetricsFile(const std::string &file) {
  if (!llvm::sys::fs::is_regular_file(file))
    return false;
  auto begin = llvm::MemoryBuffer::getFileSlice(file, 9, 0);
  return begin && (*begin)->getBuffer() == "{\"event\":";
}

namespace {
/// The lines of a metrics file that its summary shows.
struct MetricsSummary {
  std::map<std::string, int64_t> events;
  nlohmann::json start, first, last, best, end;
  int64_t malformed = 0;
};
} // namespace

static double numberOf(const nlohmann::json &line, const char *key) {
  const nlohmann::json value = line.value(key, nlohmann::json());
  return value.is_number() ? value.get<double>() : NAN;
}

static void add(MetricsSummary &summary, llvm::StringRef text) {
  nlohmann::json line = parseBoundedJSON(text);
  if (!line.is_object() || !line.value("event", nlohmann::json()).is_string()) {
    ++summary.malformed;
    return;
  }
  const std::string event = line["event"].get<std::string>();
  ++summary.events[event];
  if (event == "start")
    summary.start = line;
  if (event == "end")
    summary.end = line;
  if (event == "train" && summary.first.is_null())
    summary.first = line;
  if (event == "train")
    summary.last = line;
  // numberOf returns NaN for a loss that is not finite, which the file stores
  // as text. Any finite loss is better than NaN.
  const double loss = numberOf(line, "eval_loss");
  const bool isBetter = summary.best.is_null() ||
                        std::isnan(numberOf(summary.best, "eval_loss")) ||
                        loss < numberOf(summary.best, "eval_loss");
  if (event == "eval" && isBetter)
    summary.best = line;
}

// Prints the entries of a metrics line, except the kind of event: "step 88,
// epoch 1, loss 0.7".
static void printLine(llvm::raw_ostream &os, llvm::StringRef title,
                      const nlohmann::json &line) {
  if (!line.is_object())
    return;
  os << title;
  const char *separator = "";
  for (const auto &[key, value] : line.items()) {
    if (key == "event" || value.is_null())
      continue;
    os << separator << key << " " << wordOf(value);
    separator = ", ";
  }
  os << "\n";
}

static void printText(llvm::raw_ostream &os, const std::string &file,
                      const MetricsSummary &summary) {
  os << file << ": metrics of mpc train:";
  for (const auto &[event, count] : summary.events)
    os << " " << event << " x" << count;
  os << "\n";
  printLine(os, "start       ", summary.start);
  printLine(os, "first step  ", summary.first);
  printLine(os, "last step   ", summary.last);
  printLine(os, "best eval   ", summary.best);
  printLine(os, "end         ", summary.end);
}

static nlohmann::json describeMetrics(const std::string &file,
                                      const MetricsSummary &summary) {
  nlohmann::json object = describeFile(file, "metrics");
  object["events"] = summary.events;
  object["start"] = summary.start;
  object["first_step"] = summary.first;
  object["last_step"] = summary.last;
  object["best_eval"] = summary.best;
  object["end"] = summary.end;
  return object;
}

ExitCode mpc::tools::inspectMetrics(const std::string &file,
                                    const InspectOptions &options) {
  auto buffer = llvm::MemoryBuffer::getFile(file, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer)
    return reportError(ExitCode::IO,
                       file + ": cannot read: " + buffer.getError().message());
  MetricsSummary summary;
  // Parse line by line, since a file may be too long to hold as JSON.
  llvm::StringRef rest = (*buffer)->getBuffer();
  while (!rest.empty()) {
    auto [line, after] = rest.split('\n');
    if (!line.trim().empty())
      add(summary, line);
    rest = after;
  }
  if (options.isJSON) {
    printJSON(describeMetrics(file, summary));
  } else {
    PrintableStream os(llvm::outs());
    printText(os, file, summary);
  }
  if (summary.malformed > 0)
    return reportError(ExitCode::InvalidInput,
                       file + ": " + llvm::Twine(summary.malformed) +
                           " lines are not JSON objects with an \"event\"");
  return ExitCode::Done;
}
