// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/DataFiles.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/ArrayFolder.h"
#include "runtime/train/data/CSV.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/data/ImageFolder.h"
#include "runtime/train/support/FileSystem.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <glob.h>
#include <new>
#include <set>
#include <unistd.h>

namespace mpc::runtime::train {

namespace {
/// An argument "NAME=PATH:ARRAY". The name is empty without NAME=, the array
/// without :ARRAY.
struct NamedPath {
  std::string name, path, array;
};
} // namespace

static StatusOr<bool> isPattern(const std::string &path) {
  if (path.find_first_of("*?[") == std::string::npos)
    return false;
  StatusOr<bool> isName = exists(path);
  return isName.ok() ? StatusOr<bool>(!*isName) : isName;
}

/// Splits "PATH:ARRAY" at the last colon behind the name of a file or behind a
/// pattern, unless the whole text is the path of a file.
static StatusOr<NamedPath> splitArray(std::string name, std::string path) {
  StatusOr<bool> isWhole = exists(path);
  if (!isWhole.ok())
    return isWhole.status();
  const size_t colon = *isWhole ? path.npos : path.rfind(':');
  if (colon == path.npos || colon + 1 == path.size())
    return NamedPath{std::move(name), std::move(path), ""};
  const std::string file = path.substr(0, colon);
  StatusOr<bool> isFile = exists(file);
  if (isFile.ok() && !*isFile)
    isFile = isPattern(file);
  if (!isFile.ok())
    return isFile.status();
  return *isFile ? NamedPath{std::move(name), file, path.substr(colon + 1)}
                 : NamedPath{std::move(name), std::move(path), ""};
}

/// Splits "NAME=PATH:ARRAY", unless the whole text is the path of a file.
/// Accepts "NAME=@PATH" too, as `mpc run --input` has it.
static StatusOr<NamedPath> parseArgument(const std::string &argument) {
  const size_t equals = argument.find('=');
  StatusOr<bool> isWhole =
      equals == std::string::npos ? true : exists(argument);
  if (!isWhole.ok())
    return isWhole.status();
  if (*isWhole)
    return splitArray("", argument);
  std::string path = argument.substr(equals + 1);
  if (path.size() > 1 && path[0] == '@') {
    StatusOr<bool> isName = exists(path);
    if (!isName.ok())
      return isName.status();
    path.erase(0, *isName ? 0 : 1);
  }
  return splitArray(argument.substr(0, equals), std::move(path));
}

StatusOr<std::vector<std::string>>
expandPatterns(const std::vector<std::string> &arguments) {
  std::vector<std::string> files;
  for (const std::string &argument : arguments) {
    StatusOr<NamedPath> parsed = parseArgument(argument);
    if (!parsed.ok())
      return parsed.status();
    const auto &[name, path, array] = *parsed;
    StatusOr<bool> matches = isPattern(path);
    if (!matches.ok())
      return matches.status();
    if (!*matches) {
      files.push_back(argument);
      continue;
    }
    glob_t found;
    const int failed = glob(path.c_str(), GLOB_ERR, nullptr, &found);
    for (size_t i = 0; !failed && i < found.gl_pathc; ++i)
      files.push_back((name.empty() ? "" : name + "=") + found.gl_pathv[i] +
                      (array.empty() ? "" : ":" + array));
    globfree(&found);
    if (failed == GLOB_ABORTED)
      return Status(StatusCode::IO, path + ": a folder cannot be read");
    if (failed)
      return Status(StatusCode::IO, path + ": no file has such a name");
  }
  return files;
}

Status Dataset::checkFiles(const std::vector<std::string> &files) {
  StatusOr<std::vector<std::string>> expanded = expandPatterns(files);
  if (!expanded.ok())
    return expanded.status();
  for (const std::string &argument : *expanded) {
    StatusOr<NamedPath> parsed = parseArgument(argument);
    if (!parsed.ok())
      return parsed.status();
    const std::string &path = parsed->path;
    if (access(path.c_str(), R_OK) != 0)
      return Status(StatusCode::IO,
                    path + ": cannot open: " + std::strerror(errno));
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Joins the columns of each group "NAME=COLUMNS" (--csv-columns) to an array
/// NAME. A column in no group stays an array of its own.
static StatusOr<std::vector<Array>>
groupColumns(const std::vector<Array> &columns, const std::string &path,
             const std::vector<std::string> &groups) {
  std::vector<Array> arrays;
  std::set<std::string> used;
  // A column may be in several groups, so do not remove it from the others.
  for (const std::string &group : groups) {
    const size_t equals = group.find('=');
    if (equals == std::string::npos || equals == 0)
      return Status(StatusCode::Usage,
                    "--csv-columns " + group +
                        ": expected NAME=COLUMNS, such as x=a,b or x=a:d");
    const auto where = [&](const Status &status) {
      return invalid(path, "--csv-columns " + group + ": " + status.message());
    };
    StatusOr<std::vector<Array>> chosen =
        chooseColumns(columns, std::string_view(group).substr(equals + 1));
    if (!chosen.ok())
      return where(chosen.status());
    for (const Array &column : *chosen)
      used.insert(column.name);
    StatusOr<Array> array = stackColumns(*chosen, group.substr(0, equals));
    if (!array.ok())
      return array.status();
    arrays.push_back(std::move(*array));
  }
  for (const Array &column : columns)
    if (!used.count(column.name))
      arrays.push_back(column);
  return arrays;
}

static StatusOr<std::vector<Array>>
readCSV(const std::string &path, const std::vector<std::string> &groups) {
  try {
    StatusOr<FileBytes> file = readBytes(path);
    if (!file.ok())
      return file.status();
    StatusOr<std::vector<Array>> columns = parseCSV(
        {reinterpret_cast<const char *>(file->data), file->size}, path);
    if (!columns.ok())
      return columns.status();
    return groupColumns(*columns, path, groups);
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO,
                  path + ": does not fit in memory; .npy and .safetensors "
                         "files are read in place");
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// True if `folder` has exactly the subfolders images/ and masks/. Subfolders
/// of any other names are labels.
static StatusOr<bool> hasMasks(const std::string &folder) {
  StatusOr<std::vector<FolderEntry>> entries = listFolder(folder);
  if (!entries.ok())
    return entries.status();
  std::vector<std::string> folders;
  for (const FolderEntry &entry : *entries)
    if (entry.isFolder)
      folders.push_back(entry.name);
  return folders == std::vector<std::string>{"images", "masks"};
}

static StatusOr<std::vector<Array>>
readImageFolder(const NamedPath &argument, const DataFileOptions &options) {
  const std::string &labels = options.targetArray;
  // Read a folder of images or of masks. Masks are the labels, so images beside
  // masks have no labels of their own.
  const auto read = [&](const std::string &path, const std::string &name) {
    auto folder = ImageFolder::openUnlabelled(path);
    return folder.ok() ? StatusOr(toArrays(*folder, path, name, labels))
                       : StatusOr<std::vector<Array>>(folder.status());
  };
  if (argument.name == labels)
    return read(argument.path, labels);
  StatusOr<bool> isPair = hasMasks(argument.path);
  if (!isPair.ok())
    return isPair.status();
  if (*isPair) {
    const std::filesystem::path root = argument.path;
    auto arrays = read((root / "images").string(), argument.name);
    auto masks = read((root / "masks").string(), labels);
    if (!arrays.ok() || !masks.ok())
      return arrays.ok() ? masks.status() : arrays.status();
    arrays->push_back(std::move(masks->front()));
    return arrays;
  }
  // Without masks, each subfolder is a class, and its number is the label.
  StatusOr<std::shared_ptr<const ImageFolder>> folder =
      ImageFolder::open(argument.path, options.allowsEmpty);
  if (!folder.ok())
    return folder.status();
  return toArrays(*folder, argument.path, argument.name, labels);
}

/// Keeps only the array that "PATH:ARRAY" names.
static Status chooseArray(const NamedPath &argument,
                          std::vector<Array> &arrays) {
  if (argument.array.empty())
    return Status();
  std::string names;
  for (Array &array : arrays) {
    names += (names.empty() ? "'" : ", '") + array.name + "'";
    if (array.name != argument.array)
      continue;
    arrays = {Array(std::move(array))};
    return Status();
  }
  return invalid(argument.path, "has no array '" + argument.array +
                                    "'; there are " +
                                    (names.empty() ? "none" : names));
}

static StatusOr<std::vector<Array>> readFile(const NamedPath &argument,
                                             const DataFileOptions &options) {
  StatusOr<FileKind> kind = kindOf(argument.path);
  if (!kind.ok())
    return kind.status();
  if (*kind == FileKind::Directory && !argument.array.empty())
    return invalid(argument.path, "a folder, which has no array '" +
                                      argument.array +
                                      "'; FILE:ARRAY is for files");
  if (*kind == FileKind::Directory) {
    StatusOr<bool> hasArrays = isArrayFolder(argument.path);
    if (!hasArrays.ok())
      return hasArrays.status();
    return *hasArrays
               ? readArrayFolder(argument.path, argument.name,
                                 options.targetArray, options.allowsEmpty)
               : readImageFolder(argument, options);
  }
  if (isImageFile(argument.path) && argument.array.empty())
    return toArrays(ImageFolder::ofFile(argument.path), argument.path,
                    argument.name, options.targetArray);
  StatusOr<std::vector<Array>> arrays =
      isReadableCSV(argument.path) ? readCSV(argument.path, options.csvColumns)
                                   : readPackedArrays(argument.path);
  if (arrays.ok())
    if (Status status = chooseArray(argument, *arrays); !status.ok())
      return status;
  if (!arrays.ok() || argument.name.empty())
    return arrays;
  if (arrays->size() != 1)
    return invalid(argument.name + "=" + argument.path +
                   ": a name is for a file of one array, this one has " +
                   std::to_string(arrays->size()) +
                   (isReadableCSV(argument.path)
                        ? " columns; choose some with --csv-columns " +
                              argument.name + "=..."
                        : "; choose one: " + argument.name + "=" +
                              argument.path +
                              ":ARRAY; without NAME= in "
                              "front, each array goes to the input of its own "
                              "name"));
  arrays->front().name = argument.name;
  return arrays;
}

/// If there are folders of images and of masks, checks that every image has a
/// mask.
static Status checkMasks(const std::vector<Array> &arrays,
                         const std::string &labels) {
  std::vector<const ImageFolder *> images, masks;
  for (const Array &array : arrays)
    if (array.images)
      (array.name == labels ? masks : images).push_back(array.images.get());
  return images.empty() || masks.empty() ? Status() : checkPairs(images, masks);
}

StatusOr<std::vector<Array>>
readDataFiles(const std::vector<std::string> &files,
              const DataFileOptions &options) {
  StatusOr<std::vector<std::string>> expanded = expandPatterns(files);
  if (!expanded.ok())
    return expanded.status();
  std::vector<Array> all;
  for (const std::string &file : *expanded) {
    StatusOr<NamedPath> argument = parseArgument(file);
    if (!argument.ok())
      return argument.status();
    if (options.observer)
      options.observer->reading(argument->path, 0, 0);
    StatusOr<std::vector<Array>> arrays = readFile(*argument, options);
    if (!arrays.ok())
      return arrays.status();
    std::move(arrays->begin(), arrays->end(), std::back_inserter(all));
  }
  if (Status status = checkMasks(all, options.targetArray); !status.ok())
    return status;
  return all;
}

int64_t countSamples(const std::vector<Array> &arrays, const std::string &name,
                     size_t axis) {
  int64_t count = 0, ofColumns = 0;
  std::set<std::string> tables;
  for (const Array &array : arrays) {
    const int64_t samples = array.images                ? array.images->size()
                            : axis < array.shape.size() ? array.shape[axis]
                                                        : 0;
    if (array.name == name)
      count += samples;
    // If no array has the input's name, the input may take columns of a table.
    // All columns of a table have the same length, so count one of them.
    if (array.isColumn && array.fault.empty() &&
        tables.insert(array.source).second)
      ofColumns += samples;
  }
  return count > 0 ? count : ofColumns;
}

Status checkSameLabels(const std::vector<Array> &first,
                       const std::vector<Array> &second) {
  for (const Array &a : first)
    for (const Array &b : second)
      if (a.name == b.name && a.classes != b.classes && !a.classes.empty() &&
          !b.classes.empty())
        return invalid(b.source, "has other labels than " + a.source +
                                     "; every label needs a folder in both, "
                                     "which may be empty with --allow-empty");
  return Status();
}

} // namespace mpc::runtime::train
