// Tests event files byte by byte. test/e2e/commands/test_logging.py decodes a
// whole run's file by TensorBoard's format.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/record/EventFile.h"

#include <cmath>
#include <cstring>
#include <filesystem>

namespace mpc::runtime::train {
namespace {

namespace fs = std::filesystem;

class Events : public testing::Test {
protected:
  std::unique_ptr<EventFile> open(MetricsStart start, int64_t firstStep = 0) {
    auto file = EventFile::open(folder, start, firstStep);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : nullptr;
  }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto &entry : fs::directory_iterator(folder))
      paths.push_back(entry.path().string());
    std::sort(paths.begin(), paths.end());
    return paths;
  }

  /// The messages of the records in a file.
  static std::vector<std::string> messagesOf(const std::string &path) {
    const std::string bytes = readFile(path);
    std::vector<std::string> messages;
    for (size_t at = 0; at < bytes.size();) {
      uint64_t size = 0;
      std::memcpy(&size, bytes.data() + at, sizeof(size));
      messages.push_back(bytes.substr(at + 12, size));
      at += 12 + size + 4;
    }
    return messages;
  }

  TemporaryDirectory directory;
  const std::string folder = directory / "a/tb";
};

TEST_F(Events, BeginsWithTheVersionAndIsCheckedByCRC32C) {
  ASSERT_TRUE(open(MetricsStart::New));
  ASSERT_EQ(files().size(), 1u);
  const std::string bytes = readFile(files()[0]);
  // wall_time, step 0 and "brain.Event:2". The first CRC covers a length of 26
  // bytes.
  ASSERT_EQ(bytes.size(), 8u + 4 + 26 + 4);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x1a\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(12 + 9, 17),
            std::string("\x10\0\x1a\x0d", 4) + "brain.Event:2");
}

TEST_F(Events, NumbersOfStepsAndEvaluationsHaveTags) {
  auto file = open(MetricsStart::New);
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->write(MetricsLine("train", Digits::Single)
                              .add("step", int64_t(300))
                              .add("samples", int64_t(9))
                              .add("loss", 0.5)
                              .add("grad_norm", std::optional<double>())
                              .add("skipped", true))
                  .ok());
  ASSERT_TRUE(file->write(MetricsLine("eval", Digits::Single)
                              .add("step", int64_t(300))
                              .add("eval_accuracy", std::nan("")))
                  .ok());
  ASSERT_TRUE(file->write(MetricsLine("end", Digits::Single)).ok());
  const auto messages = messagesOf(files()[0]);
  ASSERT_EQ(messages.size(), 3u);
  // Step 300 and a summary of one value with a tag and 0.5.
  EXPECT_EQ(messages[1].substr(9),
            std::string("\x10\xac\x02\x2a\x13\x0a\x11\x0a\x0a", 9) +
                "train/loss" + std::string("\x15\0\0\0\x3f", 5));
  EXPECT_NE(messages[2].find("eval/accuracy"), std::string::npos);
}

TEST_F(Events, AResumedRunWritesAnotherFile) {
  ASSERT_TRUE(open(MetricsStart::New));
  const std::string before = readFile(files()[0]);
  const std::string first = files()[0];
  ASSERT_TRUE(open(MetricsStart::Append, 7));
  ASSERT_EQ(files().size(), 2u);
  EXPECT_EQ(files()[0], first);
  EXPECT_EQ(readFile(first), before);
  // A session that starts at step 8 discards later events.
  const auto messages = messagesOf(files()[1]);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[1].substr(9), std::string("\x10\x08\x3a\x02\x08\x01", 6));
}

TEST_F(Events, AnotherRunsEventsAreNotMixedIn) {
  ASSERT_TRUE(open(MetricsStart::New));
  for (const Status &status :
       {EventFile::open(folder, MetricsStart::New, 0).status(),
        EventFile::check(folder, MetricsStart::New)})
    expectFailure(status, StatusCode::Usage,
                  "has the events of an earlier run");
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(Events, ReplacingRemovesWhatMpcWroteAndNothingElse) {
  ASSERT_TRUE(open(MetricsStart::New));
  const std::string old = files()[0];
  writeFile(folder + "/notes.txt", "mine");
  ASSERT_TRUE(open(MetricsStart::Append));
  ASSERT_TRUE(open(MetricsStart::Replace));
  EXPECT_EQ(files().size(), 2u);
  EXPECT_EQ(readFile(folder + "/notes.txt"), "mine");
  writeFile(folder + "/events.out.tfevents.1.host", "somebody's");
  expectFailure(EventFile::open(folder, MetricsStart::Replace, 0).status(),
                StatusCode::Usage,
                "mpc did not write this file and does not replace it");
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(Events, ChecksTheFolderWithoutWriting) {
  EXPECT_TRUE(EventFile::check(folder, MetricsStart::New).ok());
  EXPECT_FALSE(fs::exists(directory / "a"));
  writeFile(directory / "file", "");
  expectFailure(EventFile::check(directory / "file", MetricsStart::New),
                StatusCode::IO, "is a file, expected a folder");
  expectFailure(EventFile::check(directory / "file/tb", MetricsStart::New),
                StatusCode::IO, "is a file, expected a folder");
}

} // namespace
} // namespace mpc::runtime::train
