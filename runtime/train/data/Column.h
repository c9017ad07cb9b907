// The samples of one input: arrays of one or more files, or images, joined
// along the axis of samples, and what is done to them on their way.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_COLUMN_H
#define MPC_RUNTIME_TRAIN_DATA_COLUMN_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Preparation.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Class labels are in [0, classes) or equal ignoreIndex, where these are
/// known; targets of a loss of probabilities are in [0, 1].
struct LabelRange {
  std::optional<int64_t> classes;
  std::optional<int64_t> ignoreIndex;
  /// The loss that takes the targets as probabilities, such as "bce"; empty
  /// where none does.
  std::string probabilitiesOf = {};
};

/// What of a Preparation is for one input.
struct ColumnPreparation {
  std::optional<Normalization> normalization;
  std::optional<InputLayout> layout;
  Augmentation augmentation; ///< without steps: none
  int64_t decodedBytes = 0;  ///< Preparation::decodedBytes
  bool allowsNaN = false;
  /// Whether labels are an input's array, and what is done to that is to them.
  bool isInput = false;
  /// The label that no loss and no metric counts. Masks of images, which are
  /// not scaled, may have it.
  std::optional<int64_t> ignored = std::nullopt;
};

/// The epoch that random changes of a sample depend on; none for no random
/// changes.
using AugmentedEpoch = std::optional<int64_t>;

/// InvalidInput: the array does not fit the port; what it is, what it should be
/// and, where that is known, what to do.
Status wrongShape(const Port &port, const Array &array);

/// Whether what names elements of an axis names one, in an array of samples
/// that the port takes; of others nothing is said. InvalidInput names the
/// element.
Status checkIndices(const Port &port, const Array &array);

class Column {
public:
  /// Matches `parts`, in order, to `port`. InvalidInput where types or shapes
  /// do not fit, naming the file. What the user should know of is added to
  /// `notes`.
  static StatusOr<Column> create(const Port &port, std::vector<Array> parts,
                                 const ColumnPreparation &preparation,
                                 std::vector<std::string> &notes);

  const Port &port() const { return input; }
  bool isBatched() const { return input.batchAxis >= 0; }
  /// How many; of all parts.
  int64_t samples() const { return starts.back(); }
  int64_t elementsOfSample() const { return rowElements; }
  /// Whether images are decoded whenever they are used.
  bool isDecodedLater() const { return parts[0].images != nullptr; }
  /// The first part, for messages.
  const Array &array() const { return parts[0]; }

  /// Whether every value is finite, has a value in the input's type and is a
  /// label, index or probability that there is. `counts` is set where any of it
  /// is something else than a label that the loss ignores.
  Status check(const LabelRange &range, bool &counts) const;
  /// XXH3-64 over name, type, shape and bytes, the same however the samples are
  /// shared among files.
  uint64_t digest(uint64_t seed) const;

  /// Writes what the input takes for the samples `rows`, or for all batches
  /// where it has no axis of samples.
  Status fill(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
              std::byte *to) const;

  /// The values of labels as `type`, one sample after another, as the loss
  /// compares them.
  void read(const int64_t *rows, int64_t count, DType type, void *to) const;

private:
  /// Where a sample lies.
  struct Place {
    const Array *part;
    int64_t row;
  };
  Place placeOf(int64_t row) const;
  Shape sampleShape() const;
  Status addPart(Array part);
  Status addImages(Array part);
  Status setPreparation();
  Status decodeImages();
  std::string countMasks();
  /// Whether files of images would be labels of pixels.
  bool isMasks() const {
    return input.role == Role::Label && !prepared.isInput;
  }
  bool isPlain() const;
  Status fillPlain(const int64_t *rows, int64_t count, std::byte *to) const;
  Status fillPrepared(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
                      std::byte *to) const;
  Status prepare(const Array &from, int64_t begin, int64_t row,
                 AugmentedEpoch epoch, std::byte *to) const;

  Port input;
  std::vector<Array> parts;
  /// Where each part's samples begin, and their number.
  std::vector<int64_t> starts{0};
  /// A sample is `rowElements` for each of the `outer` indices in front of the
  /// axis of samples.
  int64_t outer = 1, rowElements = 0;
  /// Whether the channels of a sample are last in the files and first in the
  /// input.
  bool turned = false;
  ColumnPreparation prepared;
  size_t channelAxis = 0; ///< of a sample, for normalisation
  std::optional<ImageLayout> layout;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_COLUMN_H
