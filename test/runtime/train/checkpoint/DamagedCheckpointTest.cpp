// Tests that damaged and foreign checkpoints are never restored.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/checkpoint/CheckpointFixture.h"

namespace mpc::runtime::train {
namespace {

TEST_F(Checkpoint, EveryFlippedBitIsNoticed) {
  saveSteps(directory.path, {1});
  for (const char *name : {"step-1/state.safetensors", "step-1/train.json"}) {
    const std::string whole = readFile(directory / name);
    for (size_t byte = 0; byte < whole.size(); ++byte) {
      std::string flipped = whole;
      flipped[byte] = char(flipped[byte] ^ (1 << byte % 8));
      writeFile(directory / name, flipped);
      ToyModel reader;
      StatusOr<Progress> progress =
          restoreCheckpoint(directory / "step-1", reader, kRun);
      // White space between JSON tokens has no meaning.
      if (progress.ok())
        EXPECT_TRUE(std::isspace(whole[byte])) << name << " at " << byte;
      else
        EXPECT_EQ(progress.status().getCode(), StatusCode::Checkpoint);
    }
    writeFile(directory / name, whole);
  }
  EXPECT_TRUE(restoreCheckpoint(directory / "step-1", model, kRun).ok());
}

TEST_F(Checkpoint, DeepNestingIsDamage) {
  saveSteps(directory.path, {1});
  writeFile(directory / "step-1/train.json",
            R"({"digest":"0","a":)" + std::string(200000, '[') +
                std::string(200000, ']') + "}");
  EXPECT_EQ(
      restoreCheckpoint(directory / "step-1", model, kRun).status().getCode(),
      StatusCode::Checkpoint);
}

TEST_F(Checkpoint, EveryTruncationIsNoticed) {
  saveSteps(directory.path, {1});
  for (const char *name : {"step-1/state.safetensors", "step-1/train.json"}) {
    const std::string whole = readFile(directory / name);
    // The last byte of train.json is a new line.
    for (size_t size = 0; size + 1 < whole.size(); ++size) {
      writeFile(directory / name, whole.substr(0, size));
      EXPECT_EQ(restoreCheckpoint(directory / "step-1", model, kRun)
                    .status()
                    .getCode(),
                StatusCode::Checkpoint)
          << name << " at " << size;
    }
    writeFile(directory / name, whole);
  }
}

TEST_F(Checkpoint, FallsBackToTheOneBeforeAndSaysSo) {
  saveSteps(directory.path, {1, 2});
  const std::string path = directory / "step-2/state.safetensors";
  std::string bytes = readFile(path);
  bytes.back() = char(~bytes.back());
  writeFile(path, bytes);
  std::vector<std::string> notes;
  auto restored = restore(directory.path, model, &notes);
  ASSERT_TRUE(restored.ok()) << restored.status().message();
  EXPECT_EQ((*restored)->step, 1);
  EXPECT_EQ(markOf(model), 1);
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("step-2"), std::string::npos);
  EXPECT_NE(notes[0].find("corrupt"), std::string::npos);
  // A new checkpoint replaces the damaged one. Older good ones stay until then.
  saveSteps(directory.path, {2}, 2);
  ASSERT_TRUE(restore(directory.path, model).ok());
  EXPECT_EQ(markOf(model), 2);
}

TEST_F(Checkpoint, IsRefusedWhereAllAreDamaged) {
  saveSteps(directory.path, {1});
  writeFile(directory / "step-1/train.json", "");
  expectFailure(restore(directory.path, model).status(), StatusCode::Checkpoint,
                "every checkpoint is damaged");
}

TEST_F(Checkpoint, IsRefusedByAnotherRun) {
  saveSteps(directory.path, {1});
  RunIdentity other = kRun;
  other["seed"] = "2";
  expectFailure(restore(directory.path, model, nullptr, other).status(),
                StatusCode::Checkpoint, "seed was 1, now it is 2");
}

TEST_F(Checkpoint, NamesWhatOfTheRecipeDiffers) {
  saveSteps(directory.path, {1});
  RunIdentity other = kRun;
  other["recipe"] = R"({"beta1":0.9,"optimizer":"adam"})";
  expectFailure(restore(directory.path, model, nullptr, other).status(),
                StatusCode::Checkpoint,
                "of another run: optimizer was \"sgd\", now it is \"adam\"");
}

TEST_F(Checkpoint, NamesEachFactThatDiffersAndNoDigestOfDecisions) {
  RunIdentity run = kRun;
  run["recipe"] = R"({"decisions":"aa","ema":null,"tf32":false})";
  {
    StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
    ASSERT_TRUE(store->save(model, at(1), run, 3).ok());
  }
  RunIdentity other = run;
  other["recipe"] = R"({"decisions":"bb","ema":0.9,"tf32":true})";
  other["trained"] = "1 parameter";
  const Status status = restore(directory.path, model, nullptr, other).status();
  expectFailure(
      status, StatusCode::Checkpoint,
      "ema was null, now it is 0.9; tf32 was false, now it is true; "
      "trained was nothing, now it is 1 parameter; to start a new run");
  other = run;
  other["recipe"] = R"({"decisions":"bb","ema":null,"tf32":false})";
  expectFailure(restore(directory.path, model, nullptr, other).status(),
                StatusCode::Checkpoint,
                "the graph or the types of its ops differ");
}

/// The recipe is JSON inside JSON. An attacker who can write the file can also
/// write its digest.
TEST_F(Checkpoint, AHostileRecipeIsOfAnotherRunAndShownInPart) {
  StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
  RunIdentity hostile = kRun;
  hostile["recipe"] = R"({"beta1":)" + std::string(300000, '[') +
                      std::string(300000, ']') + "}";
  ASSERT_TRUE(store->save(model, at(1), hostile, 3).ok());
  hostile["recipe"] = R"({"beta1":")" + std::string(300000, 'x') + "\"}";
  ASSERT_TRUE(store->save(model, at(2), hostile, 3).ok());
  for (const char *name : {"step-1", "step-2"}) {
    const Status status =
        restoreCheckpoint(directory / name, model, kRun).status();
    expectFailure(status, StatusCode::Checkpoint, "of another run");
    EXPECT_LT(status.message().size(), 1000u);
  }
}

TEST_F(Checkpoint, NamesTheTensorsThatDiffer) {
  saveSteps(directory.path, {1});
  model.description.state[0].shape = {5, 3};
  model.description.state.push_back(
      {"ema", Role::Parameter, DType::F32, {4, 3}});
  expectFailure(restore(directory.path, model).status(), StatusCode::Checkpoint,
                "tensors: 'w' is 4x3 f32, the model wants 5x3 f32; 'ema' is "
                "missing");
  ToyModel smaller;
  smaller.description.state.erase(smaller.description.state.begin());
  expectFailure(restore(directory.path, smaller).status(),
                StatusCode::Checkpoint, "'w' is not in the model");
}

// A digest shows damage. Anybody can seal a checkpoint whose counts are wrong.
TEST_F(Checkpoint, SkippedStepsAreNoMoreThanSteps) {
  for (int64_t skipped : {7, 8}) {
    ToyModel original;
    Progress progress = at(7);
    progress.skipped = skipped;
    {
      StatusOr<CheckpointStore> store = CheckpointStore::open(directory.path);
      ASSERT_TRUE(store->save(original, progress, kRun, 3).ok());
    }
    EXPECT_EQ(restore(directory.path, model).ok(), skipped == 7);
  }
}

} // namespace
} // namespace mpc::runtime::train
