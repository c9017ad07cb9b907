// Prepares samples on their way from a file to an input: moves channels,
// changes images randomly, and normalises, in this order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_PREPARATION_H
#define MPC_RUNTIME_TRAIN_DATA_PREPARATION_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/ImageFolder.h"
#include "runtime/train/support/Random.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The flag --normalize: (x - mean) / deviation, each with one number for all
/// channels or one per channel. u8 values are divided by 255 before, as by
/// torchvision's ToTensor and Normalize.
struct Normalization {
  std::string input; ///< name of the input; empty: the only data input
  std::vector<double> mean, deviation;
};

/// The flag --input-layout: the position of the channels in the arrays of an
/// input.
struct InputLayout {
  std::string input; ///< name of the input; empty: the only data input
  bool channelsLast = false;
};

/// The flag --augment: random changes of images, in the order of `steps`. Flip
/// is torchvision's RandomHorizontalFlip, Crop is RandomCrop with padding.
struct Augmentation {
  struct Step {
    enum Kind { Flip, Crop } kind = Flip;
    int64_t padding = 0; ///< for Crop: zeros added on every side
  };
  std::vector<Step> steps;
  uint64_t seed = 0;
};

/// The preparation flags of a run, named like the flags.
struct Preparation {
  std::vector<Normalization> normalize;
  std::vector<InputLayout> layouts;
  Augmentation augment;
  /// Limit on the bytes of a column's images, in the size of the input. Images
  /// within the limit are decoded once, before the first step; others at each
  /// use.
  int64_t decodedBytes = int64_t(1) << 30;
  /// True if data inputs may have NaN and infinities, because the model handles
  /// them.
  bool allowsNaN = false;
  /// The flags as the user wrote them, as part of the run's identity; empty
  /// without flags.
  std::string text;
};

/// Parses --normalize [NAME=]MEAN:STD, --input-layout [NAME=]channels-last and
/// --augment flip,crop:4. Usage if a flag is malformed.
StatusOr<Preparation>
parsePreparation(const std::vector<std::string> &normalize,
                 const std::vector<std::string> &layouts,
                 const std::string &augment, uint64_t seed);

/// Copies a sample [...,C] to the shape `sample`, [C,...]: an image [H,W,C]
/// becomes [C,H,W]. Elements have `width` bytes.
void turnChannels(const std::byte *from, const Shape &sample, int64_t width,
                  std::byte *to);

/// Applies the steps of `augmentation` to an image in place, with numbers from
/// `random`. Elements have `width` bytes.
void augmentImage(std::byte *image, const ImageLayout &layout, int64_t width,
                  const Augmentation &augmentation, Generator random);

/// Finds the axis of `channels` numbers in a sample: the first or the last
/// axis. Returns 0 for one number. nullopt if neither axis has that extent.
std::optional<size_t> findChannelAxis(const Shape &sample, size_t channels);

/// Normalises a sample in place. `channelAxis` is the axis of its channels. If
/// `isU8`, divides by 255 first.
void normalizeSample(float *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);
void normalizeSample(double *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_PREPARATION_H
