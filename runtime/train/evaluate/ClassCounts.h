// Counts labels and predictions of each class, and computes metrics from the
// counts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATE_CLASSCOUNTS_H
#define MPC_RUNTIME_TRAIN_EVALUATE_CLASSCOUNTS_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The metrics that follow from the counts of classes. A match is a label that
/// was predicted.
///
///   F1                2 * matches / (labels + predictions)
///   IoU               matches / (labels + predictions - matches)
///   Precision         matches / predictions
///   Recall            matches / labels
///   BalancedAccuracy  scikit-learn's balanced_accuracy_score: the mean recall
///                     of the classes that have labels
///   MCC               scikit-learn's matthews_corrcoef
enum class Agreement { F1, IoU, Precision, Recall, BalancedAccuracy, MCC };

/// Returns the agreement of a metric's name, such as "f1"; nullopt for others.
std::optional<Agreement> agreementOf(const std::string &metric);

struct ClassCount {
  int64_t labels = 0, predictions = 0, matches = 0;

  void add(const ClassCount &other) {
    labels += other.labels;
    predictions += other.predictions;
    matches += other.matches;
  }

  /// Returns the F1, IoU, precision or recall of the class; 0 if the divisor is
  /// 0, as in scikit-learn.
  double share(Agreement agreement) const;
};

/// Counts for class labels: each label and each prediction is one class.
class ClassCounts {
public:
  void add(size_t predicted, size_t label);
  /// Counts a label that was not predicted.
  void addLabel(size_t c);
  /// Adds classes without labels and predictions, up to `size` classes.
  void reserve(size_t size);

  /// Returns the agreement of all classes. F1, IoU, precision and recall are
  /// means over the classes that occur.
  double value(Agreement agreement) const;
  const std::vector<ClassCount> &classes() const { return counts; }
  /// Returns all counts as numbers; `merge` adds such numbers to the counts.
  std::vector<double> sums() const;
  void merge(const std::vector<double> &sums);

private:
  std::vector<ClassCount> counts;
};

/// Counts for binary targets: each class is true or false by itself.
class BinaryCounts {
public:
  void add(size_t c, bool isPredicted, bool isTarget);

  /// Returns the agreement of all classes, the mean over the classes. F1, IoU,
  /// precision and recall are of the positive targets, and their means are over
  /// the classes that occur.
  double value(Agreement agreement) const;
  const std::vector<ClassCount> &classes() const { return counts; }
  /// Returns the number of targets of class `c`, positive or not.
  int64_t sizeOf(size_t c) const { return sizes[c]; }
  /// Returns all counts as numbers; `merge` adds such numbers to the counts.
  std::vector<double> sums() const;
  void merge(const std::vector<double> &sums);

private:
  std::vector<ClassCount> counts;
  std::vector<int64_t> sizes;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATE_CLASSCOUNTS_H
