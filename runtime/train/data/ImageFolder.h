// A folder of images: a subfolder for each label, as torchvision's ImageFolder
// has them, or images alone, whose labels are masks in another folder.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_IMAGEFOLDER_H
#define MPC_RUNTIME_TRAIN_DATA_IMAGEFOLDER_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

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
  /// The same of labels [H,W] or [1,H,W].
  static std::optional<ImageLayout> ofMask(const Shape &sample);
  int64_t elements() const { return channels * height * width; }
};

class ImageFolder {
public:
  /// Lists the JPEG and PNG files under `path`, in the order of the labels'
  /// names and then their own; looks into no file. Images without any folder
  /// have no labels. InvalidInput where there are no images, or a label without
  /// any.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  open(const std::string &path);
  /// Lists all images under `path` by name, whatever folder they are in.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  openUnlabelled(const std::string &path);

  int64_t size() const { return int64_t(files.size()); }
  bool isLabelled() const { return !names.empty(); }
  /// The names of the labels, which are counted from 0.
  const std::vector<std::string> &classes() const { return names; }
  int64_t labelOf(int64_t row) const { return files[size_t(row)].label; }
  std::string pathOf(int64_t row) const;
  /// What an image and its mask have in common: the name in the folder, without
  /// its extension and a "_mask" before that.
  std::string stemOf(int64_t row) const;
  /// How many files that are no images lie among them.
  int64_t leftOut() const { return others; }
  /// How many images there are of which labels, and what is left out.
  std::string description() const;

  /// InvalidInput for a file that does not begin as an image.
  Status checkHeaders() const;
  /// Of the files' names, labels, sizes and beginnings.
  uint64_t digest(uint64_t seed) const;

  /// An image as an input takes it, u8, brought to that size.
  Status read(int64_t row, const ImageLayout &layout, uint8_t *to) const;
  /// A mask's numbers of classes, brought to the size of the layout.
  Status readMask(int64_t row, const ImageLayout &layout, uint8_t *to) const;

private:
  struct File {
    std::string name; ///< in the folder
    int64_t label;
  };
  Status addClass(const std::string &name);
  Status addFiles(const std::string &folder, int64_t label);
  /// Images beside the folders of labels, which torchvision passes over as
  /// well.
  Status countUnlabelled();

  std::string root;
  std::vector<std::string> names;
  std::vector<File> files;
  int64_t others = 0;
  int64_t unlabelled = 0; ///< images beside the labels' folders
};

/// An image, or a mask, of one of several folders.
struct ImageRequest {
  const ImageFolder *folder = nullptr;
  int64_t row = 0;
  uint8_t *to = nullptr;
  bool isMask = false;
};

/// Reads all of them, on all cores; the failure that comes first in the list.
Status readImages(const std::vector<ImageRequest> &requests,
                  const ImageLayout &layout);

/// InvalidInput where the images of one folder after another, and the masks of
/// others, are not of the same names, in order.
Status checkPairs(const std::vector<const ImageFolder *> &images,
                  const std::vector<const ImageFolder *> &masks);

/// The images as the array `name`, of which Dataset learns the shape later, and
/// their labels, if they have some, as `labels`.
std::vector<Array> toArrays(std::shared_ptr<const ImageFolder> folder,
                            const std::string &path, const std::string &name,
                            const std::string &labels);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IMAGEFOLDER_H
