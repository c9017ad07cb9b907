// The text of the metrics file.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/Metrics.h"

#include <chrono>
#include <cmath>
#include <fcntl.h>
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
    auto file = MetricsFile::open(path, /*append=*/true);
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_TRUE((*file)->write(MetricsLine("end", Digits::Single)).ok());
  }
  EXPECT_EQ(readFile(path), long_line + "{\"event\":\"end\"}\n");
}

TEST(Metrics, StartingAnewEmptiesTheFile) {
  TemporaryDirectory directory;
  const std::string path = directory / "m.jsonl";
  writeFile(path, "old\n");
  ASSERT_TRUE(MetricsFile::open(path, /*append=*/false).ok());
  EXPECT_EQ(readFile(path), "");
}

TEST(Metrics, WaitsForAReaderThatIsSlow) {
  TemporaryDirectory directory;
  const std::string path = directory / "m";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  expectFailure(MetricsFile::open(path, false).status(), StatusCode::IO,
                "cannot open");

  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  auto file = MetricsFile::open(path, false);
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

TEST(Metrics, FailsWhereItCannotWrite) {
  auto file = MetricsFile::open("/dev/full", /*append=*/true);
  ASSERT_TRUE(file.ok()) << file.status().message();
  expectFailure((*file)->write(MetricsLine("end", Digits::Single)),
                StatusCode::IO, "/dev/full: cannot write");
  expectFailure(MetricsFile::open("/nowhere/m", false).status(), StatusCode::IO,
                "cannot open");
}

} // namespace
} // namespace mpc::runtime::train
