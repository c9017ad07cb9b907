// Lists images, and decodes them on several threads. Every message names the
// file.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/ImageFolder.h"

#include "runtime/train/data/ArrayFolder.h"

#include "runtime/train/data/Image.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/support/MappedFile.h"
#include "runtime/train/support/Threads.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <xxhash.h>

namespace fs = std::filesystem;

namespace mpc::runtime::train {

std::optional<ImageLayout> ImageLayout::of(const Shape &sample) {
  if (sample.size() != 3)
    return std::nullopt;
  const auto isImage = [](int64_t channels) {
    return channels == 1 || channels == 3;
  };
  if (isImage(sample[0]))
    return ImageLayout{sample[0], sample[1], sample[2], false};
  if (isImage(sample[2]))
    return ImageLayout{sample[2], sample[0], sample[1], true};
  return std::nullopt;
}

std::optional<ImageLayout> ImageLayout::ofMask(const Shape &sample) {
  const size_t axes = sample.size();
  if (axes != 2 && (axes != 3 || sample[0] != 1))
    return std::nullopt;
  return ImageLayout{1, sample[axes - 2], sample[axes - 1], false};
}

//===----------------------------------------------------------------------===//
// Listing
//===----------------------------------------------------------------------===//

static std::string extensionOf(const fs::path &path) {
  std::string extension = path.extension().string();
  for (char &c : extension)
    c = char(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
  return extension;
}

static bool isReadImage(const std::string &extension) {
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

/// True for image formats that torchvision reads, but mpc does not.
static bool isOtherImage(const std::string &extension) {
  for (const char *other : {".bmp", ".gif", ".pgm", ".ppm", ".tif", ".tiff",
                            ".webp", ".avif", ".heic"})
    if (extension == other)
      return true;
  return false;
}

static bool isHidden(const fs::path &path) {
  return path.filename().string()[0] == '.';
}

/// Lists the subfolders of `root`, which are the labels, sorted by name.
static StatusOr<std::vector<std::string>> listClasses(const std::string &root) {
  StatusOr<std::vector<FolderEntry>> entries = listFolder(root);
  if (!entries.ok())
    return entries.status();
  std::vector<std::string> names;
  for (const FolderEntry &entry : *entries)
    if (!isHidden(entry.name) && entry.isFolder)
      names.push_back(entry.name);
  return names;
}

/// True if `entry` is a folder. Asks the directory entry first, which mostly
/// knows the kind of a file without access to the file.
static StatusOr<bool> isFolder(const fs::directory_entry &entry) {
  std::error_code unknown;
  const bool isFolder = entry.is_directory(unknown);
  if (!unknown)
    return isFolder;
  StatusOr<FileKind> kind = kindOf(entry.path().string());
  return kind.ok() ? StatusOr<bool>(*kind == FileKind::Directory)
                   : kind.status();
}

Status ImageFolder::addFiles(const std::string &name, int64_t label) {
  const fs::path folder = fs::path(root) / name;
  const size_t before = files.size();
  std::error_code error;
  // Links to folders may form circles, so refuse them. Skipping them would
  // leave out images silently.
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    if (isHidden(it->path())) {
      it.disable_recursion_pending();
      continue;
    }
    StatusOr<bool> isNested = isFolder(*it);
    if (!isNested.ok())
      return isNested.status();
    if (*isNested) {
      std::error_code unknown;
      if (it->is_symlink(unknown))
        return Status(StatusCode::Unsupported,
                      it->path().string() +
                          ": a link to a folder, which is not followed; put "
                          "its images here or leave it out");
      continue;
    }
    // Refuse an image in another format. Files that are no images, such as a
    // README, are only counted.
    const std::string extension = extensionOf(it->path());
    if (isOtherImage(extension))
      return Status(StatusCode::Unsupported,
                    it->path().string() +
                        ": only JPEG and PNG images are read; convert it to "
                        "PNG, such as by ImageMagick's mogrify -format png");
    if (isReadImage(extension))
      files.push_back({it->path().lexically_relative(root).string(), label});
    else
      ++others;
  }
  if (error)
    return Status(StatusCode::IO,
                  folder.string() + ": cannot be listed: " + error.message());
  // File systems list names in any order, so sort them.
  std::sort(files.begin() + std::ptrdiff_t(before), files.end(),
            [](const File &a, const File &b) { return a.name < b.name; });
  return Status();
}

Status ImageFolder::addClass(const std::string &name, bool allowsEmpty) {
  const size_t before = files.size();
  if (Status status = addFiles(name, int64_t(names.size())); !status.ok())
    return status;
  if (files.size() == before && !allowsEmpty)
    return invalid((fs::path(root) / name).string(),
                   "the folder of a label has no JPEG or PNG images" +
                       std::string(kEmptyLabelHelp));
  names.push_back(name);
  return Status();
}

StatusOr<std::shared_ptr<const ImageFolder>>
ImageFolder::open(const std::string &path, bool allowsEmpty) {
  auto folder = std::make_shared<ImageFolder>();
  folder->root = path;
  StatusOr<std::vector<std::string>> classes = listClasses(path);
  if (!classes.ok())
    return classes.status();
  if (classes->empty())
    return openUnlabelled(path);
  for (const std::string &name : *classes)
    if (Status status = folder->addClass(name, allowsEmpty); !status.ok())
      return status;
  if (folder->files.empty())
    return invalid(path, "no folder of a label has JPEG or PNG images");
  if (Status status = folder->countUnlabelled(); !status.ok())
    return status;
  return std::shared_ptr<const ImageFolder>(std::move(folder));
}

Status ImageFolder::countUnlabelled() {
  StatusOr<std::vector<FolderEntry>> entries = listFolder(root);
  if (!entries.ok())
    return entries.status();
  for (const FolderEntry &entry : *entries) {
    const std::string extension = extensionOf(entry.name);
    unlabelled += !isHidden(entry.name) && !entry.isFolder &&
                  (isReadImage(extension) || isOtherImage(extension));
  }
  return Status();
}

StatusOr<std::shared_ptr<const ImageFolder>>
ImageFolder::openUnlabelled(const std::string &path) {
  auto folder = std::make_shared<ImageFolder>();
  folder->root = path;
  if (Status status = folder->addFiles("", /*label=*/0); !status.ok())
    return status;
  if (folder->files.empty())
    return invalid(path, "expected JPEG or PNG images, or a folder of them for "
                         "each label; found neither");
  // Sort by the name that an image has in common with its mask.
  std::vector<std::pair<std::string, File>> byStem;
  for (int64_t row = 0; row < folder->size(); ++row)
    byStem.emplace_back(folder->stemOf(row), folder->files[size_t(row)]);
  std::stable_sort(
      byStem.begin(), byStem.end(),
      [](const auto &a, const auto &b) { return a.first < b.first; });
  for (size_t row = 0; row < byStem.size(); ++row)
    folder->files[row] = byStem[row].second;
  return std::shared_ptr<const ImageFolder>(std::move(folder));
}

std::shared_ptr<const ImageFolder>
ImageFolder::ofFile(const std::string &path) {
  auto folder = std::make_shared<ImageFolder>();
  folder->root = fs::path(path).parent_path().string();
  folder->files.push_back({fs::path(path).filename().string(), /*label=*/0});
  folder->isFile = true;
  return folder;
}

bool isImageFile(const std::string &path) {
  return isReadImage(extensionOf(path));
}

std::string ImageFolder::stemOf(int64_t row) const {
  constexpr std::string_view suffix = "_mask";
  std::string stem = fs::path(files[size_t(row)].name)
                         .replace_extension()
                         .lexically_normal()
                         .string();
  if (stem.size() > suffix.size() &&
      stem.compare(stem.size() - suffix.size(), suffix.size(), suffix) == 0)
    stem.resize(stem.size() - suffix.size());
  return stem;
}

std::string ImageFolder::pathOf(int64_t row) const {
  return (fs::path(root) / files[size_t(row)].name).string();
}

std::string ImageFolder::description() const {
  if (isFile)
    return "";
  std::string text =
      std::to_string(size()) + (size() == 1 ? " image" : " images");
  if (isLabelled()) {
    std::vector<bool> isUsed(names.size());
    for (const File &file : files)
      isUsed[size_t(file.label)] = true;
    text += " of " + describeLabels(names, isUsed);
  }
  if (others > 0)
    text += "; " + std::to_string(others) +
            (others == 1 ? " file that is no image is left out"
                         : " files that are no images are left out");
  if (unlabelled > 0)
    text += "; " + std::to_string(unlabelled) +
            (unlabelled == 1 ? " image in no label's folder is left out"
                             : " images in no label's folder are left out");
  return text;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

Status ImageFolder::checkHeaders() const {
  return onThreads(size(), countCores(), [&](int64_t row) {
    const std::string path = pathOf(row);
    StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
    if (!file.ok())
      return file.status();
    const Status status = checkImage((*file)->text());
    return status.ok() ? status : invalid(path, status.message());
  });
}

uint64_t ImageFolder::digest(uint64_t seed) const {
  constexpr size_t beginning = 4096;
  for (int64_t row = 0; row < size(); ++row) {
    const File &file = files[size_t(row)];
    std::string head = file.name + '\0' + std::to_string(file.label);
    // Ignore a file that cannot be read: loading its sample reports the error.
    if (auto mapped = MappedFile::open(pathOf(row)); mapped.ok())
      head += '\0' + std::to_string((*mapped)->size()) + '\0' +
              std::string((*mapped)->text().substr(0, beginning));
    seed = XXH3_64bits_withSeed(head.data(), head.size(), seed);
  }
  return seed;
}

/// Copies pixels to `to` in the layout of an input.
static void store(const Image &image, const ImageLayout &layout, uint8_t *to) {
  if (layout.channelsLast || layout.channels == 1) {
    std::memcpy(to, image.pixels.data(), image.pixels.size());
    return;
  }
  const int64_t pixels = layout.height * layout.width;
  for (int64_t i = 0; i < pixels; ++i)
    for (int64_t c = 0; c < layout.channels; ++c)
      to[c * pixels + i] = image.pixels[size_t(i * layout.channels + c)];
}

Status ImageFolder::read(int64_t row, const ImageLayout &layout,
                         uint8_t *to) const {
  const std::string path = pathOf(row);
  StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  StatusOr<Image> image = decodeImage((*file)->text());
  if (!image.ok())
    return invalid(path, image.status().message());
  if (layout.channels == 1)
    *image = toGrey(*image);
  store(resize(*image, layout.width, layout.height), layout, to);
  return Status();
}

Status ImageFolder::readMask(int64_t row, const ImageLayout &layout,
                             uint8_t *to) const {
  const std::string path = pathOf(row);
  StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file.ok())
    return file.status();
  StatusOr<Image> mask = decodeMask((*file)->text());
  if (!mask.ok())
    return invalid(path, mask.status().message());
  store(resizeNearest(*mask, layout.width, layout.height), layout, to);
  return Status();
}

Status readImages(const std::vector<ImageRequest> &requests,
                  const ImageLayout &layout) {
  return onThreads(int64_t(requests.size()), countCores(), [&](int64_t i) {
    const ImageRequest &request = requests[size_t(i)];
    return request.isMask
               ? request.folder->readMask(request.row, layout, request.to)
               : request.folder->read(request.row, layout, request.to);
  });
}

Status checkPairs(const std::vector<const ImageFolder *> &images,
                  const std::vector<const ImageFolder *> &masks) {
  const auto list = [](const std::vector<const ImageFolder *> &folders) {
    std::vector<std::pair<std::string, std::string>> files; // stem, path
    for (const ImageFolder *folder : folders)
      for (int64_t row = 0; row < folder->size(); ++row)
        files.emplace_back(folder->stemOf(row), folder->pathOf(row));
    return files;
  };
  const auto first = list(images), second = list(masks);
  for (size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    if (i < first.size() && i < second.size() &&
        first[i].first == second[i].first)
      continue;
    // Both lists are sorted. At the first difference, the file with the smaller
    // name has no counterpart in the other list.
    const bool isImage = i >= second.size() ||
                         (i < first.size() && first[i].first < second[i].first);
    return isImage
               ? invalid(first[i].second, "an image without a mask; expected "
                                          "a PNG file of the same name, or "
                                          "with _mask behind it")
               : invalid(second[i].second, "a mask without an image of the "
                                           "same name");
  }
  return Status();
}

std::vector<Array> toArrays(std::shared_ptr<const ImageFolder> folder,
                            const std::string &path, const std::string &name,
                            const std::string &labels) {
  // Labels are in memory. Images remain in files until their samples are read.
  Array images;
  images.name = name;
  images.source = path;
  images.type = ElementType::U8;
  images.shape = {0};
  images.images = folder;
  if (!folder->isLabelled())
    return {images};
  auto values = std::make_shared<std::vector<int64_t>>();
  for (int64_t row = 0; row < folder->size(); ++row)
    values->push_back(folder->labelOf(row));
  Array target;
  target.name = labels;
  target.source = path;
  target.type = ElementType::I64;
  target.shape = {folder->size()};
  target.data = reinterpret_cast<const std::byte *>(values->data());
  target.owner = std::move(values);
  target.classes = folder->classes();
  target.areClassesNoted = true;
  return {images, target};
}

} // namespace mpc::runtime::train
