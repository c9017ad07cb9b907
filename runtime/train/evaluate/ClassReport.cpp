// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/ClassReport.h"

#include "runtime/train/evaluate/Scores.h"

namespace mpc::runtime::train {

namespace {

/// The report of class labels, or of probabilities of classes, whose greatest
/// is the label.
class MatrixReporter : public ClassReporter {
public:
  void add(const EvalBatch &batch) override {
    counted.reserve(size_t(batch.prediction.shape[1]));
    for (size_t i = 0; i < batch.labels.size(); ++i)
      if (counts(batch, batch.labels[i]))
        add(Scores(batch, int64_t(i)), batch.labels[i]);
    const int64_t classes = batch.prediction.shape[1];
    for (int64_t i = 0; i < int64_t(batch.targets.size()) / classes; ++i) {
      const Scores scores(batch, i);
      int64_t label = 0;
      for (int64_t c = 1; c < classes; ++c)
        if (batch.targets[size_t(scores.positionOf(c))] >
            batch.targets[size_t(scores.positionOf(label))])
          label = c;
      add(scores, label);
    }
  }

  ClassReport report() const override {
    ClassReport report;
    report.classes = counted.classes();
    report.matrix = matrix;
    report.unpredicted = unpredicted;
    return report;
  }

private:
  void add(const Scores &scores, int64_t label) {
    if (const std::optional<int64_t> predicted = scores.predicted()) {
      counted.add(size_t(*predicted), size_t(label));
      ++matrix[{label, *predicted}];
      return;
    }
    counted.addLabel(size_t(label));
    ++unpredicted;
  }

  ClassCounts counted;
  std::map<std::pair<int64_t, int64_t>, int64_t> matrix;
  int64_t unpredicted = 0;
};

class BinaryReporter : public ClassReporter {
public:
  explicit BinaryReporter(double threshold) : threshold(threshold) {}

  void add(const EvalBatch &batch) override {
    forEachBinary(batch, threshold,
                  [&](size_t c, bool isPredicted, bool isTarget) {
                    counted.add(c, isPredicted, isTarget);
                  });
  }

  ClassReport report() const override {
    ClassReport report;
    report.isBinary = true;
    report.classes = counted.classes();
    for (size_t c = 0; c < report.classes.size(); ++c)
      report.sizes.push_back(counted.sizeOf(c));
    return report;
  }

private:
  const double threshold;
  BinaryCounts counted;
};

} // namespace

std::unique_ptr<ClassReporter> makeClassReporter(const MeasuredLoss &loss) {
  if (!loss.canMeasure())
    return nullptr;
  switch (loss.family) {
  case Family::Classes:
  case Family::Probabilities:
    return std::make_unique<MatrixReporter>();
  case Family::Binary:
    return std::make_unique<BinaryReporter>(thresholdOf(loss.kind));
  case Family::Values:
  case Family::Other:
    return nullptr;
  }
  return nullptr;
}

} // namespace mpc::runtime::train
