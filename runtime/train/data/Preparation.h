// Prepares samples between a file and an input: moves axes, changes images
// randomly, and normalises, in this order.
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

/// (x - mean) / deviation, each with one number or one number per channel. u8
/// is divided by 255 before, as in torchvision's ToTensor and Normalize.
struct Normalization {
  std::string input; ///< empty: the only input of data
  std::vector<double> mean, deviation;
};

/// The place of the channels in the arrays of an input.
struct InputLayout {
  std::string input; ///< empty: the only input of data
  bool channelsLast = false;
};

/// Random changes of images in the given order: torchvision's
/// RandomHorizontalFlip, and RandomCrop with padding.
struct Augmentation {
  struct Step {
    enum Kind { Flip, Crop } kind = Flip;
    int64_t padding = 0; ///< zeros that a crop adds on every side
  };
  std::vector<Step> steps;
  uint64_t seed = 0;
};

/// The preparation flags of a run, named like the flags.
struct Preparation {
  std::vector<Normalization> normalize;
  std::vector<InputLayout> layouts;
  Augmentation augment;
  /// Images that take at most this many bytes in the model's size are decoded
  /// once before the first step; others are decoded at each use.
  int64_t decodedBytes = int64_t(1) << 30;
  /// True if inputs may have NaN and infinities, which the model handles.
  bool allowsNaN = false;
  /// The flags as they were given, for the run's identity; empty without flags.
  std::string text;
};

/// Parses --normalize [NAME=]MEAN:STD, --input-layout [NAME=]channels-last and
/// --augment flip,crop:4. Usage if a flag is malformed.
StatusOr<Preparation>
parsePreparation(const std::vector<std::string> &normalize,
                 const std::vector<std::string> &layouts,
                 const std::string &augment, uint64_t seed);

/// Copies a sample [H,W,C], with any number of axes before the last, to
/// [C,H,W], the shape `sample`. Elements have `width` bytes.
void turnChannels(const std::byte *from, const Shape &sample, int64_t width,
                  std::byte *to);

/// Changes an image, whose elements have `width` bytes, with numbers from
/// `random`.
void augmentImage(std::byte *image, const ImageLayout &layout, int64_t width,
                  const Augmentation &augmentation, Generator random);

/// Finds the axis of `channels` numbers: the channels of an image, first or
/// last, or the features of a row. nullopt if no axis has that extent.
std::optional<size_t> findChannelAxis(const Shape &sample, size_t channels);

/// Normalises a sample in place. `channelAxis` is the axis of the channels.
void normalizeSample(float *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);
void normalizeSample(double *sample, const Shape &shape, size_t channelAxis,
                     bool isU8, const Normalization &normalization);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_PREPARATION_H
