// The samples of one input: arrays of several files, or images, joined along
// the sample axis, and their preparation.
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

/// Valid labels, if known: class labels are in [0, classes) or equal
/// ignoreIndex, and targets of a loss of probabilities are in [0, 1].
struct LabelRange {
  std::optional<int64_t> classes;
  std::optional<int64_t> ignoreIndex;
  /// The loss that takes targets as probabilities, like "bce"; empty if there
  /// is none.
  std::string probabilitiesOf = {};
};

/// The part of a Preparation that concerns one input.
struct ColumnPreparation {
  std::optional<Normalization> normalization;
  std::optional<InputLayout> layout;
  Augmentation augmentation; ///< no steps: no augmentation
  int64_t decodedBytes = 0;  ///< Preparation::decodedBytes
  bool allowsNaN = false;
  /// True if the labels are the array of an input, and prepared like it.
  bool isInput = false;
  /// The label that losses and metrics ignore. Masks, whose values are not
  /// scaled, may contain it.
  std::optional<int64_t> ignored = std::nullopt;
};

/// The epoch that seeds random changes of samples; nullopt for no changes.
using AugmentedEpoch = std::optional<int64_t>;

/// Returns InvalidInput: the array does not fit the port. The message names the
/// found shape, the expected shape and, if known, a remedy.
Status wrongShape(const Port &port, const Array &array);

/// Checks that indices lie within their axes, in an array of samples for the
/// port; accepts arrays of other shapes. InvalidInput names the element.
Status checkIndices(const Port &port, const Array &array);

class Column {
public:
  /// Matches `parts`, in order, to `port`. InvalidInput with the file if types
  /// or shapes do not fit. Adds remarks for the user to `notes`.
  static StatusOr<Column> create(const Port &port, std::vector<Array> parts,
                                 const ColumnPreparation &preparation,
                                 std::vector<std::string> &notes);

  const Port &port() const { return input; }
  bool isBatched() const { return input.batchAxis >= 0; }
  /// The number of samples of all parts.
  int64_t samples() const { return starts.back(); }
  int64_t elementsOfSample() const { return rowElements; }
  /// True if images are decoded again at every use.
  bool isDecodedLater() const { return parts[0].images != nullptr; }
  /// The first part, for messages.
  const Array &array() const { return parts[0]; }

  /// Checks that every value is finite, fits the input's type, and is a valid
  /// label, index or probability. Sets `counts` if some value is not an ignored
  /// label.
  Status check(const LabelRange &range, bool &counts) const;
  /// XXH3-64 over name, type, shape and bytes. Independent of how the samples
  /// are distributed over files.
  uint64_t digest(uint64_t seed) const;

  /// Writes the input's values for the samples `rows`, or the values for all
  /// batches if the input has no sample axis.
  Status fill(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
              std::byte *to) const;

  /// Writes the labels of `rows` as `type`, one sample after another, as the
  /// loss sees them.
  void read(const int64_t *rows, int64_t count, DType type, void *to) const;

private:
  /// The place of a sample: a part and the row in it.
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
  void addNotes(std::vector<std::string> &notes) const;
  /// True if files of images would be labels of pixels.
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
  /// The first sample of each part, and the number of all samples.
  std::vector<int64_t> starts{0};
  /// A sample consists of `rowElements` elements for each of the `outer`
  /// indices of the axes before the sample axis.
  int64_t outer = 1, rowElements = 0;
  /// True if the channels of a sample are last in the files and first in the
  /// input.
  bool turned = false;
  ColumnPreparation prepared;
  size_t channelAxis = 0; ///< axis within a sample, for normalisation
  std::optional<ImageLayout> layout;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_COLUMN_H
