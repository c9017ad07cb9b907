// Writing, finding and verifying checkpoints.
//
// Reading is in two parts, and only the second touches the model: first the
// files must be what was written (else an older checkpoint may serve), then
// what was written must fit this run (else nobody may guess).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Checkpoint.h"

#include "runtime/train/MappedFile.h"
#include "runtime/train/SafeTensors.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace mpc::runtime::train {

using nlohmann::json;
namespace fs = std::filesystem;

static constexpr int64_t kFormat = 1;
static constexpr char kStateFile[] = "state.safetensors";
static constexpr char kTrainFile[] = "train.json";
static constexpr std::string_view kPrefix = "step-";
static constexpr std::string_view kUnfinished = ".tmp";

static Status damaged(const std::string &path, const std::string &what) {
  return Status(StatusCode::Checkpoint, path + ": " + what);
}

static std::string hex(uint64_t digest) {
  char text[17];
  std::snprintf(text, sizeof(text), "%016llx",
                static_cast<unsigned long long>(digest));
  return text;
}

static std::string digestOf(const void *bytes, size_t size) {
  return hex(XXH3_64bits(bytes, size));
}

static bool isSaved(const Port &state) { return state.role != "derived"; }

static std::string_view bytesOf(const Array &array) {
  return {reinterpret_cast<const char *>(array.data), size_t(array.bytes())};
}

/// "16x1x3x3 f32".
static std::string formOf(const Shape &shape, std::string_view type) {
  return toString(shape) + " " + std::string(type);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

static StatusOr<std::vector<Array>> snapshot(Trainee &model) {
  std::vector<Array> arrays;
  for (const Port &port : model.info().state) {
    if (!isSaved(port))
      continue;
    StatusOr<Tensor> tensor = model.state(port.name);
    if (!tensor.ok())
      return tensor.status();
    auto owner = std::make_shared<Tensor>(std::move(*tensor));
    Array array;
    array.name = port.name;
    array.type = toElementType(owner->type);
    array.shape = owner->shape;
    array.data = owner->bytes.data();
    array.owner = std::move(owner);
    arrays.push_back(std::move(array));
  }
  return arrays;
}

static json toJSON(const Progress &progress) {
  return {
      {"step", progress.step},       {"micro_step", progress.microStep},
      {"samples", progress.samples}, {"skipped", progress.skipped},
      {"epoch", progress.epoch},     {"step_in_epoch", progress.stepInEpoch}};
}

/// train.json: the document's own digest is over its compact form without the
/// digest, keys sorted.
static std::string sealed(json document) {
  const std::string content = document.dump();
  document["digest"] = digestOf(content.data(), content.size());
  return document.dump(2) + "\n";
}

Status CheckpointStore::save(Trainee &model, const Progress &progress,
                             const RunIdentity &identity, int64_t keep) {
  StatusOr<std::vector<Array>> arrays = snapshot(model);
  if (!arrays.ok())
    return arrays.status();
  StatusOr<SafeTensorsLayout> layout =
      layOutSafeTensors(*arrays, {{"format", "mpc"}});
  if (!layout.ok())
    return layout.status();

  std::vector<std::string_view> chunks{layout->header};
  json tensors = json::object();
  for (const Array *array : layout->order) {
    chunks.push_back(bytesOf(*array));
    tensors[array->name] = digestOf(array->data, size_t(array->bytes()));
  }
  XXH3_state_t *state = XXH3_createState();
  XXH3_64bits_reset(state);
  uint64_t total = 0;
  for (std::string_view chunk : chunks) {
    XXH3_64bits_update(state, chunk.data(), chunk.size());
    total += chunk.size();
  }
  const std::string stateDigest = hex(XXH3_64bits_digest(state));
  XXH3_freeState(state);
  const std::string train = sealed({{"format", kFormat},
                                    {"progress", toJSON(progress)},
                                    {"run", identity},
                                    {"state", stateDigest},
                                    {"tensors", tensors}});

  if (Status status = requireSpace(directory, total + total / 5); !status.ok())
    return status;
  const std::string path = pathOf(progress.step);
  const std::string unfinished = path + std::string(kUnfinished);
  std::error_code error;
  fs::create_directory(unfinished, error);
  if (error)
    return Status(StatusCode::IO,
                  unfinished + ": cannot create: " + error.message());
  Status status = createFile(unfinished + "/" + kStateFile, chunks);
  if (status.ok())
    status = createFile(unfinished + "/" + kTrainFile, {train});
  if (status.ok())
    status = syncDirectory(unfinished);
  // Of the same name there can only be one that was found damaged on resume.
  if (status.ok() && fs::exists(path, error))
    status = removeDirectory(path);
  if (status.ok())
    status = renamePath(unfinished, path);
  if (!status.ok()) {
    fs::remove_all(unfinished, error);
    return status;
  }
  status = syncDirectory(directory);
  return status.ok() ? prune(progress.step, keep) : status;
}

Status CheckpointStore::prune(int64_t newest, int64_t keep) const {
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return steps.status();
  // Later ones are damaged leftovers of an earlier run: they do not count.
  steps->erase(std::upper_bound(steps->begin(), steps->end(), newest),
               steps->end());
  const int64_t count = int64_t(steps->size()) - std::max<int64_t>(1, keep);
  for (int64_t i = 0; i < count; ++i) {
    // Renamed first, so that half of one is never taken for a checkpoint.
    const std::string path = pathOf((*steps)[size_t(i)]);
    const std::string doomed = path + std::string(kUnfinished);
    Status status = renamePath(path, doomed);
    if (status.ok())
      status = removeDirectory(doomed);
    if (!status.ok())
      return status;
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// The directory
//===----------------------------------------------------------------------===//

/// N of "step-N", written without leading zeros.
static std::optional<int64_t> parseStep(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix)
    return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size());
  int64_t step = 0;
  for (char c : digits)
    if (c < '0' || c > '9' || __builtin_mul_overflow(step, 10, &step) ||
        __builtin_add_overflow(step, c - '0', &step))
      return std::nullopt;
  if (std::to_string(step) != digits)
    return std::nullopt;
  return step;
}

/// The names of the directories in `directory`.
static StatusOr<std::vector<std::string>>
directoriesIn(const std::string &directory) {
  std::vector<std::string> names;
  std::error_code error;
  fs::directory_iterator it(directory, error), end;
  for (; !error && it != end; it.increment(error))
    if (it->symlink_status().type() == fs::file_type::directory)
      names.push_back(it->path().filename().string());
  if (error)
    return Status(StatusCode::IO,
                  directory + ": cannot list: " + error.message());
  return names;
}

StatusOr<CheckpointStore> CheckpointStore::open(const std::string &directory) {
  if (Status status = makeDirectories(directory); !status.ok())
    return status;
  StatusOr<DirectoryLock> lock = DirectoryLock::acquire(directory);
  if (!lock.ok())
    return lock.status();
  StatusOr<std::vector<std::string>> names = directoriesIn(directory);
  if (!names.ok())
    return names.status();
  for (const std::string &name : *names) {
    const size_t end = name.size() - std::min(name.size(), kUnfinished.size());
    if (name.substr(end) == kUnfinished && parseStep(name.substr(0, end)))
      if (Status status = removeDirectory(directory + "/" + name); !status.ok())
        return status;
  }
  return CheckpointStore(directory, std::move(*lock));
}

std::string CheckpointStore::pathOf(int64_t step) const {
  return directory + "/" + std::string(kPrefix) + std::to_string(step);
}

StatusOr<std::vector<int64_t>> CheckpointStore::list() const {
  StatusOr<std::vector<std::string>> names = directoriesIn(directory);
  if (!names.ok())
    return names.status();
  std::vector<int64_t> steps;
  for (const std::string &name : *names)
    if (std::optional<int64_t> step = parseStep(name))
      steps.push_back(*step);
  std::sort(steps.begin(), steps.end());
  return steps;
}

//===----------------------------------------------------------------------===//
// Reading: are the files what was written?
//===----------------------------------------------------------------------===//

namespace {
struct Contents {
  Progress progress;
  RunIdentity identity;
  std::vector<Array> arrays;
};
} // namespace

/// The sealed document, with every field that is read later present and of the
/// right kind.
static StatusOr<json> openTrainFile(const std::string &path) {
  StatusOr<std::shared_ptr<const MappedFile>> file = MappedFile::open(path);
  if (!file.ok())
    return damaged(path, "missing or unreadable: " + file.status().message());
  const std::string_view text = (*file)->text();
  json document = json::parse(text.begin(), text.end(), nullptr,
                              /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("digest"))
    return damaged(path, "corrupt or truncated");
  const json digest = document["digest"];
  document.erase("digest");
  const std::string content =
      document.dump(-1, ' ', false, json::error_handler_t::replace);
  if (digest != digestOf(content.data(), content.size()))
    return damaged(path, "corrupt: its digest does not match");
  if (document.value("format", json()) != kFormat)
    return damaged(path, "written in format " +
                             document.value("format", json()).dump() +
                             ", this version reads " + std::to_string(kFormat));
  const bool complete = document.value("progress", json()).is_object() &&
                        document.value("run", json()).is_object() &&
                        document.value("state", json()).is_string() &&
                        document.value("tensors", json()).is_object();
  return complete ? StatusOr<json>(std::move(document))
                  : damaged(path, "lacks a field");
}

static StatusOr<Progress> toProgress(const json &fields,
                                     const std::string &path) {
  Progress progress;
  const std::pair<const char *, int64_t *> members[] = {
      {"step", &progress.step},       {"micro_step", &progress.microStep},
      {"samples", &progress.samples}, {"skipped", &progress.skipped},
      {"epoch", &progress.epoch},     {"step_in_epoch", &progress.stepInEpoch},
  };
  for (const auto &[name, value] : members) {
    const auto field = fields.find(name);
    // Far above any count, and safe to do arithmetic with.
    constexpr uint64_t kLimit = uint64_t(1) << 53;
    if (field == fields.end() || !field->is_number_unsigned() ||
        field->get<uint64_t>() > kLimit)
      return damaged(path, std::string("has no valid '") + name + "'");
    *value = field->get<int64_t>();
  }
  return progress;
}

/// Names the first tensor whose bytes are not those that were written.
static Status checkTensors(const std::vector<Array> &arrays,
                           const json &digests, const std::string &path) {
  for (const Array &array : arrays) {
    const auto digest = digests.find(array.name);
    if (digest == digests.end() ||
        *digest != digestOf(array.data, size_t(array.bytes())))
      return damaged(path, "tensor '" + array.name +
                               "' is corrupt: its digest does not match");
  }
  if (arrays.size() != digests.size())
    return damaged(path, "has " + std::to_string(arrays.size()) + " tensors, " +
                             std::to_string(digests.size()) + " were written");
  return Status();
}

static StatusOr<Contents> readContents(const std::string &directory) {
  const std::string trainPath = directory + "/" + kTrainFile;
  const std::string statePath = directory + "/" + kStateFile;
  StatusOr<json> document = openTrainFile(trainPath);
  if (!document.ok())
    return document.status();
  StatusOr<Progress> progress = toProgress((*document)["progress"], trainPath);
  if (!progress.ok())
    return progress.status();
  Contents contents;
  contents.progress = *progress;
  for (const auto &[key, value] : (*document)["run"].items())
    if (value.is_string())
      contents.identity[key] = value.get<std::string>();

  StatusOr<std::shared_ptr<const MappedFile>> file =
      MappedFile::open(statePath);
  if (!file.ok())
    return damaged(statePath,
                   "missing or unreadable: " + file.status().message());
  const MappedFile &state = **file;
  StatusOr<std::vector<Array>> arrays =
      parseSafeTensors(state.data(), state.size(), *file, statePath);
  if (!arrays.ok())
    return Status(StatusCode::Checkpoint, arrays.status().message());
  if (Status status = checkTensors(*arrays, (*document)["tensors"], statePath);
      !status.ok())
    return status;
  if ((*document)["state"] != digestOf(state.data(), state.size()))
    return damaged(statePath, "corrupt: its digest does not match");
  contents.arrays = std::move(*arrays);
  return contents;
}

//===----------------------------------------------------------------------===//
// Reading: does it fit this run?
//===----------------------------------------------------------------------===//

/// How the checkpoint's tensors differ from the model's state, one after
/// another; empty where they do not.
static std::string tensorDifferences(const Contents &contents,
                                     const TraineeInfo &info) {
  std::vector<std::string> differences;
  size_t expected = 0;
  for (const Port &port : info.state) {
    if (!isSaved(port))
      continue;
    ++expected;
    const auto found = std::find_if(
        contents.arrays.begin(), contents.arrays.end(),
        [&](const Array &array) { return array.name == port.name; });
    if (found == contents.arrays.end())
      differences.push_back("'" + port.name + "' is missing");
    else if (found->shape != port.shape ||
             found->type != toElementType(port.type))
      differences.push_back("'" + port.name + "' is " +
                            formOf(found->shape, nameOf(found->type)) +
                            ", the model wants " +
                            formOf(port.shape, runtime::nameOf(port.type)));
  }
  for (const Array &array : contents.arrays)
    if (contents.arrays.size() > expected &&
        std::none_of(info.state.begin(), info.state.end(),
                     [&](const Port &port) {
                       return isSaved(port) && port.name == array.name;
                     }))
      differences.push_back("'" + array.name + "' is not in the model");
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, differences.size()); ++i)
    text += (i ? "; " : "") + differences[i];
  if (differences.size() > kShown)
    text += "; " + std::to_string(differences.size() - kShown) + " more";
  return text;
}

static Status checkFit(const Contents &contents, const TraineeInfo &info,
                       const RunIdentity &identity, const std::string &path) {
  std::string problem;
  for (const auto &[key, value] : identity) {
    const auto found = contents.identity.find(key);
    const std::string then =
        found == contents.identity.end() ? "nothing" : found->second;
    if (then != value) {
      problem = key + " was " + then + ", now it is " + value;
      break;
    }
  }
  const std::string tensors = tensorDifferences(contents, info);
  if (!tensors.empty())
    problem += (problem.empty() ? "" : "; ") + ("tensors: " + tensors);
  if (problem.empty())
    return Status();
  return damaged(path, "checkpoint of another run: " + problem);
}

static Status apply(const Contents &contents, Trainee &model) {
  for (const Array &array : contents.arrays) {
    StatusOr<Tensor> tensor = toTensor(array);
    Status status =
        tensor.ok() ? model.setState(array.name, *tensor) : tensor.status();
    if (!status.ok())
      return status;
  }
  return model.derive();
}

StatusOr<Progress> restoreCheckpoint(const std::string &path, Trainee &model,
                                     const RunIdentity &identity) {
  StatusOr<Contents> contents = readContents(path);
  if (!contents.ok())
    return contents.status();
  if (Status status = checkFit(*contents, model.info(), identity, path);
      !status.ok())
    return status;
  if (Status status = apply(*contents, model); !status.ok())
    return status;
  return contents->progress;
}

StatusOr<std::optional<Progress>> CheckpointStore::restoreNewest(
    Trainee &model, const RunIdentity &identity,
    const std::function<void(const std::string &)> &note) const {
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return steps.status();
  Status last;
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
    StatusOr<Contents> contents = readContents(pathOf(*step));
    if (!contents.ok()) {
      last = contents.status();
      note(last.message() + "; trying the checkpoint before it");
      continue;
    }
    if (Status status =
            checkFit(*contents, model.info(), identity, pathOf(*step));
        !status.ok())
      return status;
    if (Status status = apply(*contents, model); !status.ok())
      return status;
    return std::optional<Progress>(contents->progress);
  }
  if (!steps->empty())
    return Status(StatusCode::Checkpoint,
                  directory + ": every checkpoint is damaged; the oldest: " +
                      last.message());
  return std::optional<Progress>();
}

} // namespace mpc::runtime::train
