// Tests the text of the metrics file.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/record/Metrics.h"

#include <chrono>
#include <cmath>
#include <fcntl.h>
#include <filesystem>
#include <limits>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

TEST(Metrics, LineHasItsKeysInOrder) {
  MetricsLine line("train", Digits::Single);
  line.add("step", int64_t(3))
      .add("loss", 0.1)
      .add("grad_norm", std::optional<double>())
      .add("skipped", false)
      .add("path", "a\"b");
  EXPECT_EQ(line.text(), "{\"event\":\"train\",\"step\":3,\"loss\":0.1,"
                         "\"grad_norm\":null,\"skipped\":false,"
                         "\"path\":\"a\\\"b\"}\n");
}

TEST(Metrics, DigitsReadBackTheValue) {
  const float single = 0.1f;
  EXPECT_EQ(MetricsLine("e", Digits::Single).add("v", double(single)).text(),
            "{\"event\":\"e\",\"v\":0.100000001}\n");
  EXPECT_EQ(MetricsLine("e", Digits::Double).add("v", 0.1).text(),
            "{\"event\":\"e\",\"v\":0.10000000000000001}\n");
}

TEST(Metrics, NonFiniteValuesAreStrings) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(MetricsLine("e", Digits::Single)
                .add("a", std::nan(""))
                .add("b", infinity)
                .add("c", -infinity)
                .text(),
            "{\"event\":\"e\",\"a\":\"nan\",\"b\":\"inf\",\"c\":\"-inf\"}\n");
}

TEST(Metrics, AppendingCutsOffAnUnfinishedLine) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.jsonl";
  const std::string long_line = "{" + std::string(9000, ' ') + "}\n";
  writeFile(path, long_line + "{\"event\":\"tr");
  {
    auto file = MetricsFile::open(path, MetricsStart::Append);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE((*file)->write(MetricsLine("end", Digits::Single)).ok());
  }
  EXPECT_EQ(readFile(path), long_line + "{\"event\":\"end\"}\n");
}

TEST(Metrics, ReplacingEmptiesTheFile) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.jsonl";
  writeFile(path, "old\n");
  ASSERT_TRUE(MetricsFile::open(path, MetricsStart::Replace).ok());
  EXPECT_EQ(readFile(path), "");
}

TEST(Metrics, AnotherRunsLinesStay) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.jsonl";
  ASSERT_TRUE(MetricsFile::open(path, MetricsStart::New).ok());
  ASSERT_TRUE(MetricsFile::open(path, MetricsStart::New).ok()) << "empty";
  writeFile(path, "old\n");
  for (const Status &status :
       {MetricsFile::open(path, MetricsStart::New).status(),
        MetricsFile::check(path, MetricsStart::New)})
    expectFailure(status, StatusCode::Usage, "metrics of an earlier run");
  EXPECT_EQ(readFile(path), "old\n");
}

TEST(Metrics, OneRunWritesAFileAtATime) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.jsonl";
  auto first = MetricsFile::open(path, MetricsStart::New);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE((*first)->write(MetricsLine("start", Digits::Single)).ok());
  for (MetricsStart start : {MetricsStart::Append, MetricsStart::Replace})
    expectFailure(MetricsFile::open(path, start).status(), StatusCode::IO,
                  "in use by another training run");
  EXPECT_EQ(readFile(path), "{\"event\":\"start\"}\n");
}

TEST(Metrics, ChecksTheFolderWithoutWriting) {
  TemporaryDirectory directory;
  EXPECT_TRUE(
      MetricsFile::check(directory / "m.jsonl", MetricsStart::New).ok());
  EXPECT_FALSE(std::filesystem::exists(directory / "m.jsonl"));
  expectFailure(
      MetricsFile::check(directory / "none/m.jsonl", MetricsStart::New),
      StatusCode::IO, "cannot write");
}

TEST(Metrics, WaitsForAReaderThatIsSlow) {
  TemporaryDirectory directory;
  const std::string path = directory / "m";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expectFailure(MetricsFile::open(path, MetricsStart::New).status(),
                StatusCode::IO, "cannot open");

  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto file = MetricsFile::open(path, MetricsStart::New);
  ASSERT_TRUE(file.ok()) << file.status().message();
  // More than a pipe holds.
  const std::string text(200'000, 'x');
  Status written;
  std::thread writer([&] {
    written = (*file)->write(MetricsLine("e", Digits::Single).add("v", text));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::string found;
  char block[4096];
  while (found.empty() || found.back() != '\n') {
    const ssize_t count = read(reader, block, sizeof(block));
    if (count > 0)
      found.append(block, size_t(count));
    else
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  writer.join();
  close(reader);
  EXPECT_TRUE(written.ok()) << written.message();
  EXPECT_GT(found.size(), text.size());
}

TEST(Metrics, AnEventMayHoldAJSONValue) {
  EXPECT_EQ(MetricsLine("start", Digits::Single)
                .addJSON("recipe", "{\"loss\":\"mse\"}")
                .text(),
            "{\"event\":\"start\",\"recipe\":{\"loss\":\"mse\"}}\n");
}

static const char kNames[] =
    "event,step,micro_step,epoch,samples,loss,lr,grad_norm,loss_scale,skipped,"
    "skipped_total,step_ms,eval_loss,eval_accuracy,eval_f1,eval_samples\n";

TEST(Metrics, ATableHasARowForEveryStepAndEvaluation) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.csv";
  {
    auto file = MetricsFile::open(path, MetricsStart::New, {"accuracy", "f1"});
    ASSERT_TRUE(file.ok()) << file.status().message();
    for (const MetricsLine &line :
         {MetricsLine("start", Digits::Single).add("seed", int64_t(3)),
          MetricsLine("train", Digits::Single)
              .add("step", int64_t(1))
              .add("loss", std::nan(""))
              .add("grad_norm", std::optional<double>())
              .add("skipped", true),
          MetricsLine("eval", Digits::Single)
              .add("step", int64_t(1))
              .add("eval_loss", 0.5)
              .add("eval_f1", 0.25),
          MetricsLine("end", Digits::Single)})
      ASSERT_TRUE((*file)->write(line).ok());
  }
  EXPECT_EQ(readFile(path), std::string(kNames) +
                                "train,1,,,,nan,,,,true,,,,,,\n"
                                "eval,1,,,,,,,,,,,0.5,,0.25,\n");
}

TEST(Metrics, ATableHasColumnsForSeveralLosses) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.csv";
  {
    auto file = MetricsFile::open(path, MetricsStart::New, {}, true,
                                  {"mse@a,b", "l1@c"});
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE((*file)
                    ->write(MetricsLine("train", Digits::Single)
                                .add("loss", 1.5)
                                .add("mse@a,b", 0.5)
                                .add("l1@c", 0.25))
                    .ok());
  }
  const std::string table = readFile(path);
  EXPECT_NE(table.find(",loss,mse@a_b,l1@c,accuracy,lr,"), std::string::npos);
  EXPECT_NE(table.find(",eval_loss,eval_mse@a_b,eval_l1@c,eval_accuracy,"),
            std::string::npos);
  EXPECT_NE(table.find("train,,,,,1.5,0.5,0.25,,,"), std::string::npos);
}

TEST(Metrics, ATableGoesOnWithTheColumnsThatItHas) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.csv";
  writeFile(path, std::string(kNames) + "train,1,,,,0.5,,,,,,,,,,\ntrain,2,");
  {
    auto file = MetricsFile::open(path, MetricsStart::Append, {"f1"});
    ASSERT_TRUE(file.ok()) << file.status().message();
    ASSERT_TRUE(
        (*file)
            ->write(
                MetricsLine("train", Digits::Single).add("step", int64_t(2)))
            .ok());
  }
  EXPECT_EQ(readFile(path), std::string(kNames) + "train,1,,,,0.5,,,,,,,,,,\n"
                                                  "train,2,,,,,,,,,,,,,,\n");
  expectFailure(MetricsFile::open(path, MetricsStart::Append, {"r2"}).status(),
                StatusCode::Usage, "has other columns than this run");
}

TEST(Metrics, FailsWhereItCannotWrite) {
  auto file = MetricsFile::open("/dev/full", MetricsStart::Append);
  ASSERT_TRUE(file.ok()) << file.status().message();
  expectFailure((*file)->write(MetricsLine("end", Digits::Single)),
                StatusCode::IO, "/dev/full: cannot write");
  expectFailure(MetricsFile::open("/nowhere/m", MetricsStart::New).status(),
                StatusCode::IO, "cannot open");
}

} // namespace
} // namespace mpc::runtime::train
