// Serialises the files of checkpoints with digests, and verifies the digests.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/CheckpointFiles.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/data/SafeTensors.h"
#include "runtime/train/support/MappedFile.h"

#include <array>
#include <cassert>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <xxhash.h>

namespace mpc::runtime::train {

using nlohmann::json;

static constexpr int64_t kFormat = 1;
/// Limit on the size of train.json, which leaves room for millions of tensors.
static constexpr size_t kLargestTrainFile = size_t(256) << 20;
static constexpr char kStateFile[] = "/state.safetensors";
static constexpr char kTrainFile[] = "/train.json";

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

static std::string digestOf(const std::vector<std::string_view> &chunks) {
  XXH3_state_t *state = XXH3_createState();
  XXH3_64bits_reset(state);
  for (std::string_view chunk : chunks)
    XXH3_64bits_update(state, chunk.data(), chunk.size());
  const uint64_t digest = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  return hex(digest);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Returns the members of an EvaluationState that watch a metric, with their
/// keys in train.json.
template <typename State>
static auto watchedIn(State &state) {
  return std::array<std::pair<const char *, decltype(&state.best)>, 3>{
      {{"best", &state.best},
       {"early_stopping", &state.earlyStopping},
       {"plateau", &state.plateau}}};
}

static json toJSON(const MonitorState &state) {
  json object = {{"monitor", state.monitor}, {"waited", state.waited}};
  if (state.best) {
    object["best"] = *state.best;
    object["best_step"] = state.bestStep;
  }
  return object;
}

/// Returns `state` as JSON, without the members whose flags the run does not
/// use.
static json toJSON(const EvaluationState &state) {
  json object = {{"step", state.step}, {"reductions", state.reductions}};
  for (const auto &[name, watched] : watchedIn(state))
    if (!watched->monitor.empty())
      object[name] = toJSON(*watched);
  return object;
}

static json toJSON(const Progress &progress) {
  return {{"step", progress.step},
          {"micro_step", progress.microStep},
          {"samples", progress.samples},
          {"skipped", progress.skipped},
          {"epoch", progress.epoch},
          {"step_in_epoch", progress.stepInEpoch},
          {"sample_in_epoch", progress.sampleInEpoch},
          {"batch_in_step", progress.batchInStep},
          {"loss_in_step", progress.lossInStep},
          {"evaluations", toJSON(progress.evaluations)}};
}

/// Returns the text of train.json with "digest" added. The digest is over the
/// document without "digest", in compact form with sorted keys.
static std::string sealed(json document) {
  assert(!document.contains("digest") && "a document is sealed once");
  const std::string content = textOf(document);
  document["digest"] = digestOf(content.data(), content.size());
  return textOf(document, 2) + "\n";
}

StatusOr<std::unique_ptr<CheckpointImage>>
makeCheckpointImage(const CheckpointContents &contents) {
  StatusOr<SafeTensorsLayout> layout =
      layOutSafeTensors(contents.arrays, {{"format", "mpc"}});
  if (!layout.ok())
    return layout.status();
  auto image = std::make_unique<CheckpointImage>();
  image->header = std::move(layout->header);
  image->chunks.push_back(image->header);
  // Store a digest of each tensor, so that errors can name the damaged tensor.
  json tensors = json::object();
  assert(layout->order.size() == contents.arrays.size() &&
         "every array has a place in the file");
  for (const Array *array : layout->order) {
    assert(!array->packed && "the values are in memory");
    const auto size = size_t(array->bytes());
    image->chunks.emplace_back(reinterpret_cast<const char *>(array->data),
                               size);
    tensors[array->name] = digestOf(array->data, size);
  }
  for (std::string_view chunk : image->chunks)
    image->stateBytes += chunk.size();
  json document = {{"format", kFormat},
                   {"progress", toJSON(contents.progress)},
                   {"run", contents.identity},
                   {"settings", contents.progress.settings},
                   {"state", digestOf(image->chunks)},
                   {"tensors", tensors}};
  if (!contents.progress.record.empty())
    document["record"] = contents.progress.record;
  image->train = sealed(std::move(document));
  return image;
}

Status writeCheckpointFiles(const std::string &directory,
                            const CheckpointImage &image) {
  assert(!image.chunks.empty() && image.chunks.front() == image.header &&
         "the header comes first");
  assert(!image.train.empty() && "both files are made before one is written");
  Status status = createFile(directory + kStateFile, image.chunks);
  if (status.ok())
    status = createFile(directory + kTrainFile, {image.train});
  return status.ok() ? syncDirectory(directory) : status;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

/// Opens a file of a checkpoint. Checkpoint if the file is missing or not a
/// regular file. IO if the system fails to read the file, which may be intact,
/// and readable in a minute.
static StatusOr<std::shared_ptr<const MappedFile>>
openFile(const std::string &path) {
  StatusOr<FileKind> kind = kindOf(path);
  if (!kind.ok())
    return kind.status();
  if (*kind == FileKind::None)
    return damaged(path, "missing");
  if (*kind != FileKind::Regular)
    return damaged(path, "not a regular file");
  return MappedFile::open(path);
}

/// Reads train.json. Checks the digest, and the presence and kind of every
/// field that is read later.
static StatusOr<json> openTrainFile(const std::string &path) {
  StatusOr<std::shared_ptr<const MappedFile>> file = openFile(path);
  if (!file.ok())
    return file.status();
  if ((*file)->size() > kLargestTrainFile)
    return damaged(path, "far larger than any checkpoint of mpc");
  json document = parseBoundedJSON((*file)->text());
  if (!document.is_object() || !document.contains("digest"))
    return damaged(path, "corrupt or truncated");
  const json digest = document["digest"];
  document.erase("digest");
  const std::string content = textOf(document);
  if (digest != digestOf(content.data(), content.size()))
    return damaged(path, "corrupt: its digest does not match");
  if (document.value("format", json()) != kFormat)
    return damaged(path, "written in format " +
                             abbreviated(document["format"].dump()) +
                             ", this version reads " + std::to_string(kFormat));
  const bool complete = document.value("progress", json()).is_object() &&
                        document.value("run", json()).is_object() &&
                        document.value("state", json()).is_string() &&
                        document.value("settings", json()).is_object() &&
                        document.value("tensors", json()).is_object();
  return complete ? StatusOr<json>(std::move(document))
                  : damaged(path, "lacks a field");
}

/// Reads the field `name`. False if the field is missing or no count.
static bool readCount(const json &fields, const char *name, int64_t &value) {
  const auto field = fields.find(name);
  // No count reaches this limit, and arithmetic with counts below cannot
  // overflow.
  constexpr uint64_t kLimit = uint64_t(1) << 53;
  if (field == fields.end() || !field->is_number_unsigned() ||
      field->get<uint64_t>() > kLimit)
    return false;
  value = field->get<int64_t>();
  return true;
}

/// Reads the state of a monitor from `fields`. False if a field is missing or
/// invalid.
static bool readState(const json &fields, MonitorState &state) {
  if (!fields.is_object() || !readCount(fields, "waited", state.waited) ||
      !fields.value("monitor", json()).is_string())
    return false;
  state.monitor = fields["monitor"].get<std::string>();
  const auto best = fields.find("best");
  if (best == fields.end())
    return true;
  if (!best->is_number() || !readCount(fields, "best_step", state.bestStep))
    return false;
  state.best = best->get<double>();
  return true;
}

/// Reads the evaluation state from a run's progress. False if the state is
/// invalid. True without a state, as in checkpoints of older versions.
static bool readEvaluations(const json &progress, EvaluationState &state) {
  const auto fields = progress.find("evaluations");
  if (fields == progress.end())
    return true;
  if (!fields->is_object() || !readCount(*fields, "step", state.step) ||
      !readCount(*fields, "reductions", state.reductions))
    return false;
  for (const auto &[name, watched] : watchedIn(state))
    if (const auto found = fields->find(name);
        found != fields->end() && !readState(*found, *watched))
      return false;
  return true;
}

static StatusOr<Progress> toProgress(const json &fields,
                                     const std::string &path) {
  Progress progress;
  const std::pair<const char *, int64_t *> members[] = {
      {"step", &progress.step},
      {"micro_step", &progress.microStep},
      {"samples", &progress.samples},
      {"skipped", &progress.skipped},
      {"epoch", &progress.epoch},
      {"step_in_epoch", &progress.stepInEpoch},
      {"batch_in_step", &progress.batchInStep},
  };
  for (const auto &[name, value] : members)
    if (!readCount(fields, name, *value))
      return damaged(path, std::string("has no valid '") + name + "'");
  if (progress.stepInEpoch > progress.step)
    return damaged(path, "has more steps in the epoch than steps");
  // Older versions did not record the place, and all attempts took equally many
  // samples.
  if (!fields.contains("sample_in_epoch"))
    progress.sampleInEpoch =
        progress.step == 0
            ? 0
            : progress.samples / progress.step * progress.stepInEpoch;
  else if (!readCount(fields, "sample_in_epoch", progress.sampleInEpoch))
    return damaged(path, "has no valid 'sample_in_epoch'");
  // The schedule counts the difference, which must not be negative.
  if (progress.skipped > progress.step)
    return damaged(path, "has more skipped steps than steps");
  if (!readEvaluations(fields, progress.evaluations))
    return damaged(path, "has no valid 'evaluations'");
  // A sum that is not finite was written as null.
  const json loss = fields.value("loss_in_step", json());
  progress.lossInStep = loss.is_number() ? loss.get<double>() : NAN;
  return progress;
}

std::string printProgress(const Progress &progress) {
  return textOf(toJSON(progress));
}

StatusOr<Progress> parseProgress(const std::string &text) {
  const json fields = parseBoundedJSON(text);
  return fields.is_object() ? toProgress(fields, "progress")
                            : damaged("progress", "no JSON object");
}

/// Compares each tensor's digest with the digest in the checkpoint's list. The
/// error names the first tensor that differs.
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

Status amendCheckpointFiles(const std::string &directory,
                            const Progress &progress) {
  const std::string path = directory + kTrainFile;
  StatusOr<json> document = openTrainFile(path);
  if (!document.ok())
    return document.status();
  (*document)["progress"] = toJSON(progress);
  const std::string text = sealed(std::move(*document));
  return replaceFile(path, {text});
}

/// Reads the run and its progress from train.json.
static StatusOr<CheckpointContents> toContents(const json &document,
                                               const std::string &path) {
  StatusOr<Progress> progress = toProgress(document["progress"], path);
  if (!progress.ok())
    return progress.status();
  CheckpointContents contents;
  contents.progress = *progress;
  const auto texts = [&](const char *name) {
    std::map<std::string, std::string> values;
    for (const auto &[key, value] : document[name].items())
      if (value.is_string())
        values[key] = value.get<std::string>();
    return values;
  };
  contents.identity = texts("run");
  contents.progress.settings = texts("settings");
  if (document.contains("record"))
    contents.progress.record = texts("record");
  return contents;
}

StatusOr<CheckpointContents>
readCheckpointHeader(const std::string &directory) {
  const std::string path = directory + kTrainFile;
  StatusOr<json> document = openTrainFile(path);
  if (!document.ok())
    return document.status();
  return toContents(*document, path);
}

StatusOr<CheckpointContents> readCheckpointFiles(const std::string &directory) {
  const std::string trainPath = directory + kTrainFile;
  const std::string statePath = directory + kStateFile;
  StatusOr<json> document = openTrainFile(trainPath);
  if (!document.ok())
    return document.status();
  StatusOr<CheckpointContents> read = toContents(*document, trainPath);
  if (!read.ok())
    return read.status();
  CheckpointContents contents = std::move(*read);

  StatusOr<std::shared_ptr<const MappedFile>> file = openFile(statePath);
  if (!file.ok())
    return file.status();
  const MappedFile &state = **file;
  // Check single tensors before the whole file: the error then names the
  // tensor.
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

} // namespace mpc::runtime::train
