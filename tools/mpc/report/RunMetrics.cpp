// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/report/RunMetrics.h"

#include "runtime/BoundedJSON.h"
#include "runtime/RecipeNames.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/flags/Effects.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <tuple>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using json = nlohmann::json;

void Series::add(double step, double value) {
  if (!empty() && steps.back() == step) {
    values.back() = value;
    return;
  }
  assert((empty() || steps.back() < step) && "steps ascend");
  steps.push_back(step);
  values.push_back(value);
}

void Series::cutAfter(double step) {
  while (!empty() && steps.back() > step) {
    steps.pop_back();
    values.pop_back();
  }
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

// Formats the value of `key` as text for a table of the page; empty if it
// cannot be shown.
static std::string textOf(llvm::StringRef key, const json &value) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (value.is_string())
    os << value.get_ref<const std::string &>();
  else if (value.is_boolean())
    os << (value.get<bool>() ? "yes" : "no");
  else if (value.is_number() && key.ends_with("_bytes"))
    os << formatBytes(value.get<double>());
  else if (value.is_number_float())
    os << llvm::format("%.6g", value.get<double>());
  else if (value.is_number())
    os << value.dump();
  else if (value.is_array() && !value.empty())
    for (const json &element : value)
      os << (&element == &value.front() ? "" : ", ") << textOf(key, element);
  return text;
}

// Returns the key as words: "batch size" for batch_size. Drops "bytes" at the
// end.
static std::string nameOf(llvm::StringRef key) {
  std::string name = key.str();
  std::replace(name.begin(), name.end(), '_', ' ');
  if (llvm::StringRef(name).ends_with(" bytes"))
    name.resize(name.size() - 6);
  return name;
}

// Adds the entries of a JSON object to `facts`, first those with the keys in
// `first`. Leaves out entries without a text.
static void addFacts(const json &values, std::vector<std::string> first,
                     std::vector<Fact> &facts) {
  std::set<std::string> done = {"event"};
  for (const auto &[key, value] : values.items())
    first.push_back(key);
  for (const std::string &key : first) {
    auto value = values.find(key);
    if (value == values.end() || !done.insert(key).second)
      continue;
    // textOf shows one level of nesting, and leaves out deeper values.
    if (std::string text = textOf(key, *value); !text.empty())
      facts.push_back({nameOf(key), std::move(text)});
  }
}

static std::string describeExit(int64_t code) {
  if (code == 0)
    return kDone;
  static const std::map<int64_t, const char *> words = {
      {5, "I/O"},        {6, "device"},    {7, "numeric failure"},
      {8, "checkpoint"}, {129, "SIGHUP"},  {130, "SIGINT"},
      {138, "SIGUSR1"},  {140, "SIGUSR2"}, {143, "SIGTERM"}};
  auto word = words.find(code);
  return std::to_string(code) +
         (word == words.end() ? "" : std::string(" (") + word->second + ")");
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

namespace {
/// Reads the events in the metrics file of a run, one by one, and collects the
/// values.
class MetricsReader {
public:
  explicit MetricsReader(RunMetrics &run) : run(run) {}

  /// Reads one event. Returns an error about the line, or an empty text.
  std::string read(const json &line);
  /// Like `read`, for a row of a table. Unlike events, a table does not tell if
  /// the run was resumed.
  std::string readRow(const json &row);
  bool isEmpty() const { return !hasEvents; }

private:
  std::optional<double> numberOf(const json &line, const std::string &key);
  double stepOf(const json &line);
  void start(const json &line);
  void cutAfter(double step);
  void train(const json &line);
  void evaluate(const json &line);
  void end(const json &line);
  void add(Series &series, double step, std::optional<double> value);

  RunMetrics &run;
  bool hasEvents = false;
  std::string problem; ///< the error in the current line
};
} // namespace

// Returns the number at `key`; nullopt if missing or null. Returns NaN for the
// texts "nan", "inf" and "-inf", which JSON has no numbers for, and for numbers
// too large to draw.
std::optional<double> MetricsReader::numberOf(const json &line,
                                              const std::string &key) {
  constexpr double largest = 1e300;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  auto found = line.find(key);
  if (found == line.end() || found->is_null())
    return std::nullopt;
  if (found->is_number()) {
    const double value = found->get<double>();
    return std::fabs(value) <= largest ? value : nan;
  }
  if (*found == "nan" || *found == "inf" || *found == "-inf")
    return nan;
  problem = "'" + key + "' is not a number";
  return std::nullopt;
}

// Returns the step number of an event. Sets `problem` if it is no whole number.
double MetricsReader::stepOf(const json &line) {
  constexpr int64_t most = int64_t(1) << 53;
  auto found = line.find("step");
  if (found != line.end() && found->is_number_integer() &&
      *found >= int64_t(0) && *found <= most)
    return double(found->get<int64_t>());
  problem = "'step' is not the number of a step";
  return 0;
}

void MetricsReader::add(Series &series, double step,
                        std::optional<double> value) {
  if (!value || !problem.empty())
    return;
  if (!series.empty() && step < series.steps.back())
    problem = "step " + std::to_string(int64_t(step)) + " comes after step " +
              std::to_string(int64_t(series.steps.back()));
  else
    series.add(step, *value);
}

// Returns the recipe without settings that the optimizer does not have.
static json withEffect(json recipe) {
  const json optimizer = recipe.value("optimizer", json());
  if (!optimizer.is_string())
    return recipe;
  for (const char *key : {"momentum", "beta1", "beta2", "eps"})
    if (!hasSetting(optimizer.get_ref<const std::string &>(), key))
      recipe.erase(key);
  // Remove the momentum of sgd: with a momentum, the recipe has the optimizer
  // "momentum".
  if (optimizer == "sgd")
    recipe.erase("momentum");
  return recipe;
}

// Drops the values after step `from`, because a resumed run repeats these
// steps.
void MetricsReader::cutAfter(double from) {
  for (Series *series : {&run.loss, &run.accuracy, &run.learningRate,
                         &run.gradNorm, &run.lossScale, &run.stepMs})
    series->cutAfter(from);
  for (auto *all : {&run.terms, &run.evaluations})
    for (auto &[name, series] : *all)
      series.cutAfter(from);
  while (!run.skipped.empty() && run.skipped.back() > from)
    run.skipped.pop_back();
}

void MetricsReader::start(const json &line) {
  cutAfter(numberOf(line, "resumed_from").value_or(0));
  run.settings.clear();
  run.outcome.clear();
  addFacts(line,
           {"precision", "target", "learning_rate", "lr_scheduler",
            "batch_size", "accumulate", "steps", "samples", "eval_samples",
            "seed", "state_bytes", "activation_bytes", "version", "producer",
            "model", "plan", "data"},
           run.settings);
  if (auto recipe = line.find("recipe");
      recipe != line.end() && recipe->is_object()) {
    std::vector<Fact> facts;
    addFacts(withEffect(*recipe), {"loss", "losses", "optimizer"}, facts);
    run.settings.insert(run.settings.begin(), facts.begin(), facts.end());
  }
}

void MetricsReader::train(const json &line) {
  const double step = stepOf(line);
  add(run.loss, step, numberOf(line, "loss"));
  for (const auto &[key, value] : line.items())
    if (isLossName(key))
      add(run.terms[key], step, numberOf(line, key));
  if (std::optional<double> fraction = numberOf(line, "accuracy"))
    add(run.accuracy, step, *fraction * 100);
  add(run.learningRate, step, numberOf(line, "lr"));
  add(run.gradNorm, step, numberOf(line, "grad_norm"));
  add(run.lossScale, step, numberOf(line, "loss_scale"));
  add(run.stepMs, step, numberOf(line, "step_ms"));
  if (line.value("skipped", json()) == true &&
      (run.skipped.empty() || run.skipped.back() < step))
    run.skipped.push_back(step);
}

void MetricsReader::evaluate(const json &line) {
  const double step = stepOf(line);
  for (const auto &[key, value] : line.items()) {
    llvm::StringRef name(key);
    if (name.consume_front("eval_") && name != "samples")
      if (std::optional<double> number = numberOf(line, key))
        add(run.evaluations[name.str()], step, number);
  }
}

void MetricsReader::end(const json &line) {
  run.outcome.clear();
  if (std::optional<double> code = numberOf(line, "exit_code");
      code && std::fabs(*code) < 1000)
    run.outcome.push_back({"exit code", describeExit(int64_t(*code))});
  json rest = line;
  for (const char *key : {"exit_code", "median_step_ms", "skipped_total"})
    rest.erase(key);
  if (std::optional<double> ms = numberOf(line, "median_step_ms"))
    rest["median_step"] = train::formatMilliseconds(*ms) + " ms";
  if (auto skipped = line.find("skipped_total"); skipped != line.end())
    rest["skipped_steps"] = *skipped;
  addFacts(rest,
           {"message", "steps", "epochs", "samples", "skipped_steps",
            "median_step", "peak_memory_bytes"},
           run.outcome);
}

std::string MetricsReader::read(const json &line) {
  // Ignore unknown events, which later versions may write.
  auto event = line.is_object() ? line.find("event") : line.end();
  if (event == line.end() || !event->is_string())
    return "expected a JSON object with an \"event\", as mpc train --metrics "
           "writes";
  using Method = void (MetricsReader::*)(const json &);
  const auto method =
      llvm::StringSwitch<Method>(event->get_ref<const std::string &>())
          .Case("start", &MetricsReader::start)
          .Case("train", &MetricsReader::train)
          .Case("eval", &MetricsReader::evaluate)
          .Case("end", &MetricsReader::end)
          .Default(nullptr);
  if (!method)
    return "";
  hasEvents = true;
  problem.clear();
  (this->*method)(line);
  return problem;
}

std::string MetricsReader::readRow(const json &row) {
  const double step = stepOf(row);
  if (row.value("event", json()) == "train" && !run.loss.empty() &&
      run.loss.steps.back() > step)
    cutAfter(step - 1);
  return read(row);
}

// Parses a row of a table of metrics into a JSON object, with the columns as
// keys. Leaves out empty cells.
static json parseRow(llvm::StringRef line,
                     llvm::ArrayRef<llvm::StringRef> columns) {
  json row = json::object();
  llvm::SmallVector<llvm::StringRef> cells;
  line.split(cells, ',');
  for (auto [name, cell] : llvm::zip(columns, cells)) {
    if (cell.empty())
      continue;
    // Read numbers and booleans as JSON; all other cells stay text.
    json value;
    if (!cell.starts_with("[") && !cell.starts_with("{"))
      value = parseBoundedJSON({cell.data(), cell.size()});
    row[name.str()] = value.is_number() || value.is_boolean()
                          ? std::move(value)
                          : json(cell.str());
  }
  return row;
}

StatusOr<RunMetrics> mpc::tools::readMetrics(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    return Status(StatusCode::IO,
                  path + ": cannot read: " + file.getError().message());
  RunMetrics run;
  // A crash may have cut off the last line. Ignore a last line without a
  // newline if it is a table row, or no valid JSON.
  MetricsReader reader(run);
  llvm::StringRef rest = (*file)->getBuffer();
  llvm::SmallVector<llvm::StringRef> columns; // of a table
  for (int64_t number = 1; !rest.empty(); ++number) {
    const bool isWhole = rest.contains('\n');
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (line.trim().empty())
      continue;
    if (number == 1 && line.starts_with("event,")) {
      line.trim().split(columns, ',');
      continue;
    }
    const bool isRow = !columns.empty();
    if (isRow && !isWhole)
      break; // numbers may have lost their last digits
    json value = isRow ? parseRow(line.trim(), columns)
                       : parseBoundedJSON({line.data(), line.size()});
    if (value.is_discarded() && !isWhole && number > 1) {
      note(path + ": the last line is not finished, and left out");
      break;
    }
    const std::string problem =
        isRow ? reader.readRow(value) : reader.read(value);
    clear(value);
    if (!problem.empty())
      return Status(StatusCode::InvalidInput,
                    path + ":" + std::to_string(number) + ": " + problem);
  }
  if (reader.isEmpty())
    return Status(StatusCode::InvalidInput,
                  path + ": has no events of a training run");
  return run;
}
