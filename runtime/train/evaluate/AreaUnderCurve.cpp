// Computes areas under ROC curves from the ranks of scores.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/AreaUnderCurve.h"

#include "runtime/train/evaluate/Scores.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace mpc::runtime::train {

void AreaUnderCurve::add(double score, bool isPositive) {
  scores.push_back({score, isPositive});
}

std::optional<double> AreaUnderCurve::value() const {
  if (std::any_of(scores.begin(), scores.end(),
                  [](const Score &each) { return std::isnan(each.score); }))
    return std::numeric_limits<double>::quiet_NaN();
  std::vector<Score> sorted = scores;
  std::sort(sorted.begin(), sorted.end(),
            [](const Score &a, const Score &b) { return a.score < b.score; });
  // Each positive sample counts the negative samples with a lower score, and
  // half of the negative samples with an equal score.
  double pairs = 0, positives = 0, negatives = 0;
  for (size_t begin = 0; begin < sorted.size();) {
    double equalPositives = 0, equalNegatives = 0;
    const double score = sorted[begin].score;
    for (; begin < sorted.size() && sorted[begin].score == score; ++begin)
      (sorted[begin].isPositive ? equalPositives : equalNegatives) += 1;
    pairs += equalPositives * (negatives + equalNegatives / 2);
    positives += equalPositives;
    negatives += equalNegatives;
  }
  if (positives == 0 || negatives == 0)
    return std::nullopt;
  return pairs / (positives * negatives);
}

double MeanArea::value() const {
  double sum = 0, count = 0;
  for (const AreaUnderCurve &each : classes) {
    const std::optional<double> area = each.value();
    if (!area)
      continue;
    sum += *area;
    ++count;
  }
  return sum / count;
}

std::vector<double> MeanArea::sums() const {
  std::vector<double> values;
  for (const AreaUnderCurve &each : classes) {
    values.push_back(double(each.all().size()));
    for (const auto &[score, isPositive] : each.all())
      values.insert(values.end(), {score, double(isPositive)});
  }
  return values;
}

void MeanArea::merge(const std::vector<double> &sums) {
  size_t c = 0;
  for (auto next = sums.begin(); next != sums.end(); ++c) {
    if (c == classes.size())
      classes.emplace_back();
    for (auto scores = size_t(*next++); scores > 0; --scores, next += 2)
      classes[c].add(next[0], next[1] != 0);
  }
}

static int64_t innerOf(const Shape &shape) {
  return shape.size() < 2 ? 1
                          : numElements(Shape(shape.begin() + 2, shape.end()));
}

void BinaryAreas::add(const EvalBatch &batch) {
  const Shape &shape = batch.prediction.shape;
  classes.resize(shape.size() < 2 ? 1 : size_t(shape[1]));
  const size_t inner = size_t(innerOf(shape));
  for (size_t i = 0; i < batch.targets.size(); ++i)
    classes[i / inner % classes.size()].add(batch.at(int64_t(i)),
                                            batch.targets[i] >= 0.5);
}

/// Returns log p[c] of every class c for one label. Scores have the shape (R,
/// C, d...), with C classes; labels have the shape (R, d...).
static std::vector<double> logProbabilities(const EvalBatch &batch,
                                            int64_t label) {
  assert(batch.prediction.shape.size() >= 2 && "scores of classes");
  const Shape &shape = batch.prediction.shape;
  const int64_t inner = innerOf(shape);
  const int64_t first = label / inner * shape[1] * inner + label % inner;
  std::vector<double> values(static_cast<size_t>(shape[1]));
  for (size_t c = 0; c < values.size(); ++c)
    values[c] = batch.at(first + int64_t(c) * inner);
  const double max = *std::max_element(values.begin(), values.end());
  double total = 0;
  for (double value : values)
    total += std::exp(value - max);
  for (double &value : values)
    value -= max + std::log(total);
  return values;
}

void ClassAreas::add(const EvalBatch &batch) {
  assert(batch.prediction.shape.size() >= 2 && "scores of classes");
  classes.resize(size_t(batch.prediction.shape[1]));
  for (size_t i = 0; i < batch.labels.size(); ++i) {
    if (!counts(batch, batch.labels[i]))
      continue;
    const std::vector<double> values = logProbabilities(batch, int64_t(i));
    for (size_t c = 0; c < classes.size(); ++c)
      classes[c].add(values[c], int64_t(c) == batch.labels[i]);
  }
}

} // namespace mpc::runtime::train
