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
  /// The valid labels of each label input that differs from the LabelRange
  /// above, by name.
  std::map<std::string, LabelRange> ranges;
  /// The label input whose classes `split` keeps in proportion; empty if none.
  std::string target;
  Preparation preparation;
  /// Is told which files are read; null if nobody wants to know.
  ReadObserver *observer = nullptr;
  /// True if the samples are a part of a data set. Then all labels of the part
  /// may be ignored ones.
  bool isPart = false;

  /// Returns the valid labels of the input called `input`.
  const LabelRange &rangeOf(const std::string &input) const {
    const auto found = ranges.find(input);
    return found == ranges.end() ? *this : found->second;
  }
};

/// Returns the name of the label input to compare predictions with: that of the
/// first loss or, if there is one loss, the first label input. Empty if there
/// is none.
std::string targetOf(const TraineeInfo &info);

/// Returns the name of the label input of the array `target`: that of the
/// array, or that beside a data input of the same name.
std::string labelInputOf(const TraineeInfo &info, const std::string &target);

/// Derives facts about labels from `info`. The number of classes comes from the
/// recipe or else from the prediction's shape, the ignored label from the
/// recipe, and the target from targetOf.
DatasetOptions datasetOptionsFor(const TraineeInfo &info);

/// Returns the batch size that the inputs were compiled for. Unsupported if
/// they differ, or if no input has samples.
StatusOr<int64_t> findBatchSize(const FunctionPorts &ports);

/// True for inputs of samples: data and labels. False for scalars.
bool isSampled(const Port &port);

/// The samples of a batch, and the epoch that seeds their random changes.
struct BatchSamples {
  std::vector<int64_t> positions;
  AugmentedEpoch epoch;

  /// True if the batch has these positions and this epoch. `other` points to as
  /// many positions as the batch has.
  bool is(const int64_t *other, AugmentedEpoch otherEpoch) const {
    return epoch == otherEpoch &&
           std::equal(positions.begin(), positions.end(), other);
  }
};

/// The values of one input for one batch.
struct GatheredInput {
  std::string name;
  std::unique_ptr<std::byte[]> bytes;
  size_t size = 0;
};
using GatheredBatch = std::vector<GatheredInput>;

/// Sets the inputs of `function` to the values in `batch`.
Status setInputs(Trainee &model, std::string_view function,
                 const GatheredBatch &batch);

/// The samples of one or more files, in file order or, after `split`, some of
/// them. Copies share the arrays.
class Dataset {
public:
  /// Matches `arrays` by name to the inputs of role "data" and "label" in
  /// `ports`. Checks shapes, label ranges, and that every value is finite and
  /// fits the input's type. A label input takes the array of its name; the only
  /// label input may also take the array `targetArray`. Arrays with equal names
  /// are joined along the sample axis. If exactly one data input finds no
  /// array, it takes the remaining columns of a table, side by side. notes()
  /// lists arrays that no input takes.
  static StatusOr<Dataset> create(std::vector<Array> arrays,
                                  const FunctionPorts &ports,
                                  const DatasetOptions &options = {});

  /// Calls `create` with the arrays of files: "PATH", or "NAME=PATH" for a file
  /// of one array (`--data`, repeatable).
  static StatusOr<Dataset> open(const std::vector<std::string> &files,
                                const FunctionPorts &ports,
                                const DatasetOptions &options = {});

  /// Checks that the files exist and can be read, without looking into them.
  static Status checkFiles(const std::vector<std::string> &files);

  /// The number of samples.
  int64_t size() const { return int64_t(order.size()); }
  /// Returns the number of samples in a batch, which is fixed when the model is
  /// compiled.
  int64_t batchSize() const { return batch; }
  /// Returns the row, in the data's files, of the sample at `position` of this
  /// data set.
  int64_t rowOf(int64_t position) const {
    assert(position >= 0 && position < size() && "a sample");
    return order[size_t(position)];
  }
  /// Returns remarks for the user, for example about moved axes, or about
  /// arrays that no input takes.
  const std::vector<std::string> &notes() const { return noted; }
  /// The file of the first input's array, for messages.
  std::string source() const;
  /// Identifies the data by 16 hexadecimal digits, followed by the flags that
  /// prepare samples. The digits are an XXH3-64 digest over names, types,
  /// shapes and bytes of the arrays and over the choice of samples.
  std::string fingerprint() const;

  /// Splits the data set: holds back `fraction` of the samples, chosen by
  /// `seed`. Returns {rest, held back}, both in file order. InvalidInput if one
  /// would be empty. If the target is one class per sample, both parts have the
  /// same proportions of classes.
  StatusOr<std::pair<Dataset, Dataset>> split(double fraction,
                                              uint64_t seed) const;

  /// Sets the inputs of `function` to the batch of samples at `positions`.
  /// `positions` has batchSize() elements below size(). `epoch` seeds random
  /// changes of the samples.
  Status bind(Trainee &model, std::string_view function,
              const int64_t *positions, AugmentedEpoch epoch = {}) const;

  /// Writes the values that `bind` would set to memory from `memoryFor`, which
  /// returns memory of `bytes` bytes for each input.
  using MemoryFor =
      std::function<StatusOr<std::byte *>(const Port &port, size_t bytes)>;
  Status gather(const FunctionPorts &ports, const int64_t *positions,
                AugmentedEpoch epoch, const MemoryFor &memoryFor) const;
  /// Gathers a batch into memory of its own, for later use.
  StatusOr<GatheredBatch> gather(const FunctionPorts &ports,
                                 const int64_t *positions,
                                 AugmentedEpoch epoch = {}) const;
  /// True if images stay in files, and are decoded whenever a batch needs them.
  bool isDecodedLater() const;

  /// Returns the labels of `count` samples as i64, one sample after another,
  /// from the label input `input`. Empty if there is no such input, or if its
  /// labels are not integers.
  std::vector<int64_t> labels(const int64_t *positions, int64_t count,
                              const std::string &input) const;
  /// Returns the targets of `count` samples as f64, like `labels`. Empty if
  /// there is no such input, or if its targets are integers.
  std::vector<double> targets(const int64_t *positions, int64_t count,
                              const std::string &input) const;

private:
  /// Adds the arrays `parts` as the data of `port`. If `port` has labels that
  /// are the array of an input, `input` is this input; null otherwise.
  Status addColumn(const Port &port, const Port *input,
                   std::vector<Array> parts, const DatasetOptions &options);
  /// Returns the values of a label input as `type`, which T represents in C++.
  /// Empty unless the input's type is an integer type (`integers`), or a float
  /// type (not `integers`).
  template <typename T>
  std::vector<T> labelRows(const std::string &input, bool integers, DType type,
                           const int64_t *positions, int64_t count) const;
  std::vector<int64_t> rowsOf(const int64_t *positions, int64_t count) const;

  std::vector<Column> columns;
  /// `hasTargets` is true if a label input has a label that is not ignored,
  /// `ignoresTargets` if all labels of an input are ignored.
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
