// Manages the directory of checkpoints, and checks that a checkpoint fits a
// run.
//
// Restoring changes the model only after two checks. The files must be exactly
// as written; if not, the caller may take an older checkpoint. The contents
// must fit this run; if not, restoring fails.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/Checkpoint.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/checkpoint/StepSplit.h"
#include "runtime/train/checkpoint/Weights.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

namespace mpc::runtime::train {

namespace fs = std::filesystem;

static constexpr std::string_view kPrefix = "step-";
static constexpr std::string_view kUnfinished = ".tmp";
static constexpr char kBest[] = "/best";
static constexpr char kLast[] = "last";

static bool isSaved(const Port &state) { return state.role != Role::Derived; }

//===----------------------------------------------------------------------===//
// Saving
//===----------------------------------------------------------------------===//

/// Returns a numeric error if a parameter or a running statistic is not finite,
/// unless `allowed` names it.
static Status checkFinite(const std::vector<Array> &arrays,
                          const TraineeInfo &info,
                          const std::set<std::string> &allowed) {
  for (const Port &port : info.state) {
    if (allowed.count(port.name) > 0)
      continue;
    const auto found =
        std::find_if(arrays.begin(), arrays.end(), [&](const Array &array) {
          return array.name == port.name;
        });
    if (found == arrays.end())
      continue;
    const std::string problem = describeNonFinite(port, found->data);
    if (!problem.empty())
      return Status(StatusCode::Numeric, problem);
  }
  return Status();
}

/// If somebody moved or removed the directory, creates a new one, since hours
/// of training need a place. Locks the new directory, since the lock belongs to
/// the old one.
Status CheckpointStore::followDirectory() {
  if (Status status = makeDirectories(directory); !status.ok())
    return status;
  StatusOr<bool> isLocked = lock.holds(directory);
  if (!isLocked.ok() || *isLocked)
    return isLocked.status();
  StatusOr<DirectoryLock> acquired = DirectoryLock::acquire(directory);
  if (!acquired.ok())
    return acquired.status();
  // Refuse a new directory with checkpoints of another run: this run would
  // remove the checkpoints.
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return steps.status();
  if (!steps->empty())
    return Status(StatusCode::IO,
                  directory + ": is not the folder that this run began with, "
                              "and has checkpoints; move it away");
  lock = std::move(*acquired);
  return Status();
}

/// Writes a checkpoint as `step-N.tmp`, flushes it, and renames it to `step-N`.
Status CheckpointStore::write(Trainee &model, const Progress &progress,
                              const RunIdentity &identity) {
  StatusOr<std::vector<Array>> arrays = readStates(model, isSaved);
  if (!arrays.ok())
    return arrays.status();
  if (Status status = checkFinite(*arrays, model.info(), nonFinite);
      !status.ok())
    return status;
  const CheckpointContents contents{progress, identity, std::move(*arrays)};
  StatusOr<std::unique_ptr<CheckpointImage>> image =
      makeCheckpointImage(contents);
  if (!image.ok())
    return image.status();
  if (Status status = followDirectory(); !status.ok())
    return status;
  const uint64_t bytes = (*image)->stateBytes;
  if (Status status = requireSpace(directory, bytes + bytes / 5); !status.ok())
    return status;

  const std::string path = pathOf(progress.step);
  const std::string unfinished = path + std::string(kUnfinished);
  // Remove a link called `unfinished`: never write to the target of a link.
  StatusOr<FileKind> kind = kindOfLink(unfinished);
  Status status = kind.status();
  if (status.ok() && *kind == FileKind::Link)
    status = removeDirectory(unfinished);
  if (status.ok())
    status = makeDirectories(unfinished);
  if (status.ok())
    status = writeCheckpointFiles(unfinished, **image);
  // If there is a checkpoint of this step, it was damaged when the run resumed.
  if (status.ok()) {
    kind = kindOfLink(path);
    status = !kind.ok()                ? kind.status()
             : *kind != FileKind::None ? removeDirectory(path)
                                       : Status();
  }
  if (status.ok())
    status = renamePath(unfinished, path);
  if (status.ok())
    return syncDirectory(directory);
  // Ignore a failure: in the next run, open() removes the rest.
  static_cast<void>(removeDirectory(unfinished));
  return status;
}

Status CheckpointStore::save(Trainee &model, const Progress &progress,
                             const RunIdentity &identity, int64_t keep,
                             const Note &note) {
  Status status = write(model, progress, identity);
  while (isForWantOfSpace(status) && makeRoom(progress.step, keep))
    status = write(model, progress, identity);
  if (!status.ok())
    return status;
  if (Status pruned = prune(progress.step, keep); !pruned.ok() && note)
    note("an old checkpoint cannot be removed: " + pruned.message());
  return Status();
}

/// Renames a checkpoint before removing it, so that a half-removed checkpoint
/// never looks complete.
Status CheckpointStore::remove(int64_t step) const {
  const std::string path = pathOf(step);
  const std::string doomed = path + std::string(kUnfinished);
  Status status = renamePath(path, doomed);
  return status.ok() ? removeDirectory(doomed) : status;
}

/// Makes room for the checkpoint of step `newest`: removes the oldest
/// checkpoint that `save` would remove after writing, provided that the newest
/// checkpoint is undamaged. False if no checkpoint can be removed.
bool CheckpointStore::makeRoom(int64_t newest, int64_t keep) const {
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return false;
  steps->erase(std::lower_bound(steps->begin(), steps->end(), newest),
               steps->end());
  StatusOr<std::vector<int64_t>> spare = spareOf(*steps, keep - 1);
  if (!spare.ok() || spare->empty() || spare->front() == steps->back())
    return false;
  const bool spared = readCheckpointFiles(pathOf(steps->back())).ok();
  return spared && remove(spare->front()).ok();
}

/// Returns the elements of `steps`, in ascending order, that are neither among
/// the newest `keep` nor the best.
StatusOr<std::vector<int64_t>>
CheckpointStore::spareOf(std::vector<int64_t> steps, int64_t keep) const {
  const int64_t kept = std::min(keep, int64_t(steps.size()));
  steps.resize(steps.size() - size_t(std::max<int64_t>(0, kept)));
  StatusOr<std::optional<int64_t>> marked = best();
  if (!marked.ok())
    return marked.status();
  if (*marked)
    steps.erase(std::remove(steps.begin(), steps.end(), **marked), steps.end());
  return steps;
}

Status CheckpointStore::prune(int64_t newest, int64_t keep) const {
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return steps.status();
  // Ignore later steps: they are damaged leftovers of an earlier run.
  steps->erase(std::upper_bound(steps->begin(), steps->end(), newest),
               steps->end());
  StatusOr<std::vector<int64_t>> spare =
      spareOf(*steps, std::max<int64_t>(1, keep));
  if (!spare.ok())
    return spare.status();
  for (int64_t step : *spare)
    if (Status status = remove(step); !status.ok())
      return status;
  return Status();
}

Status CheckpointStore::amend(const Progress &progress) const {
  return amendCheckpointFiles(pathOf(progress.step), progress);
}

Status CheckpointStore::markBest(int64_t step, int64_t newest,
                                 int64_t keep) const {
  if (Status status = replaceLink(directory + kBest,
                                  std::string(kPrefix) + std::to_string(step));
      !status.ok())
    return status;
  return prune(newest, keep);
}

//===----------------------------------------------------------------------===//
// The directory
//===----------------------------------------------------------------------===//

/// Returns N if `name` is "step-N" and N has no leading zeros; nullopt
/// otherwise.
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

/// Lists the names of the directories in `directory`, without links.
static StatusOr<std::vector<std::string>>
directoriesIn(const std::string &directory) {
  StatusOr<std::vector<FolderEntry>> entries = listFolder(directory);
  if (!entries.ok())
    return entries.status();
  std::vector<std::string> names;
  for (const FolderEntry &entry : *entries)
    if (entry.isFolder && !entry.isLink)
      names.push_back(entry.name);
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
    // A leftover that cannot be removed does no harm.
    if (name.substr(end) == kUnfinished && parseStep(name.substr(0, end)))
      static_cast<void>(removeDirectory(directory + "/" + name));
  }
  return CheckpointStore(directory, std::move(*lock));
}

std::string CheckpointStore::pathOf(int64_t step) const {
  return directory + "/" + std::string(kPrefix) + std::to_string(step);
}

/// Returns the step that the link `best` names. Anybody may have written the
/// link, so accepts only the name of a checkpoint.
StatusOr<std::optional<int64_t>> CheckpointStore::best() const {
  StatusOr<std::optional<std::string>> target = readLink(directory + kBest);
  if (!target.ok())
    return target.status();
  return *target ? parseStep(**target) : std::optional<int64_t>();
}

std::string siblingOf(const std::string &path, int64_t step) {
  const fs::path folder = fs::path(path) / "..";
  return (folder / (std::string(kPrefix) + std::to_string(step)))
      .lexically_normal()
      .string();
}

StatusOr<std::vector<int64_t>> listCheckpoints(const std::string &directory) {
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

StatusOr<std::vector<int64_t>> CheckpointStore::list() const {
  return listCheckpoints(directory);
}

//===----------------------------------------------------------------------===//
// Restoring
//===----------------------------------------------------------------------===//

/// Returns "16x1x3x3 f32".
static std::string formOf(const Shape &shape, std::string_view type) {
  return toString(shape) + " " + std::string(type);
}

/// Joins at most five items, "a; b; 3 more": enough to see what is wrong.
static std::string listSome(const std::vector<std::string> &items) {
  constexpr size_t kShown = 5;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, items.size()); ++i)
    text += (i ? "; " : "") + items[i];
  if (items.size() > kShown)
    text += "; " + std::to_string(items.size() - kShown) + " more";
  return text;
}

/// Describes how the checkpoint's tensors differ from the model's state; empty
/// if they agree.
static std::string tensorDifferences(const CheckpointContents &contents,
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
  // Search for tensors that the model lacks only if the checkpoint has more
  // tensors than the model.
  for (const Array &array : contents.arrays)
    if (contents.arrays.size() > expected &&
        std::none_of(info.state.begin(), info.state.end(),
                     [&](const Port &port) {
                       return isSaved(port) && port.name == array.name;
                     }))
      differences.push_back("'" + array.name + "' is not in the model");
  return listSome(differences);
}

/// Lists the entries that differ between two recipes (JSON objects). Leaves out
/// "decisions", a digest that would tell users nothing.
static std::vector<std::string> recipeDifferences(const std::string &then,
                                                  const std::string &now) {
  // Both recipes come from files, so parse them with a limit on their depth.
  const BoundedDocument thenRead(then), nowRead(now);
  const nlohmann::json &before = thenRead.json, &after = nowRead.json;
  if (!before.is_object() || !after.is_object())
    return {"recipe was " + abbreviated(then) + ", now it is " +
            abbreviated(now)};
  std::set<std::string> keys;
  for (const nlohmann::json *both : {&after, &before})
    for (const auto &[key, unused] : both->items())
      keys.insert(key);
  // A missing entry counts as null, so it differs from any other value.
  std::vector<std::string> differences;
  for (const std::string &key : keys) {
    const nlohmann::json was = before.value(key, nlohmann::json());
    const nlohmann::json is = after.value(key, nlohmann::json());
    if (was != is && key != "decisions")
      differences.push_back(abbreviated(key) + " was " +
                            abbreviated(textOf(was)) + ", now it is " +
                            abbreviated(textOf(is)));
  }
  return differences;
}

/// True if `key` is "data" and the data differ, not only their preparation. The
/// fingerprint of data begins with a digest of 16 digits.
static bool isOtherData(const std::string &key, const std::string &then,
                        const std::string &now) {
  constexpr size_t digits = 16;
  return key == "data" && then.substr(0, digits) != now.substr(0, digits);
}

/// Describes a difference of the data. Names the old files, since a digest
/// would tell users nothing.
static std::string dataDifference(const Progress &then) {
  const auto files = then.settings.find("data");
  return "the data differs, or is split differently" +
         (files == then.settings.end()
              ? std::string()
              : "; it was " + abbreviated(files->second));
}

/// Describes each fact of the run that differs, with its old and new value.
static std::vector<std::string>
runDifferences(const CheckpointContents &contents, const RunIdentity &now) {
  const RunIdentity identity = factsToMatch(contents.identity, now);
  std::vector<std::string> differences;
  bool differs = false;
  // Compare only the keys of this run: a later version of mpc may have recorded
  // more.
  for (const auto &[key, value] : identity) {
    const auto found = contents.identity.find(key);
    const std::string then =
        found == contents.identity.end() ? "nothing" : found->second;
    if (then == value)
      continue;
    differs = true;
    if (key == "recipe")
      for (std::string &difference : recipeDifferences(then, value))
        differences.push_back(std::move(difference));
    else
      differences.push_back(isOtherData(key, then, value)
                                ? dataDifference(contents.progress)
                                : key + " was " + abbreviated(then) +
                                      ", now it is " + value);
  }
  // Only the recipe's digest of decisions differs. Flags and files are equal,
  // so the version of mpc may be the cause.
  if (differs && differences.empty())
    differences.push_back("the graph or the types of its ops differ");
  return differences;
}

static Status refuseRun(const std::string &problem, const std::string &path) {
  if (problem.empty())
    return Status();
  return Status(StatusCode::Checkpoint,
                path + ": checkpoint of another run: " + problem +
                    "; to start a new run from its weights, use --weights " +
                    path + "/state.safetensors");
}

/// Checks that a checkpoint fits the run. Adapts the checkpoint if the run
/// divides the samples of a step otherwise.
static Status checkFit(CheckpointContents &contents, const TraineeInfo &info,
                       const RunIdentity &identity, const std::string &path) {
  if (splitsOtherwise(contents.identity, identity))
    dropSums(contents, info);
  std::string problem = listSome(runDifferences(contents, identity));
  const std::string tensors = tensorDifferences(contents, info);
  if (!tensors.empty())
    problem += (problem.empty() ? "" : "; ") + ("tensors: " + tensors);
  return refuseRun(problem, path);
}

/// Returns the JSON of `recipe` with only the members that `other` has too.
static std::string membersOf(const std::string &recipe,
                             const nlohmann::json &other) {
  BoundedDocument part(recipe);
  nlohmann::json &members = part.json;
  if (!members.is_object() || !other.is_object())
    return "{}";
  for (auto member = members.begin(); member != members.end();) {
    if (other.contains(member.key())) {
      ++member;
      continue;
    }
    clear(*member);
    member = members.erase(member);
  }
  return textOf(members);
}

Status checkCheckpointRun(const std::string &path, RunIdentity identity) {
  StatusOr<CheckpointContents> contents = readCheckpointHeader(path);
  if (!contents.ok())
    return Status();
  // Compiling adds members to the recipe in `identity`, so compare only the
  // present members.
  const BoundedDocument document(identity["recipe"]);
  const nlohmann::json &known = document.json;
  identity["recipe"] = membersOf(identity["recipe"], known);
  if (const auto recipe = contents->identity.find("recipe");
      recipe != contents->identity.end())
    recipe->second = membersOf(recipe->second, known);
  return refuseRun(listSome(runDifferences(*contents, identity)), path);
}

static Status apply(const CheckpointContents &contents, Trainee &model) {
  for (const Array &array : contents.arrays) {
    StatusOr<Tensor> tensor = toTensor(array);
    Status status =
        tensor.ok() ? model.setState(array.name, *tensor) : tensor.status();
    if (!status.ok())
      return status;
  }
  return model.derive();
}

Status checkCheckpointPath(const std::string &path) {
  StatusOr<FileKind> kind = kindOf(path);
  if (!kind.ok())
    return kind.status();
  if (*kind != FileKind::Directory)
    return Status(StatusCode::Checkpoint,
                  path +
                      ": missing, or no folder: expected the folder of a "
                      "checkpoint, such as " +
                      (fs::path(path) / "step-100").string());
  for (const char *name : {"train.json", "state.safetensors"}) {
    kind = kindOf((fs::path(path) / name).string());
    if (!kind.ok())
      return kind.status();
    if (*kind == FileKind::None)
      return Status(StatusCode::Checkpoint,
                    path + ": no checkpoint: " + name +
                        " is missing; name one of its folders step-N");
  }
  return Status();
}

StatusOr<std::string> findCheckpoint(const std::string &path) {
  StatusOr<FileKind> folder = kindOf(path);
  if (!folder.ok())
    return folder.status();
  StatusOr<FileKind> file = kindOf((fs::path(path) / "train.json").string());
  if (!file.ok())
    return file.status();
  // RUN/last means the newest checkpoint in RUN; no file is called `last`.
  const bool isLast =
      *folder == FileKind::None && fs::path(path).filename() == kLast;
  const fs::path run = isLast ? fs::path(path).parent_path() : fs::path(path);
  if (isLast || (*folder == FileKind::Directory && *file == FileKind::None)) {
    StatusOr<std::vector<int64_t>> steps =
        listCheckpoints(run.empty() ? "." : run.string());
    if (!steps.ok())
      return steps.status();
    if (!steps->empty())
      return (run / (std::string(kPrefix) + std::to_string(steps->back())))
          .string();
  }
  Status status = checkCheckpointPath(path);
  return status.ok() ? StatusOr<std::string>(path) : status;
}

StatusOr<std::vector<Array>> readCheckpoint(const std::string &path,
                                            const TraineeInfo &info,
                                            const RunIdentity &identity) {
  StatusOr<CheckpointContents> contents = readCheckpointFiles(path);
  if (!contents.ok())
    return contents.status();
  if (Status status = checkFit(*contents, info, identity, path); !status.ok())
    return status;
  return std::move(contents->arrays);
}

StatusOr<Progress> restoreCheckpoint(const std::string &path, Trainee &model,
                                     const RunIdentity &identity) {
  StatusOr<CheckpointContents> contents = readCheckpointFiles(path);
  if (!contents.ok())
    return contents.status();
  if (Status status = checkFit(*contents, model.info(), identity, path);
      !status.ok())
    return status;
  if (Status status = apply(*contents, model); !status.ok())
    return status;
  return contents->progress;
}

StatusOr<std::optional<Progress>>
CheckpointStore::restoreNewest(Trainee &model, const RunIdentity &identity,
                               const Note &note) const {
  StatusOr<std::vector<int64_t>> steps = list();
  if (!steps.ok())
    return steps.status();
  Status last;
  // Skip damaged checkpoints, from the newest backwards, but never a checkpoint
  // of another run.
  for (auto step = steps->rbegin(); step != steps->rend(); ++step) {
    StatusOr<CheckpointContents> contents = readCheckpointFiles(pathOf(*step));
    if (contents.status().getCode() == StatusCode::IO)
      return contents.status();
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
  // Without any checkpoint, the caller starts anew. If all are damaged, fail:
  // the run must not start anew.
  if (!steps->empty())
    return Status(StatusCode::Checkpoint,
                  directory + ": every checkpoint is damaged; the oldest: " +
                      last.message());
  return std::optional<Progress>();
}

} // namespace mpc::runtime::train
