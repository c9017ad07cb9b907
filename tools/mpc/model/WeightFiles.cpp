// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/WeightFiles.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Support/NearestNames.h"
#include "frontends/ONNX/Import.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/Weights.h"
#include "frontends/ONNX/Training/Artifacts.h"
#include "runtime/VariableNames.h"
#include "runtime/train/AveragedWeights.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/RuntimeCheckpoint.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/support/MappedFile.h"
#include "tools/mpc/model/AdapterFiles.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::tools;
using runtime::StatusOr;
namespace train = mpc::runtime::train;

//===----------------------------------------------------------------------===//
// Prefixes from --weights-prefix
//===----------------------------------------------------------------------===//

namespace {
/// The replacements of --weights-prefix, which rename arrays in weight files to
/// names in the model.
class WeightNames {
public:
  /// Adds a replacement FROM=TO. If several prefixes fit a name, the first is
  /// replaced.
  llvm::Error add(StringRef text);
  bool isEmpty() const { return prefixes.empty(); }
  /// Returns `name` after replacing the first prefix that fits.
  std::string rename(StringRef name);
  /// Returns an error if a prefix has fitted no name.
  llvm::Error verify() const;

private:
  struct Replacement {
    std::string from, to;
    bool isUsed = false;
  };
  SmallVector<Replacement> prefixes;
};
} // namespace

llvm::Error WeightNames::add(StringRef text) {
  auto [from, to] = text.split('=');
  if (text.contains('=') && from != to) {
    prefixes.push_back({from.str(), to.str()});
    return llvm::Error::success();
  }
  return onnx_frontend::makeError(
      onnx_frontend::ErrorKind::Usage,
      "--weights-prefix " + text +
          ": expected FROM=TO (one may be empty), such as model.=bert.");
}

std::string WeightNames::rename(StringRef name) {
  for (Replacement &prefix : prefixes)
    if (name.starts_with(prefix.from)) {
      prefix.isUsed = true;
      return prefix.to + name.drop_front(prefix.from.size()).str();
    }
  return name.str();
}

llvm::Error WeightNames::verify() const {
  for (const Replacement &prefix : prefixes)
    if (!prefix.isUsed)
      return onnx_frontend::makeError(
          onnx_frontend::ErrorKind::Usage,
          "--weights-prefix " + prefix.from + "=" + prefix.to +
              ": no name in --weights begins with '" + prefix.from + "'");
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Prefixes that PyTorch modules add to names
//===----------------------------------------------------------------------===//

namespace {
/// A prefix like `module.`. All names in the file have the prefix, and the
/// model's names lack it; if `isMissing`, the other way round.
struct Prefix {
  std::string text;
  bool isMissing = false;
};

using Values = std::vector<std::pair<std::string, onnx_frontend::HostTensor>>;
} // namespace

// Counts the names in `values` that are names of the model once `prefix` is
// removed. 0 if a name does not have the prefix.
static int64_t countWithout(StringRef prefix, const Values &values,
                            const llvm::StringSet<> &taken) {
  int64_t count = 0;
  for (const auto &[name, value] : values) {
    StringRef rest = name;
    if (!rest.consume_front(prefix))
      return 0;
    count += taken.contains(rest);
  }
  return count;
}

// Finds a prefix, up to a dot, that relates the names in `values` to the
// model's names. First tries prefixes of all names, and takes the prefix
// without which most names are in the model. Else looks for the only prefix
// with which the model has every name.
static std::optional<Prefix> findPrefix(const Values &values,
                                        const llvm::StringSet<> &taken) {
  StringRef first = values.front().first;
  Prefix found;
  int64_t most = 0;
  for (size_t dot = first.find('.'); dot != StringRef::npos;
       dot = first.find('.', dot + 1)) {
    StringRef prefix = first.take_front(dot + 1);
    if (int64_t count = countWithout(prefix, values, taken); count > most) {
      most = count;
      found.text = prefix.str();
    }
  }
  if (most > 0)
    return found;
  found.isMissing = true;
  for (StringRef name : taken.keys()) {
    StringRef prefix = name;
    if (!prefix.consume_back(first) || !prefix.ends_with(".") ||
        !llvm::all_of(values, [&](const auto &value) {
          return taken.contains((prefix + value.first).str());
        }))
      continue;
    // Give up if two prefixes fit, since the model has two modules with these
    // names.
    if (!found.text.empty())
      return std::nullopt;
    found.text = prefix.str();
  }
  return found.text.empty() ? std::nullopt : std::optional(found);
}

// Renames the values by the prefix of findPrefix, unless a value has a name of
// the model already.
static void adoptNames(const std::string &file,
                       const onnx_frontend::Model &model, Values &values) {
  llvm::StringSet<> taken;
  for (StringRef name : onnx_frontend::getTakenNames(model))
    taken.insert(name);
  if (llvm::any_of(values, [&](const auto &value) {
        return taken.contains(value.first);
      }))
    return;
  std::optional<Prefix> prefix = findPrefix(values, taken);
  if (!prefix)
    return;
  for (auto &[name, value] : values)
    name = prefix->isMissing ? prefix->text + name
                             : name.substr(prefix->text.size());
  note(file + ": names are taken " + (prefix->isMissing ? "with" : "without") +
       " '" + prefix->text + "', as the model has them");
}

// Renames each value whose name in the user's file differs from the name in the
// repaired model. The repaired model stores the transposed matrix, so
// transposes the value too.
static void adoptFileNames(const onnx_frontend::Model &model, Values &values) {
  for (auto &[name, value] : values) {
    std::string present = model.findPresentName(name);
    if (present.empty())
      continue;
    name = std::move(present);
    if (value.type.getRank() == 2)
      value = value.transpose();
  }
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

static llvm::Error toError(const runtime::Status &status) {
  return onnx_frontend::makeError(status.getCode(), status.message());
}

void mpc::tools::takeAveragedWeights(
    const std::string &file, std::vector<runtime::train::Array> &arrays,
    llvm::function_ref<bool(StringRef)> isOwn) {
  std::vector<std::string> taken = runtime::train::takeAverages(
      arrays, [&](const std::string &name) { return isOwn(name); });
  if (taken.empty())
    return;
  llvm::sort(taken);
  llvm::erase_if(arrays, [&](const runtime::train::Array &array) {
    return llvm::binary_search(taken, array.name);
  });
  note(file + ": the averages of --ema become the parameters: " +
       listNearestNames("", taken));
}

// True if an array of `arrays` is the average of another.
static bool hasAverages(std::vector<runtime::train::Array> arrays,
                        llvm::function_ref<bool(StringRef)> isOwn) {
  return !runtime::train::takeAverages(arrays, [&](const std::string &name) {
            return isOwn(name);
          }).empty();
}

namespace {
/// The use of averages, and a flag for files that have some left.
struct AverageUse {
  Averages use = Averages::Take;
  bool areFound = false;
};
} // namespace

// Returns the model's name of a checkpoint's variable: "onnx:step" is the
// initializer "step". Old checkpoints also escaped names that an exporter
// numbers, like "onnx:onnx::MatMul_57" for "onnx::MatMul_57". `isOwn` is true
// for names of the model.
static StringRef findModelName(StringRef variable,
                               llvm::function_ref<bool(StringRef)> isOwn) {
  StringRef name = onnx_frontend::getONNXName(variable), inner = name;
  bool wasEscaped =
      !isOwn(name) && inner.consume_front(kVariableEscape) && isOwn(inner);
  return wasEscaped ? inner : name;
}

// Reads all arrays of a weight file, by the model's names. `isOwn` is true for
// names of the model.
static llvm::Expected<Values>
readValues(const std::string &file, MLIRContext *context,
           ArrayRef<std::string> noRepair, AverageUse &averages,
           llvm::function_ref<bool(StringRef)> isOwn) {
  Values values;
  if (StringRef(file).ends_with(".onnx")) {
    auto read = onnx_frontend::readWeights(file, context, noRepair);
    if (!read)
      return read.takeError();
    for (auto &[name, value] : *read)
      values.emplace_back(name.str(), value);
  } else {
    auto arrays = runtime::train::readArrays(file);
    if (!arrays.ok())
      return toError(arrays.status());
    auto isOwnVariable = [&](StringRef name) {
      return isOwn(findModelName(name, isOwn));
    };
    if (averages.use == Averages::Take)
      takeAveragedWeights(file, *arrays, isOwnVariable);
    else
      averages.areFound |= hasAverages(*arrays, isOwnVariable);
    for (const runtime::train::Array &array : *arrays)
      values.emplace_back(findModelName(array.name, isOwn).str(),
                          toHostTensor(array, context));
  }
  // Report a file without arrays, which must be a mistake of the user.
  if (!values.empty())
    return values;
  return onnx_frontend::makeError(onnx_frontend::ErrorKind::InvalidInput,
                                  "--weights " + file +
                                      ": the file holds no arrays");
}

// True if the file at `path` begins like a checkpoint of ONNX Runtime.
static StatusOr<bool> beginsAsCheckpoint(const std::string &path) {
  auto file = train::MappedFile::open(path);
  if (!file.ok())
    return file.status();
  return train::looksLikeRuntimeCheckpoint((*file)->data(), (*file)->size());
}

// For a model that is a training artifact of ONNX Runtime, finds the file
// `checkpoint` in the same folder, which holds the values of the parameters.
// Empty for other models, if the file is of another kind, and for a symbolic
// link, which may lead out of the folder.
static StatusOr<std::vector<std::string>>
findOwnCheckpoint(const onnx_frontend::Model &model) {
  std::vector<std::string> found;
  if (!onnx_frontend::isTrainingArtifact(model))
    return found;
  llvm::SmallString<128> path(llvm::sys::path::parent_path(model.getPath()));
  llvm::sys::path::append(path, "checkpoint");
  std::string file = path.str().str();
  StatusOr<train::FileKind> kind = train::kindOfLink(file);
  if (!kind.ok())
    return kind.status();
  if (*kind == train::FileKind::Regular) {
    StatusOr<bool> isCheckpoint = beginsAsCheckpoint(file);
    if (!isCheckpoint.ok())
      return isCheckpoint.status();
    if (*isCheckpoint)
      found.push_back(std::move(file));
  }
  return found;
}

llvm::Error mpc::tools::readWeightFiles(const ModelOptions &given,
                                        const onnx_frontend::Model &model,
                                        onnx_frontend::ImportOptions &options,
                                        MLIRContext *context,
                                        Averages averages) {
  WeightNames renamed;
  for (const std::string &prefix : given.weightsPrefixes)
    if (llvm::Error error = renamed.add(prefix))
      return error;
  llvm::StringSet<> taken;
  for (StringRef name : onnx_frontend::getTakenNames(model))
    taken.insert(name);
  std::vector<std::string> files = given.weights;
  if (files.empty()) {
    StatusOr<std::vector<std::string>> found = findOwnCheckpoint(model);
    if (!found.ok())
      return toError(found.status());
    files = std::move(*found);
  }
  AverageUse use{averages};
  for (const std::string &file : files) {
    if (llvm::Error error = checkAdapterKind(file))
      return error;
    llvm::Expected<Values> values =
        readValues(file, context, given.noRepair, use, [&](StringRef name) {
          return taken.contains(renamed.rename(name));
        });
    if (!values)
      return values.takeError();
    dropPEFTPrefix(
        *values, [](auto &value) -> std::string & { return value.first; },
        [&](StringRef name) { return taken.contains(name); });
    // Rename by --weights-prefix; without the flag, guess a prefix.
    for (auto &[name, value] : *values)
      name = renamed.rename(name);
    adoptFileNames(model, *values);
    if (renamed.isEmpty())
      adoptNames(file, model, *values);
    std::vector<std::string> &names = options.weightFiles[file];
    for (const auto &[name, value] : *values) {
      options.weights[name] = value;
      names.push_back(name);
    }
    llvm::sort(names);
  }
  if (averages == Averages::Leave && !use.areFound)
    return onnx_frontend::makeError(
        onnx_frontend::ErrorKind::Usage,
        "--no-ema has no effect: " + llvm::join(files, " and ") +
            (files.size() == 1 ? " has" : " have") +
            " no averages, which only a run with --ema makes; leave the flag "
            "out");
  return renamed.verify();
}

// True for the name of the counter of batches in PyTorch's BatchNormalization,
// which no ONNX model has.
static bool isCounter(StringRef name) {
  return name.ends_with(".num_batches_tracked");
}

void mpc::tools::noteWeights(ModuleOp module,
                             const onnx_frontend::ImportOptions &options) {
  // Compare names in ONNX, which weight files have, not names of variables.
  std::vector<std::string> variables, kept;
  llvm::StringSet<> ofAdapters;
  for (auto variable : module.getOps<VariableOp>())
    if (isModelRole(variable.getRole())) {
      variables.push_back(
          onnx_frontend::getONNXName(variable.getSymName()).str());
      if (variable->hasAttr(kAdapterAttr))
        ofAdapters.insert(variables.back());
    }
  llvm::sort(variables);
  for (const auto &[file, names] : options.weightFiles) {
    std::vector<std::string> others;
    llvm::copy_if(names, std::back_inserter(others), [&](StringRef name) {
      return !llvm::binary_search(variables, name) && !isCounter(name);
    });
    note(llvm::Twine(llvm::count_if(names,
                                    [&](StringRef name) {
                                      return llvm::binary_search(variables,
                                                                 name);
                                    })) +
         " of " + llvm::Twine(variables.size()) + " parameter" +
         (variables.size() == 1 ? "" : "s") + " from " + file +
         (others.empty() ? ""
                         : ", which also has " + listNearestNames("", others)));
  }
  llvm::copy_if(variables, std::back_inserter(kept), [&](StringRef name) {
    return !options.weights.contains(name) && !ofAdapters.contains(name);
  });
  if (!options.weightFiles.empty() && !kept.empty())
    note("not in --weights, so the model's values stay: " +
         listNearestNames("", kept));
}
