// Chooses the reader by a file's first bytes and the writer by the file's name.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/ArrayFile.h"

#include "runtime/train/data/Idx.h"
#include "runtime/train/data/Npy.h"
#include "runtime/train/data/Npz.h"
#include "runtime/train/data/RuntimeCheckpoint.h"
#include "runtime/train/data/SafeTensors.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/support/Gzip.h"
#include "runtime/train/support/MappedFile.h"

#include <algorithm>
#include <filesystem>
#include <new>

namespace mpc::runtime::train {

/// True if `line` is text and has commas, semicolons or tabs between columns.
static bool isTableLine(std::string_view line) {
  constexpr size_t longest = size_t(1) << 20;
  if (line.size() > longest)
    return false;
  const bool isText = std::all_of(line.begin(), line.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\t' || c == '\r';
  });
  return isText && line.find_first_of(",;\t") != line.npos;
}

/// Returns a guess about a file of unknown format, for the error message.
static std::string guess(std::string_view text) {
  const auto begins = [&](std::string_view prefix) {
    return text.substr(0, prefix.size()) == prefix;
  };
  if (text.empty())
    return "the file is empty";
  if (begins("version https://git-lfs"))
    return "this is a Git LFS pointer, not the file itself";
  if (begins("\x1f\x8b"))
    return "this is a gzip file in a gzip file: unpack it first";
  if (begins("\x80"))
    return "this looks like a Python pickle, as torch.save wrote it once, "
           "which is never read: save it with safetensors.torch.save_file";
  if (begins("\x89HDF"))
    return "this is an HDF5 file: save it with numpy.savez";
  if (begins("PAR1"))
    return "this is a Parquet file: save it as .csv, or with numpy.savez";
  if (begins("<"))
    return "this looks like an HTML page";
  if (begins("\xff\xd8\xff") || begins("\x89PNG"))
    return "it is an image; images are called .jpg, .jpeg or .png";
  if (begins("{") || begins("["))
    return "this looks like JSON: save it with numpy.savez";
  if (isTableLine(text.substr(0, text.find('\n'))))
    return "this looks like a table: name the file .csv, and put commas "
           "between the columns";
  return "its first bytes match none of these formats; convert raw numbers of "
         "numpy.tofile by numpy.save(\"x.npy\", numpy.fromfile(FILE, dtype))";
}

StatusOr<FileBytes> readBytes(const std::string &path,
                              const ReadLimits &limits) {
  StatusOr<std::shared_ptr<const MappedFile>> opened = MappedFile::open(path);
  if (!opened.ok())
    return opened.status();
  const MappedFile &file = **opened;
  if (!looksLikeGzip(file.data(), file.size()))
    return FileBytes{file.data(), file.size(), *opened};
  auto contents =
      unpackGzip(file.data(), file.size(), limits.archiveBytes, path);
  if (!contents.ok())
    return contents.status();
  return FileBytes{(*contents)->data(), (*contents)->size(), *contents};
}

static StatusOr<std::vector<Array>> readMapped(const std::string &path,
                                               const ReadLimits &limits) {
  StatusOr<FileBytes> bytes = readBytes(path, limits);
  if (!bytes.ok())
    return bytes.status();
  const auto &[data, size, owner] = *bytes;
  std::filesystem::path name = std::filesystem::path(path).filename();
  if (name.extension() == ".gz")
    name = name.stem();
  // The first bytes tell the format. A damaged file called .safetensors is
  // parsed as safetensors too, for a precise error.
  if (looksLikeZip(data, size))
    return parseNpz(data, size, owner, path, limits.archiveBytes);
  const bool isNpy = looksLikeNpy(data, size);
  if (!isNpy &&
      (looksLikeSafeTensors(data, size) || name.extension() == ".safetensors"))
    return parseSafeTensors(data, size, owner, path);
  if (!isNpy && looksLikeRuntimeCheckpoint(data, size))
    return parseRuntimeCheckpoint(data, size, owner, path);
  if (!isNpy && !looksLikeIdx(data, size))
    return Status(StatusCode::InvalidInput,
                  path + ": neither .npy, .npz, .safetensors nor idx: " +
                      guess({reinterpret_cast<const char *>(data), size}));
  StatusOr<Array> array = isNpy ? parseNpy(data, size, owner, path)
                                : parseIdx(data, size, owner, path);
  if (!array.ok())
    return array.status();
  array->name = name.stem().string();
  return std::vector<Array>{std::move(*array)};
}

StatusOr<std::vector<Array>> readPackedArrays(const std::string &path,
                                              const ReadLimits &limits) {
  try {
    StatusOr<std::vector<Array>> arrays = readMapped(path, limits);
    if (arrays.ok())
      for (Array &array : *arrays)
        array.source = path;
    return arrays;
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO,
                  path + ": does not fit in memory; .npy and .safetensors "
                         "files are read in place");
  }
}

StatusOr<std::vector<Array>> readArrays(const std::string &path,
                                        const ReadLimits &limits) {
  StatusOr<std::vector<Array>> arrays = readPackedArrays(path, limits);
  for (size_t i = 0; arrays.ok() && i < arrays->size(); ++i)
    if (Status status = unpack((*arrays)[i]); !status.ok())
      return status;
  return arrays;
}

static std::string_view bytesOf(const Array &array) {
  return {reinterpret_cast<const char *>(array.data), size_t(array.bytes())};
}

static Status unknownExtension(const std::string &path) {
  return Status(StatusCode::Usage,
                path + ": expected the extension .npy, .npz or .safetensors");
}

Status checkArrayNames(const std::string &path,
                       const std::vector<std::string> &names) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension != ".npy" && extension != ".npz" && extension != ".safetensors")
    return unknownExtension(path);
  // safetensors reserves a name for metadata. Names in a zip appear on
  // terminals, so control characters are refused.
  const auto isRefused = [&](const std::string &name) {
    const auto isControl = [](unsigned char c) {
      return c < 0x20 || c == 0x7f;
    };
    return extension == ".npz"
               ? std::any_of(name.begin(), name.end(), isControl)
               : extension == ".safetensors" && name == kMetadataName;
  };
  const auto refused = std::find_if(names.begin(), names.end(), isRefused);
  if (refused == names.end())
    return Status();
  return Status(StatusCode::Usage, path + ": a " + extension +
                                       " file cannot have an array called '" +
                                       *refused + "'; write another format");
}

Status writeArrays(const std::string &path, const std::vector<Array> &arrays,
                   mode_t mode) {
  const std::string extension = std::filesystem::path(path).extension();
  if (extension == ".npy") {
    if (arrays.size() != 1)
      return Status(StatusCode::Usage,
                    path + ": a .npy file holds one array, not " +
                        std::to_string(arrays.size()) + "; use .npz");
    StatusOr<std::string> header = npyHeader(arrays[0]);
    if (!header.ok())
      return header.status();
    return replaceFile(path, {*header, bytesOf(arrays[0])}, mode);
  }
  // The directory of a zip file is at the end, so build the whole file in
  // memory.
  if (extension == ".npz") {
    StatusOr<std::string> bytes = packNpz(arrays);
    if (!bytes.ok())
      return bytes.status();
    return replaceFile(path, {*bytes}, mode);
  }
  // The header has all offsets, so arrays can be written without a copy.
  if (extension == ".safetensors") {
    StatusOr<SafeTensorsLayout> layout = layOutSafeTensors(arrays);
    if (!layout.ok())
      return layout.status();
    std::vector<std::string_view> chunks{layout->header};
    for (const Array *array : layout->order)
      chunks.push_back(bytesOf(*array));
    return replaceFile(path, chunks, mode);
  }
  return unknownExtension(path);
}

} // namespace mpc::runtime::train
