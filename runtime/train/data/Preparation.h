// What is done to samples between a file and an input: axes turned, random
// changes of images, normalisation; in that order.
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

/// (x - mean) / deviation, each one number or one for each channel. What is u8
/// is divided by 255 before: torchvision's ToTensor and Normalize.
struct Normalization {
  std::string input; ///< empty: the only input of data
  std::vector<double> mean, deviation;
};

/// Where the channels of an input's arrays are.
struct InputLayout {
  std::string input; ///< empty: the only input of data
  bool channelsLast = false;
};

/// Random changes of images, torchvision's RandomHorizontalFlip and RandomCrop
/// with padding, in the order given.
struct Augmentation {
  struct Step {
    enum Kind { Flip, Crop } kind = Flip;
    int64_t padding = 0; ///< zeros that a crop adds on every side
  };
  std::vector<Step> steps;
  uint64_t seed = 0;
};

/// The flags of one run, under the flags' names.
struct Preparation {
  std::vector<Normalization> normalize;
  std::vector<InputLayout> layouts;
  Augmentation augment;
  /// Images of no more bytes than that, in the size that the model takes, are
  /// decoded before the first step; others each time they are used.
  int64_t decodedBytes = int64_t(1) << 30;
  /// Whether inputs may have NaN and infinities, which the model deals with.
  bool allowsNaN = false;
  /// The flags as they were given, for the run's identity; empty without any.
  std::string text;
};

/// What the flags say: --normalize [NAME=]MEAN:STD, --input-layout
/// [NAME=]channels-last and --augment flip,crop:4. Usage where they cannot be
/// understood.
StatusOr<Preparation>
parsePreparation(const std::vector<std::string> &normalize,
                 const std::vector<std::string> &layouts,
                 const std::string &augment, uint64_t seed);

/// Copies a sample of [H,W,C], or more axes before the last, as [C,H,W], the
/// shape that `sample` is; elements have `width` bytes.
void turnChannels(const std::byte *from, const Shape &sample, int64_t width,
                  std::byte *to);

/// Changes an image, whose elements have `width` bytes, as `random` has it.
void augmentImage(std::byte *image, const ImageLayout &layout, int64_t width,
                  const Augmentation &augmentation, Generator random);

/// Where a list of numbers goes along: the channels of an image, first or last,
/// or the features of a row; nothing where there are not so many.
std::optional<size_t> findChannelAxis(const Shape &sample, size_t channels);

/// Normalises a sample in place. `channelAxis` is where a list of numbers goes
/// along.
void normalizeSample(float *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);
void normalizeSample(double *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_PREPARATION_H
