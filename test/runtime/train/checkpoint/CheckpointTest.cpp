// Tests that checkpoints survive any fault during writing, and are found and
// restored.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/checkpoint/CheckpointFixture.h"

#include <cerrno>
#include <cmath>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

TEST_F(Checkpoint, RestoresEveryBitOfStateAndDerivesTheRest) {
  ToyModel original;
  ASSERT_TRUE(original.run("step").ok());
  Progress progress;
  progress.step = 7;
  progress.microStep = 14;
  progress.samples = 56;
  progress.skipped = 2;
  progress.epoch = 1;
  progress.stepInEpoch = 3;
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    ASSERT_TRUE(store->save(original, progress, kRun, 3).ok());
  }
  auto restored = restore(directory.path, model);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ((*restored)->step, 7);
  EXPECT_EQ((*restored)->microStep, 14);
  EXPECT_EQ((*restored)->samples, 56);
  EXPECT_EQ((*restored)->skipped, 2);
  EXPECT_EQ((*restored)->epoch, 1);
  EXPECT_EQ((*restored)->stepInEpoch, 3);
  ASSERT_TRUE(original.derive().ok());
  for (const Port &port : model.info().state)
    EXPECT_EQ(model.state(port.name)->bytes, original.state(port.name)->bytes)
        << port.name;
}

TEST_F(Checkpoint, CopiesNoStateThatIsReadInPlace) {
  ToyModel original;
  original.readsInPlace = true;
  ASSERT_TRUE(original.run("step").ok());
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    ASSERT_TRUE(store->save(original, at(1), kRun, 3).ok());
  }
  EXPECT_EQ(original.copies, 0);
  ASSERT_TRUE(restore(directory.path, model).ok());
  EXPECT_EQ(model.state("w")->bytes, original.state("w")->bytes);
}

TEST_F(Checkpoint, DoesNotSaveDerivedState) {
  saveSteps(directory.path, {1});
  const std::string file = readFile(directory / "step-1/state.safetensors");
  EXPECT_EQ(file.find("w.bf16"), std::string::npos);
  EXPECT_NE(file.find("momentum"), std::string::npos);
}

TEST_F(Checkpoint, NothingThereIsNothingToRestore) {
  auto restored = restore(directory / "new", model);
  ASSERT_TRUE(restored.ok());
  EXPECT_FALSE(restored->has_value());
}

TEST_F(Checkpoint, IsSavedWhereTheDirectoryWasRemoved) {
  const std::string checkpoints = directory / "checkpoints";
  StatusOr<CheckpointStore> store = CheckpointStore::open(checkpoints);
  ASSERT_TRUE(store.ok()) << store.status().message();
  fs::remove_all(checkpoints);
  Status status = store->save(model, at(4), kRun, /*keep=*/1);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(entries(checkpoints), (std::set<std::string>{"step-4"}));
}

TEST_F(Checkpoint, KeepsTheNewest) {
  saveSteps(directory.path, {2, 4, 10, 100}, /*keep=*/2);
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"step-10", "step-100"}));
  ASSERT_TRUE(restore(directory.path, model).ok());
  EXPECT_EQ(markOf(model), 100);
}

TEST_F(Checkpoint, RemovesWhatAnUnfinishedWriteLeft) {
  saveSteps(directory.path, {1});
  fs::create_directory(directory / "step-2.tmp");
  writeFile(directory / "step-2.tmp/state.safetensors", "half");
  fs::create_directory(directory / "mine.tmp");
  ASSERT_TRUE(restore(directory.path, model).ok());
  EXPECT_EQ(markOf(model), 1);
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"step-1", "mine.tmp"}));
}

TEST_F(Checkpoint, IsWholeWhereverTheProcessDies) {
  // Steps 1 and 2 exist, step 3 is being written and step 1 removed.
  for (int deadline = 0;; ++deadline) {
    TemporaryDirectory run;
    saveSteps(run.path, {1, 2}, 2);
    ToyModel writer;
    mark(writer, 3);
    bool died = false;
    {
      StatusOr<CheckpointStore> store = CheckpointStore::open(run.path);
      int changes = 0;
      setFaultHook([&](std::string_view, const std::string &) -> int {
        if (changes++ == deadline)
          throw Killed();
        return 0;
      });
      try {
        ASSERT_TRUE(store->save(writer, at(3), kRun, 2).ok());
      } catch (const Killed &) {
        died = true;
      }
      setFaultHook(nullptr);
    }
    ToyModel reader;
    auto restored = restore(run.path, reader);
    ASSERT_TRUE(restored.ok()) << restored.status().message();
    ASSERT_TRUE(restored->has_value());
    EXPECT_GE((*restored)->step, 2) << deadline;
    EXPECT_EQ(markOf(reader), float((*restored)->step)) << deadline;
    if (died)
      continue;
    EXPECT_EQ((*restored)->step, 3);
    EXPECT_GT(deadline, 10);
    return;
  }
}

TEST_F(Checkpoint, FailuresToWriteLeaveTheOldOnes) {
  for (int deadline = 0;; ++deadline) {
    TemporaryDirectory run;
    saveSteps(run.path, {1, 2}, 2);
    StatusOr<CheckpointStore> store = CheckpointStore::open(run.path);
    int changes = 0;
    setFaultHook([&](std::string_view, const std::string &) {
      return changes++ == deadline ? EIO : 0;
    });
    Status status = store->save(model, at(3), kRun, 2);
    setFaultHook(nullptr);
    EXPECT_TRUE(entries(run.path).count("step-2")) << deadline;
    if (status.ok()) {
      EXPECT_GT(deadline, 10);
      return;
    }
    expectFailure(status, StatusCode::IO, "Input/output error");
    EXPECT_FALSE(entries(run.path).count("step-3.tmp")) << deadline;
    // The next attempt succeeds.
    ASSERT_TRUE(store->save(model, at(4), kRun, 2).ok()) << deadline;
  }
}

/// Simulates a disk that accepts writes only while it has fewer than `fits`
/// checkpoints.
void limitDisk(const std::string &directory, size_t fits) {
  setFaultHook([=](std::string_view change, const std::string &) {
    size_t count = 0;
    for (const std::string &name : entries(directory))
      count += name.find(".tmp") == std::string::npos;
    return change == "write" && count >= fits ? ENOSPC : 0;
  });
}

TEST_F(Checkpoint, MakesRoomOnAFullDiskOfWhatTheLimitRemovesAnyway) {
  saveSteps(directory.path, {1, 2, 3});
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  limitDisk(directory.path, 2);
  Status status = store->save(model, at(4), kRun, /*keep=*/2);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"step-3", "step-4"}));
}

TEST_F(Checkpoint, NeverMakesRoomOfTheOnlyGoodOne) {
  // There is only one checkpoint.
  saveSteps(directory.path, {1});
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    limitDisk(directory.path, 0);
    expectFailure(store->save(model, at(2), kRun, 1), StatusCode::IO,
                  "No space left");
    setFaultHook(nullptr);
  }
  // The newer checkpoint is damaged.
  saveSteps(directory.path, {2});
  writeFile(directory / "step-2/train.json", "");
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  limitDisk(directory.path, 0);
  expectFailure(store->save(model, at(3), kRun, 1), StatusCode::IO,
                "No space left");
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"step-1", "step-2"}));
}

TEST_F(Checkpoint, WhatCannotBeLookedAtIsNotGone) {
  // A link to itself makes the system's look-up fail.
  const std::string circle = directory.path + "/circle";
  ASSERT_EQ(symlink("circle", circle.c_str()), 0);
  expectFailure(kindOf(circle).status(), StatusCode::IO, "circle");
  expectFailure(exists(circle).status(), StatusCode::IO, "circle");
  expectFailure(isSameFile(circle, directory.path).status(), StatusCode::IO,
                "circle");
  expectFailure(checkCheckpointPath(circle), StatusCode::IO, "circle");
  expectFailure(findCheckpoint(circle).status(), StatusCode::IO, "circle");
  EXPECT_EQ(*kindOfLink(circle), FileKind::Link);
  EXPECT_EQ(*kindOf(directory.path + "/none"), FileKind::None);
  EXPECT_EQ(*kindOf(directory.path), FileKind::Directory);
  EXPECT_FALSE(*isSameFile(directory.path, directory.path + "/none"));
  EXPECT_TRUE(*isSameFile(directory.path, directory.path + "/."));
  EXPECT_EQ(*readLink(circle), "circle");
  EXPECT_FALSE(readLink(directory.path)->has_value());
}

TEST_F(Checkpoint, NeverPrunesTheBestNorMakesRoomOfIt) {
  saveSteps(directory.path, {10, 20});
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  ASSERT_TRUE(store.ok());
  EXPECT_FALSE(store->best()->has_value());
  ASSERT_TRUE(store->markBest(10, 20, 2).ok());
  EXPECT_EQ(*store->best(), 10);
  limitDisk(directory.path, 0);
  expectFailure(store->save(model, at(30), kRun, 1), StatusCode::IO,
                "No space left");
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"best", "step-10", "step-20"}));
  setFaultHook(nullptr);
  ASSERT_TRUE(store->save(model, at(30), kRun, 1).ok());
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"best", "step-10", "step-30"}));
  ASSERT_TRUE(store->markBest(30, 30, 1).ok());
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"best", "step-30"}));
}

TEST_F(Checkpoint, IsAmendedByWhatEvaluationsDecided) {
  saveSteps(directory.path, {10});
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    ASSERT_TRUE(store.ok());
    Progress progress = at(10);
    progress.evaluations.step = 10;
    progress.evaluations.reductions = 3;
    progress.evaluations.best = {"max:accuracy", 1.0 / 3, 5, 2};
    progress.evaluations.earlyStopping = {"min:loss", std::nullopt, 0, 7};
    ASSERT_TRUE(store->amend(progress).ok());
    expectFailure(store->amend(at(20)), StatusCode::Checkpoint, "missing");
  }
  StatusOr<std::optional<Progress>> restored = restore(directory.path, model);
  ASSERT_TRUE(restored.ok() && *restored);
  EXPECT_EQ(markOf(model), 10);
  const EvaluationState &state = (*restored)->evaluations;
  EXPECT_EQ(state.step, 10);
  EXPECT_EQ(state.reductions, 3);
  EXPECT_EQ(state.best.monitor, "max:accuracy");
  EXPECT_EQ(state.best.best, 1.0 / 3);
  EXPECT_EQ(state.best.bestStep, 5);
  EXPECT_EQ(state.best.waited, 2);
  EXPECT_FALSE(state.earlyStopping.best.has_value());
  EXPECT_EQ(state.earlyStopping.waited, 7);
  EXPECT_TRUE(state.plateau.monitor.empty());
}

TEST_F(Checkpoint, CountsOfEvaluationsThatAreNoneAreDamage) {
  saveSteps(directory.path, {10});
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    ASSERT_TRUE(store.ok());
    Progress progress = at(10);
    progress.evaluations.plateau = {"min:loss", 0.5, 3, -1};
    ASSERT_TRUE(store->amend(progress).ok());
  }
  expectFailure(restore(directory.path, model).status(), StatusCode::Checkpoint,
                "has no valid 'evaluations'");
}

TEST_F(Checkpoint, ForeignFoldersAreInNobodysWayAndStay) {
  saveSteps(directory.path, {1});
  const std::string mine = directory / "step-2.tmp/mine";
  fs::create_directories(mine);
  writeFile(mine + "/notes.txt", "keep");
  writeFile(directory / "step-2.tmp/state.safetensors", "half");
  saveSteps(directory.path, {2, 3}, 1);
  ASSERT_TRUE(restore(directory.path, model).ok());
  EXPECT_EQ(markOf(model), 3);
  EXPECT_EQ(readFile(mine + "/notes.txt"), "keep");
}

TEST_F(Checkpoint, OneThatCannotBePrunedIsNotedAndTheNewOneSaved) {
  saveSteps(directory.path, {1});
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  setFaultHook([](std::string_view change, const std::string &) {
    return change == "unlink" ? EACCES : 0;
  });
  std::vector<std::string> notes;
  Status status =
      store->save(model, at(2), kRun, 1,
                  [&](const std::string &text) { notes.push_back(text); });
  EXPECT_TRUE(status.ok()) << status.message();
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("an old checkpoint cannot be removed"),
            std::string::npos);
}

TEST_F(Checkpoint, WeightsThatAreNotFiniteReplaceNoGoodOnes) {
  saveSteps(directory.path, {1, 2}, 2);
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  mark(model, 3);
  Tensor w = *model.state("w");
  w.as<float>()[5] = -INFINITY;
  ASSERT_TRUE(model.setState("w", w).ok());
  expectFailure(store->save(model, at(3), kRun, 2), StatusCode::Numeric,
                "parameter 'w' is -inf at [1, 2]");
  EXPECT_EQ(entries(directory.path),
            (std::set<std::string>{"step-1", "step-2"}));
}

TEST_F(Checkpoint, KeepsWhereWithinAStepTheRunStopped) {
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  Progress progress = at(5);
  progress.batchInStep = 3;
  progress.lossInStep = 0.1;
  progress.settings["learning rate"] = "0.5";
  ASSERT_TRUE(store->save(model, progress, kRun, 3).ok());
  StatusOr<Progress> restored =
      restoreCheckpoint(directory / "step-5", model, kRun);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ(restored->batchInStep, 3);
  EXPECT_EQ(restored->lossInStep, 0.1);
  EXPECT_EQ(restored->settings, progress.settings);
}

TEST_F(Checkpoint, IsFoundByItselfOrAsTheNewestWhileTheRunGoesOn) {
  saveSteps(directory.path, {9, 10});
  StatusOr<CheckpointStore> run = CheckpointStore::open(directory.path);
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(*findCheckpoint(directory.path), directory / "step-10");
  EXPECT_EQ(*findCheckpoint(directory / "step-9"), directory / "step-9");
  EXPECT_EQ(*listCheckpoints(directory.path), (std::vector<int64_t>{9, 10}));
  TemporaryDirectory empty;
  expectFailure(findCheckpoint(empty.path).status(), StatusCode::Checkpoint,
                "train.json is missing");
  expectFailure(findCheckpoint(empty / "none").status(), StatusCode::Checkpoint,
                "expected the folder of a checkpoint");
}

TEST_F(Checkpoint, HeaderIsReadWithoutTheArrays) {
  saveSteps(directory.path, {9});
  const std::string path = directory / "step-9";
  fs::remove(path + "/state.safetensors");
  StatusOr<CheckpointContents> header = readCheckpointHeader(path);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->progress.step, 9);
  EXPECT_EQ(header->identity, kRun);
  EXPECT_TRUE(header->arrays.empty());
  writeFile(path + "/train.json", "{}");
  expectFailure(readCheckpointHeader(path).status(), StatusCode::Checkpoint,
                "train.json: corrupt");
}

TEST_F(Checkpoint, DirectoryServesOneRunAtATime) {
  StatusOr<CheckpointStore> first = CheckpointStore::open(directory.path);
  ASSERT_TRUE(first.ok());
  expectFailure(CheckpointStore::open(directory.path).status(), StatusCode::IO,
                "in use by another training run");
}

TEST_F(Checkpoint, WhatLinksLeadToStays) {
  TemporaryDirectory directory;
  const std::string elsewhere = directory / "elsewhere";
  const std::string checkpoints = directory / "checkpoints";
  fs::create_directories(elsewhere);
  fs::create_directories(checkpoints);
  writeFile(elsewhere + "/kept.txt", "kept");
  // A checkpoint that was moved to another disk, and a leftover of a crash.
  for (const char *name : {"/step-1", "/step-2.tmp"})
    fs::create_directory_symlink(elsewhere, checkpoints + name);
  saveSteps(checkpoints, {1, 2, 3, 4}, /*keep=*/1);
  EXPECT_EQ(readFile(elsewhere + "/kept.txt"), "kept");
  EXPECT_FALSE(fs::exists(elsewhere + "/train.json"));
  for (const char *name : {"/step-1", "/step-2.tmp"})
    EXPECT_FALSE(fs::exists(fs::symlink_status(checkpoints + name))) << name;
  EXPECT_TRUE(fs::exists(checkpoints + "/step-4"));
}

} // namespace
} // namespace mpc::runtime::train
