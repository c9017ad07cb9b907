// Training data: arrays matched to a model's inputs, checked once, then served
// in batches.
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
  /// Of label inputs that differ, by their names.
  std::map<std::string, LabelRange> ranges;
  /// The label input whose classes a split keeps in proportion; empty: none.
  std::string target;
  Preparation preparation;

  /// What holds for the label input of that name.
  const LabelRange &rangeOf(const std::string &input) const {
    const auto found = ranges.find(input);
    return found == ranges.end() ? *this : found->second;
  }
};

/// The label input that predictions are compared with: of several losses the
/// first one's, else the only one; empty where there is none.
std::string targetOf(const TraineeInfo &info);

/// What `info` says of the labels: the class count from the recipe or the
/// prediction's shape, the ignored index from the recipe, and which is the
/// target.
DatasetOptions datasetOptionsFor(const TraineeInfo &info);

/// Whether samples have a value for an input: data and labels.
bool isSampled(const Port &port);

/// Which samples a batch has, and the epoch that their random changes depend
/// on.
struct BatchSamples {
  std::vector<int64_t> positions;
  AugmentedEpoch epoch;

  /// Whether that is the batch of these positions, as many as it has.
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

/// Hands a batch to the inputs of `function`.
Status setInputs(Trainee &model, std::string_view function,
                 const GatheredBatch &batch);

/// The samples of one or more files, seen through a list of indices. Copies
/// share the arrays.
class Dataset {
public:
  /// Matches `arrays` to the inputs of role "data" and "label" of `ports`, by
  /// name, and checks shapes, label range and that every value is finite and
  /// has a value in the input's type. A label input takes the array of its own
  /// name, or else the one called `targetArray`. Arrays of one name are joined
  /// along the axis of samples. The only input that finds no array takes the
  /// columns of a table that are left, side by side. Other arrays are noted.
  static StatusOr<Dataset> create(std::vector<Array> arrays,
                                  const FunctionPorts &ports,
                                  const DatasetOptions &options = {});

  /// The same from files (`--data`, repeatable): "F" or "NAME=F", the latter
  /// for a file of one array.
  static StatusOr<Dataset> open(const std::vector<std::string> &files,
                                const FunctionPorts &ports,
                                const DatasetOptions &options = {});

  /// Whether such files are there and can be read; looks at nothing in them.
  static Status checkFiles(const std::vector<std::string> &files);

  /// Samples.
  int64_t size() const { return int64_t(order.size()); }
  /// Samples of one batch, as the model was compiled.
  int64_t batchSize() const { return batch; }
  /// Where in the file the sample at `position` lies.
  int64_t rowOf(int64_t position) const { return order[size_t(position)]; }
  /// What the user should know of: axes turned, arrays that nothing takes.
  const std::vector<std::string> &notes() const { return noted; }
  /// The file of the first input's array, for messages.
  std::string source() const;
  /// XXH3-64 over names, types, shapes and bytes of the arrays and the choice
  /// of samples, 16 hexadecimal digits, and how samples are prepared.
  std::string fingerprint() const;

  /// Holds back `fraction` of the samples, chosen by `seed`; {rest, held back},
  /// both in file order. Neither part may be empty. Where the target is one
  /// class a sample, each class gives its share.
  StatusOr<std::pair<Dataset, Dataset>> split(double fraction,
                                              uint64_t seed) const;

  /// Binds the samples at `positions` (batchSize() of them, each below size())
  /// to the inputs of `function`, with the random changes of `epoch`.
  Status bind(Trainee &model, std::string_view function,
              const int64_t *positions, AugmentedEpoch epoch = {}) const;

  /// Writes what `bind` gives the inputs to memory of so many bytes that
  /// `memoryFor` hands out for each.
  using MemoryFor =
      std::function<StatusOr<std::byte *>(const Port &port, size_t bytes)>;
  Status gather(const FunctionPorts &ports, const int64_t *positions,
                AugmentedEpoch epoch, const MemoryFor &memoryFor) const;
  /// The same to memory of its own, for later.
  StatusOr<GatheredBatch> gather(const FunctionPorts &ports,
                                 const int64_t *positions,
                                 AugmentedEpoch epoch = {}) const;
  /// Whether images are decoded whenever they are used.
  bool isDecodedLater() const;

  /// The labels of `count` samples as i64, one sample after another, of the
  /// label input called `input`; empty where the model has none of that name or
  /// its labels are not integers.
  std::vector<int64_t> labels(const int64_t *positions, int64_t count,
                              const std::string &input) const;
  /// The targets likewise, as f64; empty where they are integers.
  std::vector<double> targets(const int64_t *positions, int64_t count,
                              const std::string &input) const;

private:
  /// `input`: the input whose array the labels of `port` have; null for none.
  Status addColumn(const Port &port, const Port *input,
                   std::vector<Array> parts, const DatasetOptions &options);
  /// The rows of that label input, if it is of integers or not, as `type`,
  /// whose C++ type T is.
  template <typename T>
  std::vector<T> labelRows(const std::string &input, bool integers, DType type,
                           const int64_t *positions, int64_t count) const;
  std::vector<int64_t> rowsOf(const int64_t *positions, int64_t count) const;

  std::vector<Column> columns;
  /// True if some label counts in the loss, and if some label is ignored.
  bool hasTargets = false, ignoresTargets = false;
  /// The name of the first array of samples.
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
