// Tests files that are mapped for reading.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/MappedFile.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

std::string pathOf(const char *name) {
  return testing::TempDir() + name + std::to_string(getpid());
}

TEST(MappedFile, HoldsTheBytesOfTheFile) {
  const std::string path = pathOf("mapped-bytes");
  const std::string bytes("a\0b", 3);
  std::ofstream(path) << bytes;
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  // The file may go: the bytes stay.
  std::filesystem::remove(path);
  EXPECT_EQ((*file)->text(), bytes);
  EXPECT_EQ((*file)->size(), 3u);
  EXPECT_EQ((*file)->path(), path);
}

TEST(MappedFile, MayBeEmpty) {
  const std::string path = pathOf("mapped-empty");
  std::ofstream(path) << "";
  const auto file = MappedFile::open(path);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->text(), "");
  std::filesystem::remove(path);
}

TEST(MappedFile, IsARegularFile) {
  EXPECT_EQ(MappedFile::open(pathOf("mapped-none")).status().getCode(),
            StatusCode::IO);
  EXPECT_EQ(MappedFile::open(testing::TempDir()).status().getCode(),
            StatusCode::IO);
  // Nobody writes to the pipe, and opening does not wait for a writer.
  const std::string pipe = pathOf("mapped-pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(MappedFile::open(pipe).status().getCode(), StatusCode::IO);
  std::filesystem::remove(pipe);
}

} // namespace
} // namespace mpc::runtime::train
