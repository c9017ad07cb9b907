// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/report/Page.h"

#include "runtime/RecipeNames.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/report/Chart.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>
#include <deque>
#include <optional>
#include <set>

using namespace mpc;
using namespace mpc::tools;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

/// True if lower values of the metric are better, false if higher values are;
/// nullopt if unknown.
static std::optional<bool> isBetterLess(llvm::StringRef metric) {
  const bool isKnown = metric == "loss" || isLossName(metric) ||
                       runtime::train::checkEvalMetric(metric.str()).ok();
  if (!isKnown)
    return std::nullopt;
  return !runtime::train::isBetterLarge(metric.str());
}

static std::string formatMetric(llvm::StringRef metric, double value) {
  if (!runtime::train::isShare(metric.str()))
    return formatValue(value);
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.2f %%", value * 100);
  return text;
}

/// Returns the position of the best value in the series: the least if `isLess`,
/// else the greatest. nullopt if no value is finite.
static std::optional<size_t> findBest(const Series &series, bool isLess) {
  std::optional<size_t> best;
  for (size_t i = 0; i < series.values.size(); ++i) {
    const double value = series.values[i];
    if (!std::isfinite(value))
      continue;
    if (!best ||
        (isLess ? value < series.values[*best] : value > series.values[*best]))
      best = i;
  }
  return best;
}

static std::string atStep(double step) {
  return " (step " + std::to_string(int64_t(step)) + ")";
}

/// Returns the result of a run for a table: exit code, last and best values.
static std::vector<Fact> outcomeOf(const RunMetrics &run) {
  // First add the exit code and the last loss.
  std::vector<Fact> facts;
  if (run.outcome.empty())
    facts.push_back({"exit code", "none: still running, or killed"});
  facts.insert(facts.end(), run.outcome.begin(), run.outcome.end());
  if (!run.loss.empty())
    facts.push_back({"last loss", formatValue(run.loss.values.back())});
  // Then add the last and the best value of each metric of the evaluations.
  for (const auto &[name, series] : run.evaluations) {
    facts.push_back({"evaluation: " + name + ", last",
                     formatMetric(name, series.values.back()) +
                         atStep(series.steps.back())});
    const std::optional<bool> isLess = isBetterLess(name);
    if (!isLess)
      continue;
    if (auto best = findBest(series, *isLess))
      facts.push_back({"evaluation: " + name + ", best",
                       formatMetric(name, series.values[*best]) +
                           atStep(series.steps[*best])});
  }
  return facts;
}

//===----------------------------------------------------------------------===//
// Charts
//===----------------------------------------------------------------------===//

namespace {
/// Draws the charts of the page: one per quantity, with a line per run.
class Charts {
public:
  explicit Charts(const std::vector<RunMetrics> &runs) : runs(runs) {}
  std::string draw();

private:
  std::string draw(Chart chart, Series RunMetrics::*series);
  std::string drawLoss();
  std::string drawTerm(const std::string &name);
  std::string drawEvaluation(const std::string &metric);
  std::string drawLossScale();
  std::string nameOf(size_t run, llvm::StringRef what) const;

  const std::vector<RunMetrics> &runs;
  std::deque<Series> percentages; ///< values in percent, for the charts
};
} // namespace

/// Returns the label of a line: the name of the run, or the quantity `what` if
/// there is only one run.
std::string Charts::nameOf(size_t run, llvm::StringRef what) const {
  return runs.size() == 1 ? what.str() : runs[run].name;
}

std::string Charts::draw(Chart chart, Series RunMetrics::*series) {
  for (size_t i = 0; i < runs.size(); ++i)
    if (!(runs[i].*series).empty())
      chart.lines.push_back({nameOf(i, chart.title), &(runs[i].*series), i});
  return drawChart(chart);
}

std::string Charts::drawLoss() {
  Chart chart = {"Loss", "", ChartScale::Automatic, ChartStyle::Smooth};
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.lines.push_back({nameOf(i, "training"), &runs[i].loss, i});
    auto evaluated = runs[i].evaluations.find("loss");
    if (evaluated == runs[i].evaluations.end())
      continue;
    const bool isAlone = runs.size() == 1;
    chart.lines.push_back(
        {isAlone ? "evaluation" : runs[i].name + ", evaluation",
         &evaluated->second, isAlone ? 1 : i,
         /*isDashed=*/!isAlone, /*hasPoints=*/true});
  }
  return drawChart(chart);
}

/// Draws one of several losses, in training and in evaluation.
std::string Charts::drawTerm(const std::string &name) {
  Chart chart = {"Loss: " + name, "without its factor", ChartScale::Automatic,
                 ChartStyle::Smooth};
  for (size_t i = 0; i < runs.size(); ++i) {
    const bool isAlone = runs.size() == 1;
    if (auto found = runs[i].terms.find(name); found != runs[i].terms.end())
      chart.lines.push_back({nameOf(i, "training"), &found->second, i});
    if (auto found = runs[i].evaluations.find(name);
        found != runs[i].evaluations.end())
      chart.lines.push_back(
          {isAlone ? "evaluation" : runs[i].name + ", evaluation",
           &found->second, isAlone ? 1 : i,
           /*isDashed=*/!isAlone, /*hasPoints=*/true});
  }
  return drawChart(chart);
}

std::string Charts::drawEvaluation(const std::string &metric) {
  const bool isShare = runtime::train::isShare(metric);
  Chart chart = {"Evaluation: " + metric, isShare ? "%" : ""};
  for (size_t i = 0; i < runs.size(); ++i) {
    auto found = runs[i].evaluations.find(metric);
    if (found == runs[i].evaluations.end())
      continue;
    const Series *series = &found->second;
    if (isShare) {
      series = &percentages.emplace_back(*series);
      for (double &value : percentages.back().values)
        value *= 100;
    }
    chart.lines.push_back({nameOf(i, metric), series, i, /*isDashed=*/false,
                           /*hasPoints=*/true});
  }
  return drawChart(chart);
}

std::string Charts::drawLossScale() {
  Chart chart = {"Loss scale", "", ChartScale::PowersOfTwo, ChartStyle::Steps};
  size_t skipped = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].lossScale.empty())
      continue;
    chart.lines.push_back({nameOf(i, chart.title), &runs[i].lossScale, i});
    chart.marks.push_back({&runs[i].skipped, i});
    skipped += runs[i].skipped.size();
  }
  chart.caption = runtime::train::counted(int64_t(skipped), "skipped step") +
                  (skipped > 0 ? ", ticks at the foot" : "");
  return drawChart(chart);
}

std::string Charts::draw() {
  // Collect the evaluated metrics, which get a chart each; the loss has its own
  // chart.
  std::set<std::string> metrics, terms;
  for (const RunMetrics &run : runs) {
    for (const auto &[name, series] : run.terms)
      terms.insert(name);
    for (const auto &[name, series] : run.evaluations)
      if (name != "loss")
        (isLossName(name) ? terms : metrics).insert(name);
  }
  // Draw results first, then how training went, then speed.
  std::string text = drawLoss();
  for (const std::string &term : terms)
    text += drawTerm(term);
  text += draw({"Accuracy of training batches", "%, before the update",
                ChartScale::Linear, ChartStyle::Smooth},
               &RunMetrics::accuracy);
  for (const std::string &metric : metrics)
    text += drawEvaluation(metric);
  // Rates of a sweep differ by magnitudes. The path of one rate is clearer on a
  // linear axis, as is usual.
  text += draw({"Learning rate", "",
                runs.size() > 1 ? ChartScale::Automatic : ChartScale::Linear},
               &RunMetrics::learningRate);
  text += draw({"Gradient norm", "before clipping", ChartScale::Automatic,
                ChartStyle::Smooth},
               &RunMetrics::gradNorm);
  text += drawLossScale();
  text += draw({"Step time", "ms", ChartScale::Linear, ChartStyle::Smooth,
                /*cutsOutliers=*/true},
               &RunMetrics::stepMs);
  return text;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static const std::string *findFact(const std::vector<Fact> &facts,
                                   llvm::StringRef name) {
  for (const Fact &fact : facts)
    if (fact.name == name)
      return &fact.value;
  return nullptr;
}

static void writeRow(llvm::raw_ostream &os, const std::string &name,
                     const std::vector<std::vector<Fact>> &columns) {
  bool differs = false;
  const std::string *first = findFact(columns.front(), name);
  for (const std::vector<Fact> &column : columns) {
    const std::string *value = findFact(column, name);
    differs |= (value ? *value : "") != (first ? *first : "");
  }
  os << (differs ? "<tr class=\"differs\">" : "<tr>") << "<th scope=\"row\">"
     << escapeHTML(name) << "</th>";
  for (const std::vector<Fact> &column : columns) {
    const std::string *value = findFact(column, name);
    os << "<td>" << (value ? escapeHTML(*value) : "") << "</td>";
  }
  os << "</tr>\n";
}

/// Writes a table with a row per name of a fact and a column per run.
static void writeComparison(llvm::raw_ostream &os, llvm::StringRef title,
                            const std::vector<RunMetrics> &runs,
                            const std::vector<std::vector<Fact>> &columns) {
  os << "<section><h2>" << title << "</h2><div class=\"wide\"><table>\n";
  if (runs.size() > 1) {
    os << "<thead><tr><td></td>";
    for (const RunMetrics &run : runs)
      os << "<th scope=\"col\">" << escapeHTML(run.name) << "</th>";
    os << "</tr></thead>\n";
  }
  os << "<tbody>\n";
  std::set<std::string> done;
  for (const std::vector<Fact> &column : columns)
    for (const Fact &fact : column)
      if (done.insert(fact.name).second)
        writeRow(os, fact.name, columns);
  os << "</tbody></table></div></section>\n";
}

/// Writes the most important numbers of a run as large tiles.
static void writeTiles(llvm::raw_ostream &os, const RunMetrics &run) {
  auto write = [&](llvm::StringRef name, llvm::StringRef value) {
    os << "<div><span>" << escapeHTML(name) << "</span><b>" << escapeHTML(value)
       << "</b></div>\n";
  };
  os << "<div class=\"tiles\">\n";
  // The order is: losses and metrics, then time and memory, then an exit code
  // other than 0.
  if (!run.loss.empty())
    write("last loss", formatValue(run.loss.values.back()));
  for (const auto &[name, series] : run.evaluations)
    write("evaluation: " + name, formatMetric(name, series.values.back()));
  if (!run.loss.empty())
    write("steps", std::to_string(int64_t(run.loss.steps.back())));
  if (const std::string *time = findFact(run.outcome, "median step"))
    write("median step", *time);
  if (!run.lossScale.empty())
    write("skipped steps", std::to_string(run.skipped.size()));
  if (const std::string *memory = findFact(run.outcome, "peak memory"))
    write("peak memory", *memory);
  const std::string *code = findFact(run.outcome, "exit code");
  if (!code || *code != kDone)
    write("exit code", code ? llvm::StringRef(*code) : "none");
  os << "</div>\n";
}

//===----------------------------------------------------------------------===//
// The page
//===----------------------------------------------------------------------===//

std::string mpc::tools::writePage(const std::vector<RunMetrics> &runs) {
  // Write style and script into the page, which must not load anything.
  constexpr size_t mostNames = 3;
  std::string text, names;
  for (const RunMetrics &run : runs)
    names += (names.empty() ? "" : ", ") + run.name;
  if (runs.size() > mostNames)
    names = std::to_string(runs.size()) + " runs";
  llvm::raw_string_ostream os(text);
  os << "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta "
        "charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, "
        "initial-scale=1\">\n<meta http-equiv=\"Content-Security-Policy\" "
        "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
        "'unsafe-inline'\">\n<title>"
     << escapeHTML(names) << " - mpc training report</title>\n<style>\n"
     << kReportStyle << "</style>\n</head>\n<body>\n<header><h1>"
     << escapeHTML(names) << "</h1><p>training report by mpc " MPC_VERSION
     << "</p></header>\n<main>\n";
  if (runs.size() == 1)
    writeTiles(os, runs.front());
  os << "<div class=\"charts\">\n" << Charts(runs).draw() << "</div>\n";
  // Write a table of results, then a table of settings, with one column per
  // run.
  std::vector<std::vector<Fact>> settings, outcomes;
  for (const RunMetrics &run : runs) {
    settings.push_back(run.settings);
    outcomes.push_back(outcomeOf(run));
  }
  os << "<div class=\"tables" << (runs.size() > 1 ? " many" : "") << "\">\n";
  writeComparison(os, "Result", runs, outcomes);
  writeComparison(os, "Settings", runs, settings);
  os << "</div>\n</main>\n<script>\n"
     << kReportScript << "</script>\n</body>\n</html>\n";
  return text;
}
