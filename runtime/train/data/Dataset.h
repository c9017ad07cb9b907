// Matches arrays to a model's inputs, checks the arrays once, and serves
// batches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_DATASET_H
#define MPC_RUNTIME_TRAIN_DATA_DATASET_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Column.h"
#include "runtime/train/data/DataFiles.h"
#include "runtime/train/data/Preparation.h"
#include "runtime/train/trainee/Trainee.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

struct DatasetOptions : LabelRange {
  std::string targetArray = "target"; ///< --target-array
  /// The ranges of label inputs that differ, by name.
  std::map<std::string, LabelRange> ranges;
  /// The label input whose classes a split keeps in proportion; empty if none.
  std::string target;
  Preparation preparation;

  /// Returns the valid labels of the input called `input`.
  const LabelRange &rangeOf(const std::string &input) const {
    const auto found = ranges.find(input);
    return found == ranges.end() ? *this : found->second;
  }
};

/// Returns the label input to compare predictions with: the first loss's, or
/// the only label input; empty if there is none.
std::string targetOf(const TraineeInfo &info);

/// Derives facts about the labels from `info`: the class count from the recipe
/// or the prediction's shape, the ignored index from the recipe, and the
/// target.
DatasetOptions datasetOptionsFor(const TraineeInfo &info);

/// True for inputs with a value per sample: data and labels.
bool isSampled(const Port &port);

/// The samples of a batch, and the epoch that seeds their random changes.
struct BatchSamples {
  std::vector<int64_t> positions;
  AugmentedEpoch epoch;

  /// True if the batch has these positions and this epoch. `other` has as many
  /// positions as the batch.
  bool is(const int64_t *other, AugmentedEpoch otherEpoch) const {
    return epoch == otherEpoch &&
           std::equal(positions.begin(), positions.end(), other);
  }
};

/// The bytes of one input for a batch.
struct GatheredInput {
  std::string name;
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};
using GatheredBatch = std::vector<GatheredInput>;

/// Sets the inputs of `function` to a batch.
Status setInputs(Trainee &model, std::string_view function,
                 const GatheredBatch &batch);

/// The samples of one or more files, in the order of a list of indices. Copies
/// share the arrays.
class Dataset {
public:
  /// Matches `arrays` by name to the inputs of role "data" and "label" in
  /// `ports`. Checks shapes, label ranges, and that every value is finite and
  /// fits the input's type. A label input takes the array of its name, or else
  /// the array `targetArray`. Arrays with equal names are joined along the
  /// sample axis. If a single input finds no array, it takes the remaining
  /// columns of a table, side by side. Other arrays are noted.
  static StatusOr<Dataset> create(std::vector<Array> arrays,
                                  const FunctionPorts &ports,
                                  const DatasetOptions &options = {});

  /// Calls `create` with the arrays of files (`--data`, repeatable): "F", or
  /// "NAME=F" for a file of one array.
  static StatusOr<Dataset> open(const std::vector<std::string> &files,
                                const FunctionPorts &ports,
                                const DatasetOptions &options = {});

  /// Checks that the files exist and can be read, without looking into them.
  static Status checkFiles(const std::vector<std::string> &files);

  /// The number of samples.
  int64_t size() const { return int64_t(order.size()); }
  /// The number of samples in a batch, as the model was compiled.
  int64_t batchSize() const { return batch; }
  /// The row of the sample at `position` in the file.
  int64_t rowOf(int64_t position) const {
    assert(position >= 0 && position < size() && "a sample");
    return order[size_t(position)];
  }
  /// Remarks for the user: moved axes, arrays that no input takes.
  const std::vector<std::string> &notes() const { return noted; }
  /// The file of the first input's array, for messages.
  std::string source() const;
  /// Identifies the data: XXH3-64 over names, types, shapes and bytes of the
  /// arrays and the choice of samples, as 16 hexadecimal digits, followed by
  /// how samples are prepared.
  std::string fingerprint() const;

  /// Holds back `fraction` of the samples, chosen by `seed`. Returns {rest,
  /// held back}, both in file order and not empty. If the target is one class
  /// per sample, the split keeps the proportions of the classes.
  StatusOr<std::pair<Dataset, Dataset>> split(double fraction,
                                              uint64_t seed) const;

  /// Sets the inputs of `function` to the samples at `positions`, with the
  /// random changes of `epoch`. `positions` has batchSize() elements below
  /// size().
  Status bind(Trainee &model, std::string_view function,
              const int64_t *positions, AugmentedEpoch epoch = {}) const;

  /// Writes the values that `bind` sets to memory. `memoryFor` returns memory
  /// of `bytes` bytes for each input.
  using MemoryFor =
      std::function<StatusOr<std::byte *>(const Port &port, size_t bytes)>;
  Status gather(const FunctionPorts &ports, const int64_t *positions,
                AugmentedEpoch epoch, const MemoryFor &memoryFor) const;
  /// Gathers a batch into its own memory, for later use.
  StatusOr<GatheredBatch> gather(const FunctionPorts &ports,
                                 const int64_t *positions,
                                 AugmentedEpoch epoch = {}) const;
  /// True if images are decoded again at every use.
  bool isDecodedLater() const;

  /// The labels of `count` samples as i64, one sample after another, of the
  /// label input called `input`. Empty if there is no such input or its labels
  /// are not integers.
  std::vector<int64_t> labels(const int64_t *positions, int64_t count,
                              const std::string &input) const;
  /// The targets of `count` samples as f64. Empty if there is no such input or
  /// its targets are integers.
  std::vector<double> targets(const int64_t *positions, int64_t count,
                              const std::string &input) const;

private:
  /// `input` is the input whose array is also the labels of `port`; null if
  /// none.
  Status addColumn(const Port &port, const Port *input,
                   std::vector<Array> parts, const DatasetOptions &options);
  /// The rows of a label input as `type`, whose C++ type is T. Empty unless the
  /// input's values are integers, or are not, as `integers` says.
  template <typename T>
  std::vector<T> labelRows(const std::string &input, bool integers, DType type,
                           const int64_t *positions, int64_t count) const;
  std::vector<int64_t> rowsOf(const int64_t *positions, int64_t count) const;

  std::vector<Column> columns;
  /// True if some label counts in the loss, and if some label is ignored.
  bool hasTargets = false, ignoresTargets = false;
  /// The name of the first array with samples.
  std::string first;
  std::vector<int64_t> order;
  int64_t batch = 0;
  uint64_t digest = 0;
  std::string target;   ///< DatasetOptions::target
  std::string prepared; ///< Preparation::text
  std::vector<std::string> noted;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_DATASET_H
