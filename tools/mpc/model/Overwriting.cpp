// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/Overwriting.h"

#include "frontends/ONNX/Export/Export.h"
#include "frontends/ONNX/Model/Model.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/flags/LossFlags.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using train::isSameFile;

std::vector<std::string> mpc::tools::inputFiles(const CompileOptions &options) {
  std::vector<std::string> files = options.model.weights;
  files.push_back(options.model.model);
  if (!options.model.optimizerModel.empty())
    files.push_back(options.model.optimizerModel);
  llvm::append_range(files, lossFilesOf(options));
  return files;
}

ExitCode mpc::tools::refuseOverwriting(llvm::StringRef flag,
                                       const std::string &output,
                                       const std::vector<std::string> &inputs) {
  if (output.empty() || output == "-")
    return ExitCode::Done;
  for (llvm::StringRef input : inputs) {
    llvm::StringRef file = input.split('=').second;
    file.consume_front("@");
    StatusOr<bool> isInput = isSameFile(output, input.str());
    if (isInput.ok() && !*isInput && !file.empty())
      isInput = isSameFile(output, file.str());
    if (!isInput.ok())
      return reportError(isInput.status());
    if (*isInput)
      return reportError(ExitCode::Usage,
                         flag + " " + output +
                             ": this command reads that file; write another");
  }
  return ExitCode::Done;
}

ExitCode mpc::tools::refuseReplacingData(llvm::StringRef flag,
                                         const std::string &output,
                                         onnx_frontend::Model &model) {
  if (output.empty() || output == "-")
    return ExitCode::Done;
  StatusOr<bool> isItself = isSameFile(output, model.getPath().str());
  if (!isItself.ok())
    return reportError(isItself.status());
  std::vector<std::string> written = {output};
  if (!*isItself && llvm::StringRef(output).ends_with(".onnx"))
    written.push_back(output + ".data");
  for (const std::string &data : onnx_frontend::listDataFiles(model))
    for (const std::string &file : written) {
      StatusOr<bool> isSame = isSameFile(file, data);
      if (!isSame.ok())
        return reportError(isSame.status());
      if (*isSame)
        return reportError(ExitCode::Usage,
                           flag + " " + output + ": " + file +
                               " is the external data of " + model.getPath() +
                               ", which would be lost; write another");
    }
  return ExitCode::Done;
}

// Returns the absolute path to which `path` leads through symbolic links, even
// if no file exists there. If `m.jsonl` links to `trained.onnx`, the result is
// `/runs/trained.onnx`.
static StatusOr<std::string> findPlace(llvm::StringRef path) {
  // If there is no current folder, use the path as given.
  llvm::SmallString<128> place(path.rtrim('/'));
  static_cast<void>(llvm::sys::fs::make_absolute(place));
  // Follow links one by one, at most 40 as Linux does: realpath fails for a
  // link to a file that does not exist yet.
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks; ++i) {
    auto target = train::readLink(place.str().str());
    if (!target.ok())
      return target.status();
    if (!*target)
      break;
    llvm::sys::path::remove_filename(place);
    if (llvm::sys::path::is_absolute(**target))
      place.clear();
    llvm::sys::path::append(place, **target);
  }
  // Ignore an error: if the folder does not exist, nothing can be written
  // there.
  llvm::SmallString<128> folder;
  if (!llvm::sys::fs::real_path(llvm::sys::path::parent_path(place), folder)) {
    llvm::sys::path::append(folder, llvm::sys::path::filename(place));
    place = folder;
  }
  llvm::sys::path::remove_dots(place, /*remove_dot_dot=*/true);
  return place.str().str();
}

ExitCode mpc::tools::refuseSharing(llvm::ArrayRef<WrittenPlace> places) {
  for (const auto &[index, place] : llvm::enumerate(places))
    for (const WrittenPlace &other : places.drop_front(index + 1)) {
      if (place.path.empty() || other.path.empty() ||
          (place.isFolder && other.isFolder))
        continue;
      // Skip a flag that names the same file twice, which MetricsLog reports.
      if (place.flag == other.flag && place.path == other.path)
        continue;
      StatusOr<std::string> first = findPlace(place.path);
      StatusOr<std::string> second = findPlace(other.path);
      StatusOr<bool> isSame = isSameFile(place.path, other.path);
      for (const Status &status :
           {first.status(), second.status(), isSame.status()})
        if (!status.ok())
          return reportError(status);
      if (*first == *second || *isSame)
        return reportError(ExitCode::Usage,
                           other.flag + " " + other.path + ": " + place.flag +
                               " writes to the same place" +
                               (place.note.empty() ? "" : ", " + place.note) +
                               "; name another");
    }
  return ExitCode::Done;
}

ExitCode mpc::tools::checkDestination(llvm::StringRef flag,
                                      const std::string &file, bool replaces) {
  if (file.empty() || file == "-")
    return ExitCode::Done;
  const std::string where = (flag + " " + file).str();
  StatusOr<train::FileKind> kind = train::kindOf(file);
  if (!kind.ok())
    return reportError(kind.status());
  if (*kind == train::FileKind::Directory)
    return reportError(ExitCode::IO, where + ": is a folder, expected a file");
  if (replaces && *kind == train::FileKind::Other)
    return reportError(ExitCode::IO, where + ": is a device or a pipe, which a "
                                             "file would replace; expected a "
                                             "file");
  llvm::SmallString<128> folder(file);
  llvm::sys::path::remove_filename(folder);
  if (folder.empty())
    folder = ".";
  kind = train::kindOf(folder.str().str());
  if (!kind.ok())
    return reportError(kind.status());
  if (*kind != train::FileKind::Directory)
    return reportError(ExitCode::IO,
                       where + ": folder '" + folder + "' does not exist");
  const auto has = [&](const char *name) {
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, name);
    return llvm::sys::fs::exists(path);
  };
  if (has("train.json") && has("state.safetensors"))
    return reportError(ExitCode::Usage, where + ": folder '" + folder +
                                            "' is a checkpoint; write "
                                            "elsewhere");
  if (llvm::sys::fs::access(folder, llvm::sys::fs::AccessMode::Write))
    return reportError(ExitCode::IO,
                       where + ": folder '" + folder + "' is not writable");
  return ExitCode::Done;
}
