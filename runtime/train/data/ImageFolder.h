// A folder of images. Each subfolder is a label, as in torchvision's
// ImageFolder. A folder without labels may have masks in another folder.
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

/// The axes of an image in an input: [C,H,W] or, with channels last, [H,W,C].
struct ImageLayout {
  int64_t channels = 0, height = 0, width = 0;
  bool channelsLast = false;

  /// Returns the layout of a sample of shape `sample`. nullopt unless `sample`
  /// is an image of one or three channels.
  static std::optional<ImageLayout> of(const Shape &sample);
  /// Returns the layout of a mask of shape [H,W] or [1,H,W]; nullopt for other
  /// shapes.
  static std::optional<ImageLayout> ofMask(const Shape &sample);
  int64_t elements() const { return channels * height * width; }
};

class ImageFolder {
public:
  /// Lists the JPEG and PNG files under `path`, without opening them. If `path`
  /// has subfolders, they are the labels: images are ordered by label and then
  /// by name, and images outside are left out. Otherwise images have no labels.
  /// InvalidInput if there are no images, or, without `allowsEmpty`, if a label
  /// has none.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  open(const std::string &path, bool allowsEmpty = false);
  /// Lists all images under `path` and in its subfolders, without labels,
  /// ordered by stemOf.
  static StatusOr<std::shared_ptr<const ImageFolder>>
  openUnlabelled(const std::string &path);

  /// Returns the image file `path` alone, without a label. Does not open it.
  static std::shared_ptr<const ImageFolder> ofFile(const std::string &path);

  int64_t size() const { return int64_t(files.size()); }
  bool isLabelled() const { return !names.empty(); }
  /// Returns the names of the labels, in the order of their numbers.
  const std::vector<std::string> &classes() const { return names; }
  int64_t labelOf(int64_t row) const { return files[size_t(row)].label; }
  std::string pathOf(int64_t row) const;
  /// Returns the name that an image and its mask have in common: the path
  /// within the folder without extension and "_mask". Both "a/1.jpg" and
  /// "a/1_mask.png" have "a/1".
  std::string stemOf(int64_t row) const;
  /// Returns the number of files that are no images.
  int64_t leftOut() const { return others; }
  /// Describes the images for the user: their number, their labels, and the
  /// number of files left out. Empty for a file alone.
  std::string description() const;

  /// Returns an invalid-input error if the header of a file is no valid image
  /// header.
  Status checkHeaders() const;
  /// Returns a digest of the files' names, labels, sizes and first bytes.
  uint64_t digest(uint64_t seed) const;

  /// Decodes image number `row` to u8, in the size and layout of an input.
  Status read(int64_t row, const ImageLayout &layout, uint8_t *to) const;
  /// Decodes the class numbers of mask number `row`, in the size of `layout`.
  Status readMask(int64_t row, const ImageLayout &layout, uint8_t *to) const;

private:
  struct File {
    std::string name; ///< path within the folder
    int64_t label;
  };
  Status addClass(const std::string &name, bool allowsEmpty);
  Status addFiles(const std::string &folder, int64_t label);
  /// Counts images outside the folders of labels, which torchvision ignores
  /// too.
  Status countUnlabelled();

  std::string root;
  std::vector<std::string> names;
  std::vector<File> files;
  bool isFile = false;
  int64_t others = 0;
  int64_t unlabelled = 0; ///< images outside the folders of labels
};

/// True if the extension says that the file `path` is a JPEG or PNG image.
bool isImageFile(const std::string &path);

/// A request to decode image or mask number `row` of a folder to memory at
/// `to`.
struct ImageRequest {
  const ImageFolder *folder = nullptr;
  int64_t row = 0;
  uint8_t *to = nullptr;
  bool isMask = false;
};

/// Decodes all requested images on all cores. If several fail, returns the
/// failure of the first request.
Status readImages(const std::vector<ImageRequest> &requests,
                  const ImageLayout &layout);

/// Checks that every image has a mask, and every mask an image: the stems of
/// all `images` must equal those of all `masks`, one by one. InvalidInput names
/// a file that lacks its counterpart.
Status checkPairs(const std::vector<const ImageFolder *> &images,
                  const std::vector<const ImageFolder *> &masks);

/// Returns an array `name` for the images, whose shape Column decides later. If
/// the folder has labels, also returns an array `labels` of their numbers, i64
/// [N].
std::vector<Array> toArrays(std::shared_ptr<const ImageFolder> folder,
                            const std::string &path, const std::string &name,
                            const std::string &labels);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IMAGEFOLDER_H
