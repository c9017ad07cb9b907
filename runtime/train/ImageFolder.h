// A folder of images, a subfolder for each label, as torchvision's ImageFolder
// has them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_IMAGEFOLDER_H
#define MPC_RUNTIME_TRAIN_IMAGEFOLDER_H

#include "runtime/Status.h"
#include "runtime/train/Array.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// What an input takes for an image: [C,H,W], or [H,W,C] where channels are
/// last.
struct ImageLayout {
  int64_t channels = 0, height = 0, width = 0;
  bool channelsLast = false;

  /// The layout of a sample of that shape; nothing where it is no image of one
  /// or three channels.
  static std::optional<ImageLayout> of(const Shape &sample);
  int64_t elements() const { return channels * height * width; }
};

class ImageFolder {
public:
  /// Lists the JPEG and PNG files under `path`, in the order of the labels'
  /// names and then their own; looks into no file. InvalidInput where there are
  /// no labels, or one without images.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  open(const std::string &path);

  int64_t size() const { return int64_t(files.size()); }
  /// The names of the labels, which are counted from 0.
  const std::vector<std::string> &classes() const { return names; }
  int64_t labelOf(int64_t row) const { return files[size_t(row)].label; }
  std::string pathOf(int64_t row) const;
  /// How many files that are no images lie among them.
  int64_t leftOut() const { return others; }

  /// InvalidInput for a file that does not begin as an image.
  Status checkHeaders() const;
  /// Of the files' names, labels, sizes and beginnings.
  uint64_t digest(uint64_t seed) const;

  /// An image as an input takes it, u8, brought to that size.
  Status read(int64_t row, const ImageLayout &layout, uint8_t *to) const;

private:
  struct File {
    std::string name; ///< in the folder
    int64_t label;
  };
  Status addClass(const std::string &name);

  std::string root;
  std::vector<std::string> names;
  std::vector<File> files;
  int64_t others = 0;
};

/// An image of one of several folders.
struct ImageRequest {
  const ImageFolder *folder = nullptr;
  int64_t row = 0;
  uint8_t *to = nullptr;
};

/// Reads all of them, on all cores; the failure that comes first in the list.
Status readImages(const std::vector<ImageRequest> &requests,
                  const ImageLayout &layout);

/// The images as the array `name`, of which Dataset learns the shape later, and
/// their labels as `labels`.
std::vector<Array> toArrays(std::shared_ptr<const ImageFolder> folder,
                            const std::string &path, const std::string &name,
                            const std::string &labels);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_IMAGEFOLDER_H
