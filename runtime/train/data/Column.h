// A column has the samples of one input, from arrays of several files or from
// images, joined along the sample axis. It also prepares the samples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_COLUMN_H
#define MPC_RUNTIME_TRAIN_DATA_COLUMN_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Preparation.h"
#include "runtime/train/trainee/Trainee.h"

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

class ReadObserver;

/// The valid labels of an input. Class labels are in [0, classes), if known, or
/// equal to ignoreIndex. Targets of a loss of probabilities are in [0, 1].
struct LabelRange {
  std::optional<int64_t> classes;
  std::optional<int64_t> ignoreIndex;
  /// The loss that takes the targets as probabilities, such as "bce"; empty if
  /// no loss does.
  std::string probabilitiesOf = {};
};

/// The part of a Preparation that concerns one input.
struct ColumnPreparation {
  std::optional<Normalization> normalization;
  std::optional<InputLayout> layout;
  Augmentation augmentation; ///< no steps: no augmentation
  int64_t decodedBytes = 0;  ///< Preparation::decodedBytes
  bool allowsNaN = false;
  /// True for labels that are the array of an input, as in an autoencoder. They
  /// are prepared like the input.
  bool isInput = false;
  /// The label that losses and metrics ignore. If it is 255, masks of 0 and 255
  /// keep their values; other masks of 0 and 255 become 0 and 1.
  std::optional<int64_t> ignored = std::nullopt;
};

/// The epoch that seeds random changes of samples; nullopt for no changes.
using AugmentedEpoch = std::optional<int64_t>;

/// Returns InvalidInput: the array does not fit the port. The message names the
/// found shape, the expected shape and, if known, a remedy.
Status wrongShape(const Port &port, const Array &array);

/// Checks that the indices in `array` lie within the axes that they index.
/// Accepts an array whose samples do not have the port's shape. InvalidInput
/// names the element.
Status checkIndices(const Port &port, const Array &array);

class Column {
public:
  /// Joins `parts`, in this order, to the samples of `port`. InvalidInput names
  /// the file if a type or shape does not fit. Adds remarks for the user to
  /// `notes`.
  static StatusOr<Column> create(const Port &port, std::vector<Array> parts,
                                 const ColumnPreparation &preparation,
                                 std::vector<std::string> &notes);

  const Port &port() const { return input; }
  bool isBatched() const { return input.batchAxis >= 0; }
  /// Returns the number of samples of all parts.
  int64_t samples() const { return starts.back(); }
  int64_t elementsOfSample() const { return rowElements; }
  /// True if images stay in files, and are decoded whenever a batch needs them.
  bool isDecodedLater() const { return parts[0].images != nullptr; }
  /// Returns the first array of the column, for its name and file in messages.
  const Array &array() const { return parts[0]; }

  /// Checks that every value is finite, fits the input's type, and is a valid
  /// label, index or probability. Sets `counts` to true unless all values are
  /// ignored labels. Replaces `digest`, the seed, by the XXH3-64 digest over
  /// name, type, shape and bytes. Equal samples have an equal digest, however
  /// they are distributed over files. Tells `observer`, unless null, how much
  /// is read.
  Status inspect(const LabelRange &range, ReadObserver *observer, bool &counts,
                 uint64_t &digest) const;

  /// Writes the prepared values of the samples `rows` to `to`. If the input has
  /// no sample axis, writes its value for all batches.
  Status fill(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
              std::byte *to) const;

  /// Writes the labels of the samples `rows` as `type`, one sample after
  /// another. Labels are prepared, as the loss sees them.
  void read(const int64_t *rows, int64_t count, DType type, void *to) const;

private:
  /// The position of a sample: an array of the column, and the row in this
  /// array.
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
  /// True if images in this column are masks, which have a class number per
  /// pixel.
  bool isMasks() const {
    return input.role == Role::Label && !prepared.isInput;
  }
  bool isPlain() const;
  bool hasClasses(const LabelRange &range) const;
  uint64_t digestOfForm(uint64_t seed) const;
  Status checkRange(const Array &part, int64_t begin, int64_t end,
                    const LabelRange &range, std::atomic<bool> &counts) const;
  /// Checks that each label at [begin, end) is in [0, classes) or equals
  /// `ignored`. Sets `counts` to true if some label is not ignored.
  Status checkLabels(const Array &array, int64_t begin, int64_t end,
                     int64_t classes, std::optional<int64_t> ignored,
                     std::atomic<bool> &counts) const;
  std::string locateLabel(const Array &array, int64_t position) const;
  Status fillPlain(const int64_t *rows, int64_t count, std::byte *to) const;
  Status fillPrepared(const int64_t *rows, int64_t count, AugmentedEpoch epoch,
                      std::byte *to) const;
  Status prepare(const Array &from, int64_t begin, int64_t row,
                 AugmentedEpoch epoch, std::byte *to) const;

  Port input;
  std::vector<Array> parts;
  /// The folders of decoded parts; shorter than `parts` or null for others.
  std::vector<std::shared_ptr<const ImageFolder>> folders;
  /// starts[i] is the number of the first sample of part i. The last element is
  /// the number of all samples.
  std::vector<int64_t> starts{0};
  /// The layout of a part: [outer, samples, rowElements]. `outer` is 1 if
  /// samples lie along axis 0.
  int64_t outer = 1, rowElements = 0;
  /// True if channels are the last axis in the files and the first axis of a
  /// sample in the input.
  bool turned = false;
  ColumnPreparation prepared;
  size_t channelAxis = 0; ///< axis of the channels within a sample
  std::optional<ImageLayout> layout;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_COLUMN_H
