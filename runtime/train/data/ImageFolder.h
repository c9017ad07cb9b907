// A folder of images: in a subfolder per label, as in torchvision's
// ImageFolder, or without labels, with masks in another folder.
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

/// The layout of an image in an input: [C,H,W], or [H,W,C] with channels last.
struct ImageLayout {
  int64_t channels = 0, height = 0, width = 0;
  bool channelsLast = false;

  /// The layout of a sample of shape `sample`; nullopt unless it is an image of
  /// one or three channels.
  static std::optional<ImageLayout> of(const Shape &sample);
  /// The layout of labels [H,W] or [1,H,W]; nullopt for other shapes.
  static std::optional<ImageLayout> ofMask(const Shape &sample);
  int64_t elements() const { return channels * height * width; }
};

class ImageFolder {
public:
  /// Lists the JPEG and PNG files under `path`, ordered by label and then by
  /// name, without opening them. Images outside any folder have no labels.
  /// InvalidInput if there are no images, or if a label has none.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  open(const std::string &path);
  /// Lists all images under `path` by name, in whatever folder they are.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  openUnlabelled(const std::string &path);

  int64_t size() const { return int64_t(files.size()); }
  bool isLabelled() const { return !names.empty(); }
  /// The names of the labels, whose numbers start at 0.
  const std::vector<std::string> &classes() const { return names; }
  int64_t labelOf(int64_t row) const { return files[size_t(row)].label; }
  std::string pathOf(int64_t row) const;
  /// The common name of an image and its mask: the path in the folder without
  /// the extension and without "_mask".
  std::string stemOf(int64_t row) const;
  /// The number of files that are no images.
  int64_t leftOut() const { return others; }
  /// Describes the number of images, their labels, and the files left out.
  std::string description() const;

  /// Returns an invalid-input error if a file does not begin like an image.
  Status checkHeaders() const;
  /// Hashes the names, labels, sizes and beginnings of the files.
  uint64_t digest(uint64_t seed) const;

  /// Decodes an image to u8 in the size and layout of an input.
  Status read(int64_t row, const ImageLayout &layout, uint8_t *to) const;
  /// Decodes the class numbers of a mask in the size of `layout`.
  Status readMask(int64_t row, const ImageLayout &layout, uint8_t *to) const;

private:
  struct File {
    std::string name; ///< in the folder
    int64_t label;
  };
  Status addClass(const std::string &name);
  Status addFiles(const std::string &folder, int64_t label);
  /// Counts images beside the folders of labels, which torchvision ignores too.
  Status countUnlabelled();

  std::string root;
  std::vector<std::string> names;
  std::vector<File> files;
  int64_t others = 0;
  int64_t unlabelled = 0; ///< images beside the labels' folders
};

/// A request to read an image or a mask of one of several folders.
struct ImageRequest {
  const ImageFolder *folder = nullptr;
  int64_t row = 0;
  uint8_t *to = nullptr;
  bool isMask = false;
};

/// Fulfils all requests on all cores. Returns the first failure in list order.
Status readImages(const std::vector<ImageRequest> &requests,
                  const ImageLayout &layout);

/// Checks that the images of all folders, one after another, have the same
/// names as the masks of the others, in order. InvalidInput otherwise.
Status checkPairs(const std::vector<const ImageFolder *> &images,
                  const std::vector<const ImageFolder *> &masks);

/// Returns the images as the array `name`, whose shape Dataset sets later, and
/// their labels, if any, as `labels`.
std::vector<Array> toArrays(std::shared_ptr<const ImageFolder> folder,
                            const std::string &path, const std::string &name,
                            const std::string &labels);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IMAGEFOLDER_H
