// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/ClassTable.h"

#include "runtime/train/support/Text.h"
#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime::train;

/// The most classes of a matrix in the text and in JSON, the most rows of the
/// table, and the most confusions in a list.
static constexpr size_t kMostInText = 20, kMostInJSON = 100;
static constexpr size_t kMostConfusions = 10, kMostConfusionsInJSON = 100;

// Returns the class as the user knows it: its name, or its number.
static std::string nameClass(const std::vector<std::string> &names, size_t c) {
  return c < names.size() ? printable(names[c]) : std::to_string(c);
}

static std::string formatShare(double value) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.4f", value);
  return text;
}

namespace {
struct Confusion {
  int64_t label, predicted, count;
};
} // namespace

// Lists the confused labels, the most frequent confusion first.
static std::vector<Confusion> listConfusions(const ClassReport &report) {
  std::vector<Confusion> confusions;
  for (const auto &[pair, count] : report.matrix)
    if (pair.first != pair.second)
      confusions.push_back({pair.first, pair.second, count});
  llvm::stable_sort(confusions, [](const Confusion &a, const Confusion &b) {
    return a.count > b.count;
  });
  return confusions;
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

// Prints rows of cells in columns: the first aligned to the left, all others to
// the right.
static void printRows(llvm::raw_ostream &os,
                      const std::vector<std::vector<std::string>> &rows) {
  std::vector<size_t> widths(rows.front().size());
  for (const auto &row : rows)
    for (auto [width, cell] : llvm::zip(widths, row))
      width = std::max(width, cell.size());
  for (const auto &row : rows) {
    os << "  " << llvm::left_justify(row.front(), unsigned(widths.front()));
    for (size_t i = 1; i < row.size(); ++i)
      os << "  " << llvm::right_justify(row[i], unsigned(widths[i]));
    os << "\n";
  }
}

// Returns the classes to print: all, or those with the lowest F1 of the classes
// that have labels.
static std::vector<size_t> chooseClasses(const ClassReport &report) {
  std::vector<size_t> chosen;
  const bool areAll = report.classes.size() <= kMostInText;
  for (size_t c = 0; c < report.classes.size(); ++c)
    if (areAll || report.classes[c].labels > 0)
      chosen.push_back(c);
  if (areAll)
    return chosen;
  llvm::stable_sort(chosen, [&](size_t a, size_t b) {
    return report.classes[a].share(Agreement::F1) <
           report.classes[b].share(Agreement::F1);
  });
  chosen.resize(std::min(chosen.size(), kMostInText));
  return chosen;
}

static void printClassTable(llvm::raw_ostream &os, const ClassReport &report,
                            const std::vector<std::string> &names) {
  std::vector<std::vector<std::string>> rows = {
      {"class", "precision", "recall", "f1", "iou", "support"}};
  for (size_t c : chooseClasses(report)) {
    const ClassCount &count = report.classes[c];
    rows.push_back({nameClass(names, c)});
    for (Agreement agreement : {Agreement::Precision, Agreement::Recall,
                                Agreement::F1, Agreement::IoU})
      rows.back().push_back(formatShare(count.share(agreement)));
    rows.back().push_back(std::to_string(count.labels));
  }
  printRows(os, rows);
  if (const size_t rest = report.classes.size() - (rows.size() - 1); rest > 0)
    os << "  and " << rest << " other class" << (rest == 1 ? "" : "es")
       << "; these have the lowest f1, --format jsonl has all\n";
}

// Returns the names of the classes whose figures a report has. A single binary
// target tells the second class from the first, so it has the second name.
static std::vector<std::string>
namesOfReported(const ClassReport &report,
                const std::vector<std::string> &names) {
  if (report.isBinary && report.classes.size() == 1 && names.size() == 2)
    return {names[1]};
  return names;
}

// Prints the four counts of each class of binary targets.
static void printBinary(llvm::raw_ostream &os, const ClassReport &report,
                        const std::vector<std::string> &names) {
  std::vector<std::vector<std::string>> rows = {
      {"class", "true +", "false +", "false -", "true -"}};
  for (size_t c : chooseClasses(report)) {
    const ClassCount &count = report.classes[c];
    const int64_t wrong = count.predictions - count.matches;
    const int64_t missed = count.labels - count.matches;
    rows.push_back(
        {nameClass(names, c), std::to_string(count.matches),
         std::to_string(wrong), std::to_string(missed),
         std::to_string(report.sizes[c] - count.matches - wrong - missed)});
  }
  printRows(os, rows);
}

static void printMatrix(llvm::raw_ostream &os, const ClassReport &report,
                        const std::vector<std::string> &names) {
  const size_t size = report.classes.size();
  if (size > kMostInText) {
    const std::vector<Confusion> confusions = listConfusions(report);
    os << "confused most often, of " << confusions.size() << ":\n";
    std::vector<std::vector<std::string>> rows = {
        {"label", "predicted", "count"}};
    for (const Confusion &each :
         llvm::ArrayRef(confusions).take_front(kMostConfusions))
      rows.push_back({nameClass(names, size_t(each.label)),
                      nameClass(names, size_t(each.predicted)),
                      std::to_string(each.count)});
    printRows(os, rows);
    return;
  }
  os << "confusion matrix, a row for each label, a column for each "
        "prediction:\n";
  std::vector<std::vector<std::string>> rows = {{""}};
  for (size_t c = 0; c < size; ++c)
    rows.front().push_back(nameClass(names, c));
  for (size_t label = 0; label < size; ++label) {
    rows.push_back({nameClass(names, label)});
    for (size_t c = 0; c < size; ++c) {
      const auto found = report.matrix.find({int64_t(label), int64_t(c)});
      rows.back().push_back(
          std::to_string(found == report.matrix.end() ? 0 : found->second));
    }
  }
  printRows(os, rows);
}

void mpc::tools::printClasses(llvm::raw_ostream &os, const ClassReport &report,
                              const std::vector<std::string> &names) {
  if (!report.output.empty())
    os << "output " << printable(report.output) << ":\n";
  const std::vector<std::string> reported = namesOfReported(report, names);
  printClassTable(os, report, reported);
  if (report.isBinary)
    printBinary(os, report, reported);
  else
    printMatrix(os, report, names);
  if (report.unpredicted > 0)
    os << "  " << counted(report.unpredicted, "label")
       << " without a prediction: scores are nan\n";
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static std::string printClassJSON(llvm::json::Value value) {
  std::string text;
  llvm::raw_string_ostream(text) << std::move(value);
  return text;
}

static llvm::json::Array describeMatrix(const ClassReport &report) {
  const auto size = int64_t(report.classes.size());
  llvm::json::Array rows;
  for (int64_t label = 0; label < size; ++label) {
    llvm::json::Array row;
    for (int64_t c = 0; c < size; ++c) {
      const auto found = report.matrix.find({label, c});
      row.push_back(found == report.matrix.end() ? 0 : found->second);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

void mpc::tools::addClasses(MetricsLine &line, const ClassReport &report,
                            const std::vector<std::string> &names) {
  const std::string suffix = report.output.empty() ? "" : "@" + report.output;
  const std::vector<std::string> reported = namesOfReported(report, names);
  llvm::json::Array classes;
  for (size_t c = 0; c < report.classes.size(); ++c) {
    const ClassCount &count = report.classes[c];
    llvm::json::Object object{{"class", int64_t(c)},
                              {"precision", count.share(Agreement::Precision)},
                              {"recall", count.share(Agreement::Recall)},
                              {"f1", count.share(Agreement::F1)},
                              {"iou", count.share(Agreement::IoU)},
                              {"support", count.labels},
                              {"predicted", count.predictions},
                              {"correct", count.matches}};
    if (c < reported.size())
      object["name"] = llvm::json::fixUTF8(reported[c]);
    if (report.isBinary)
      object["targets"] = report.sizes[c];
    classes.push_back(std::move(object));
  }
  line.addJSON("eval_classes" + suffix, printClassJSON(std::move(classes)));
  if (report.isBinary)
    return;
  if (report.classes.size() <= kMostInJSON)
    return static_cast<void>(line.addJSON(
        "eval_confusion" + suffix, printClassJSON(describeMatrix(report))));
  llvm::json::Array confused;
  const std::vector<Confusion> confusions = listConfusions(report);
  for (const Confusion &each :
       llvm::ArrayRef(confusions).take_front(kMostConfusionsInJSON))
    confused.push_back(llvm::json::Object{{"label", each.label},
                                          {"predicted", each.predicted},
                                          {"count", each.count}});
  line.addJSON("eval_confused" + suffix, printClassJSON(std::move(confused)));
}
