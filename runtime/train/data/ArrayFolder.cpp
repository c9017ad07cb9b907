// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/ArrayFolder.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/support/FileSystem.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <new>

namespace mpc::runtime::train {

namespace fs = std::filesystem;

/// Lists the names of the subfolders of `folder` or, if not `folders`, of its
/// files. Leaves out hidden entries.
static StatusOr<std::vector<std::string>> list(const fs::path &folder,
                                               bool folders) {
  StatusOr<std::vector<FolderEntry>> entries = listFolder(folder.string());
  if (!entries.ok())
    return entries.status();
  std::vector<std::string> names;
  for (FolderEntry &entry : *entries)
    if (entry.name[0] != '.' && entry.isFolder == folders)
      names.push_back(std::move(entry.name));
  return names;
}

static bool isNpy(const std::string &name) {
  return fs::path(name).extension() == ".npy";
}

StatusOr<bool> isArrayFolder(const std::string &path) {
  const fs::path folder = path;
  const auto classes = list(folder, /*folders=*/true);
  if (!classes.ok())
    return classes.status();
  // The first folders may be empty if --allow-empty is given.
  std::vector<fs::path> folders;
  for (const std::string &name : *classes)
    folders.push_back(folder / name);
  if (folders.empty())
    folders.push_back(folder);
  for (const fs::path &place : folders) {
    const auto files = list(place, /*folders=*/false);
    if (!files.ok())
      return files.status();
    if (!files->empty())
      return isNpy(files->front());
  }
  return false;
}

namespace {
/// The bytes and labels of samples of one shape and type.
struct Samples {
  Array first;
  std::vector<std::byte> bytes;
  std::vector<int64_t> labels;

  Status add(const std::string &file, int64_t label);
};
} // namespace

static std::string describe(const Array &array) {
  std::string text = std::string(nameOf(array.type)) + " [";
  for (size_t i = 0; i < array.shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(array.shape[i]);
  return text + "]";
}

Status Samples::add(const std::string &file, int64_t label) {
  if (!isNpy(file))
    return invalid(file, "is not a .npy file, but the first file here is; "
                         "every file must be one sample");
  StatusOr<std::vector<Array>> arrays = readArrays(file);
  if (!arrays.ok())
    return arrays.status();
  const Array &array = arrays->front();
  if (labels.empty())
    first = array;
  if (array.shape != first.shape || array.type != first.type)
    return invalid(file, "is " + describe(array) + ", and " + first.source +
                             " is " + describe(first) +
                             "; each file is one sample, and all must have "
                             "the same type and shape");
  bytes.insert(bytes.end(), array.data, array.data + array.bytes());
  labels.push_back(label);
  return Status();
}

static StatusOr<Samples> readSamples(const fs::path &root,
                                     const std::vector<std::string> &classes,
                                     bool allowsEmpty) {
  Samples samples;
  // If there are folders of labels, refuse a sample outside, which has no
  // label.
  if (!classes.empty()) {
    const auto beside = list(root, /*folders=*/false);
    if (!beside.ok())
      return beside.status();
    for (const std::string &file : *beside)
      if (isNpy(file))
        return invalid((root / file).string(),
                       "is in no label's folder; move it into one, or away");
  }
  // Without folders of labels, all samples are in the root.
  const size_t folders = std::max(classes.size(), size_t(1));
  for (size_t i = 0; i < folders; ++i) {
    const fs::path folder = classes.empty() ? root : root / classes[i];
    const auto files = list(folder, /*folders=*/false);
    const auto inner = list(folder, /*folders=*/true);
    if (!files.ok() || !inner.ok())
      return files.ok() ? inner.status() : files.status();
    // Refuse a nested folder instead of skipping samples that the user expects
    // to be used.
    if (!classes.empty() && !inner->empty())
      return invalid((folder / inner->front()).string(),
                     "is a folder within that of a label; move its samples "
                     "up into the label's");
    if (files->empty() && !allowsEmpty)
      return invalid(folder.string(),
                     "the folder of a label has no .npy files" +
                         std::string(kEmptyLabelHelp));
    for (const std::string &file : *files)
      if (Status status = samples.add((folder / file).string(), int64_t(i));
          !status.ok())
        return status;
  }
  return samples;
}

static Shape withoutOnes(const Shape &shape) {
  Shape rest;
  for (size_t i = 1; i < shape.size(); ++i)
    if (shape[i] != 1)
      rest.push_back(shape[i]);
  return rest;
}

void addOnes(const Shape &input, Shape &samples) {
  if (withoutOnes(samples) != withoutOnes(input))
    return;
  const int64_t rows = samples[0];
  samples = input;
  samples[0] = rows;
}

std::string describeLabels(const std::vector<std::string> &classes,
                           const std::vector<bool> &isUsed) {
  constexpr size_t most = 20;
  std::string text = std::to_string(classes.size()) +
                     (classes.size() == 1 ? " label: " : " labels: ");
  for (size_t i = 0; i < std::min(classes.size(), most); ++i)
    text += (i ? ", " : "") + std::to_string(i) + " " + classes[i];
  if (classes.size() > most)
    text += ", ...";
  std::string unused;
  for (size_t i = 0; i < classes.size(); ++i)
    if (!isUsed[i])
      unused += (unused.empty() ? "; no sample of " : ", ") +
                std::to_string(i) + " " + classes[i];
  return text + unused;
}

StatusOr<std::vector<Array>> readArrayFolder(const std::string &path,
                                             const std::string &name,
                                             const std::string &labels,
                                             bool allowsEmpty) {
  auto listed = list(path, /*folders=*/true);
  if (!listed.ok())
    return listed.status();
  const std::vector<std::string> &classes = *listed;
  try {
    StatusOr<Samples> read = readSamples(path, classes, allowsEmpty);
    if (!read.ok())
      return read.status();
    auto owner = std::make_shared<Samples>(std::move(*read));
    // Both arrays below refer to the memory of `owner`. Axis 0 counts the
    // samples.
    Array samples = owner->first;
    samples.name = name;
    samples.source = path;
    samples.isOfSamples = true;
    samples.shape.insert(samples.shape.begin(), int64_t(owner->labels.size()));
    samples.data = owner->bytes.data();
    samples.owner = owner;
    if (classes.empty())
      return std::vector<Array>{samples};
    // A label is the index of its folder.
    Array target;
    target.name = labels;
    target.source = path;
    target.type = ElementType::I64;
    target.shape = {int64_t(owner->labels.size())};
    target.data = reinterpret_cast<const std::byte *>(owner->labels.data());
    target.owner = owner;
    target.classes = classes;
    return std::vector<Array>{samples, target};
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO,
                  path + ": does not fit in memory; a .npy file of all samples "
                         "is read in place");
  }
}

} // namespace mpc::runtime::train
