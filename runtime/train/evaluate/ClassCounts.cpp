// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/ClassCounts.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

namespace mpc::runtime::train {

std::optional<Agreement> agreementOf(const std::string &metric) {
  const std::pair<const char *, Agreement> all[] = {
      {"f1", Agreement::F1},
      {"iou", Agreement::IoU},
      {"precision", Agreement::Precision},
      {"recall", Agreement::Recall},
      {"balanced_accuracy", Agreement::BalancedAccuracy},
      {"mcc", Agreement::MCC}};
  for (const auto &[name, agreement] : all)
    if (metric == name)
      return agreement;
  return std::nullopt;
}

static double divide(double part, double all) {
  return all == 0 ? 0 : part / all;
}

double ClassCount::share(Agreement agreement) const {
  switch (agreement) {
  case Agreement::F1:
    return divide(2 * double(matches), double(labels + predictions));
  case Agreement::IoU:
    return divide(double(matches), double(labels + predictions - matches));
  case Agreement::Precision:
    return divide(double(matches), double(predictions));
  case Agreement::Recall:
  case Agreement::BalancedAccuracy:
  case Agreement::MCC:
    break;
  }
  return divide(double(matches), double(labels));
}

/// The mean of a share over the classes that occur.
static double meanShare(const std::vector<ClassCount> &counts,
                        Agreement agreement) {
  double sum = 0;
  int64_t occurring = 0;
  for (const ClassCount &count : counts) {
    if (count.labels + count.predictions == 0)
      continue;
    ++occurring;
    sum += count.share(agreement);
  }
  return sum / double(occurring);
}

/// The mean recall of the classes that have labels.
static double meanRecall(const std::vector<ClassCount> &counts) {
  std::vector<ClassCount> labelled;
  for (const ClassCount &count : counts)
    if (count.labels > 0)
      labelled.push_back(count);
  return meanShare(labelled, Agreement::Recall);
}

/// Matthews' correlation of labels and predictions, by Gorodkin 2004; 0 if all
/// labels or all predictions are one class.
static double correlate(const std::vector<ClassCount> &counts) {
  double labels = 0, predictions = 0, matches = 0;
  double products = 0, squaredLabels = 0, squaredPredictions = 0;
  for (const ClassCount &count : counts) {
    const double t = double(count.labels), p = double(count.predictions);
    labels += t;
    predictions += p;
    matches += double(count.matches);
    products += t * p;
    squaredLabels += t * t;
    squaredPredictions += p * p;
  }
  if (labels == 0)
    return std::nan("");
  // Labels without a prediction count as predicted to be of a class that has no
  // labels.
  const double missing = labels - predictions;
  squaredPredictions += missing * missing;
  const double spread = (labels * labels - squaredLabels) *
                        (labels * labels - squaredPredictions);
  return divide(matches * labels - products, std::sqrt(spread));
}

static double valueOf(const std::vector<ClassCount> &counts,
                      Agreement agreement) {
  if (agreement == Agreement::MCC)
    return correlate(counts);
  return agreement == Agreement::BalancedAccuracy
             ? meanRecall(counts)
             : meanShare(counts, agreement);
}

//===----------------------------------------------------------------------===//
// ClassCounts
//===----------------------------------------------------------------------===//

void ClassCounts::reserve(size_t size) {
  if (counts.size() < size)
    counts.resize(size);
}

void ClassCounts::add(size_t predicted, size_t label) {
  reserve(std::max(predicted, label) + 1);
  counts[label].matches += predicted == label;
  ++counts[label].labels;
  ++counts[predicted].predictions;
}

void ClassCounts::addLabel(size_t c) {
  reserve(c + 1);
  ++counts[c].labels;
}

double ClassCounts::value(Agreement agreement) const {
  return train::valueOf(counts, agreement);
}

//===----------------------------------------------------------------------===//
// BinaryCounts
//===----------------------------------------------------------------------===//

void BinaryCounts::add(size_t c, bool isPredicted, bool isTarget) {
  if (counts.size() <= c) {
    counts.resize(c + 1);
    sizes.resize(c + 1);
  }
  counts[c].labels += isTarget;
  counts[c].predictions += isPredicted;
  counts[c].matches += isTarget && isPredicted;
  ++sizes[c];
}

double BinaryCounts::value(Agreement agreement) const {
  if (agreement != Agreement::MCC && agreement != Agreement::BalancedAccuracy)
    return meanShare(counts, agreement);
  double sum = 0;
  for (size_t c = 0; c < counts.size(); ++c) {
    // Add the counts of the negative targets, as a second class.
    const ClassCount &yes = counts[c];
    ClassCount no;
    no.labels = sizes[c] - yes.labels;
    no.predictions = sizes[c] - yes.predictions;
    no.matches = sizes[c] - yes.labels - yes.predictions + yes.matches;
    sum += train::valueOf({no, yes}, agreement);
  }
  return sum / double(counts.size());
}

std::vector<double> ClassCounts::sums() const {
  std::vector<double> values;
  for (const ClassCount &count : counts)
    values.insert(values.end(),
                  {double(count.labels), double(count.predictions),
                   double(count.matches)});
  return values;
}

void ClassCounts::merge(const std::vector<double> &sums) {
  assert(sums.size() % 3 == 0 && "three numbers for each class");
  reserve(sums.size() / 3);
  for (size_t i = 0; i < sums.size(); i += 3)
    counts[i / 3].add(
        {int64_t(sums[i]), int64_t(sums[i + 1]), int64_t(sums[i + 2])});
}

std::vector<double> BinaryCounts::sums() const {
  std::vector<double> values;
  for (size_t c = 0; c < counts.size(); ++c)
    values.insert(values.end(),
                  {double(counts[c].labels), double(counts[c].predictions),
                   double(counts[c].matches), double(sizes[c])});
  return values;
}

void BinaryCounts::merge(const std::vector<double> &sums) {
  assert(sums.size() % 4 == 0 && "four numbers for each class");
  const size_t classes = std::max(counts.size(), sums.size() / 4);
  counts.resize(classes);
  sizes.resize(classes);
  for (size_t i = 0; i < sums.size(); i += 4) {
    counts[i / 4].add(
        {int64_t(sums[i]), int64_t(sums[i + 1]), int64_t(sums[i + 2])});
    sizes[i / 4] += int64_t(sums[i + 3]);
  }
}

} // namespace mpc::runtime::train
