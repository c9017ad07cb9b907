// Tests changes of files that survive a crash.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/FileSystem.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

class FileSystem : public testing::Test {
protected:
  void SetUp() override {
    folder = testing::TempDir() + "file-system-" + std::to_string(getpid());
    std::filesystem::remove_all(folder);
    ASSERT_TRUE(makeDirectories(folder).ok());
  }
  void TearDown() override {
    setFaultHook(nullptr);
    std::filesystem::remove_all(folder);
  }
  std::string in(const char *name) const { return folder + "/" + name; }
  std::string read(const char *name) const {
    std::ifstream file(in(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t countEntries() const { return listFolder(folder)->size(); }

  std::string folder;
};

TEST_F(FileSystem, NewFilesMustNotExist) {
  ASSERT_TRUE(createFile(in("a"), {"one", " two"}).ok());
  EXPECT_EQ(read("a"), "one two");
  EXPECT_EQ(createFile(in("a"), {"three"}).getCode(), StatusCode::IO);
  EXPECT_EQ(read("a"), "one two");
}

// Whatever fails, the old file stays, and no temporary file is left.
TEST_F(FileSystem, ReplacedFilesAreWhole) {
  ASSERT_TRUE(replaceFile(in("a"), {"old"}).ok());
  for (const char *failing : {"open", "write", "sync", "rename"}) {
    setFaultHook([&](std::string_view change, const std::string &) {
      return change == failing ? ENOSPC : 0;
    });
    const Status status = replaceFile(in("a"), {"new"});
    setFaultHook(nullptr);
    EXPECT_EQ(status.getCode(), StatusCode::IO) << failing;
    EXPECT_TRUE(isForWantOfSpace(status)) << failing;
    EXPECT_EQ(read("a"), "old") << failing;
    EXPECT_EQ(countEntries(), 1u) << failing;
  }
  ASSERT_TRUE(replaceFile(in("a"), {"new"}).ok());
  EXPECT_EQ(read("a"), "new");
}

// A rename would leave a file in the place of /dev/null.
TEST_F(FileSystem, PipesAndFoldersAreNotReplaced) {
  ASSERT_EQ(mkfifo(in("pipe").c_str(), 0600), 0);
  EXPECT_EQ(replaceFile(in("pipe"), {"new"}).getCode(), StatusCode::IO);
  EXPECT_EQ(*kindOf(in("pipe")), FileKind::Other);
  EXPECT_EQ(replaceFile(folder, {"new"}).getCode(), StatusCode::IO);
  EXPECT_EQ(countEntries(), 1u);
}

TEST_F(FileSystem, LinksAreFollowedOnDemand) {
  ASSERT_TRUE(createFile(in("a"), {"one"}).ok());
  ASSERT_TRUE(replaceLink(in("link"), "a").ok());
  EXPECT_EQ(*kindOf(in("link")), FileKind::Regular);
  EXPECT_EQ(*kindOfLink(in("link")), FileKind::Link);
  EXPECT_EQ(*readLink(in("link")), "a");
  EXPECT_EQ(*readLink(in("a")), std::nullopt);
  EXPECT_TRUE(*isSameFile(in("link"), in("a")));
  ASSERT_TRUE(replaceLink(in("link"), "gone").ok());
  EXPECT_FALSE(*exists(in("link")));
  EXPECT_EQ(*kindOf(in("none")), FileKind::None);
  EXPECT_EQ(*kindOf(folder), FileKind::Directory);
}

TEST_F(FileSystem, FoldersAreListedByName) {
  ASSERT_TRUE(createFile(in("b"), {}).ok());
  ASSERT_TRUE(makeDirectories(in("a/c")).ok());
  const auto entries = listFolder(folder);
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_TRUE((*entries)[0].isFolder);
  EXPECT_EQ((*entries)[1].name, "b");
  EXPECT_FALSE((*entries)[1].isFolder);
  EXPECT_EQ(listFolder(in("none")).status().getCode(), StatusCode::IO);
}

// A folder with a subfolder stays: mpc did not make the subfolder.
TEST_F(FileSystem, RemovalKeepsSubfolders) {
  ASSERT_TRUE(makeDirectories(in("run/other")).ok());
  ASSERT_TRUE(createFile(in("run/a"), {}).ok());
  (void)removeDirectory(in("run"));
  EXPECT_FALSE(*exists(in("run/a")));
  EXPECT_TRUE(*exists(in("run/other")));
  std::filesystem::remove(in("run/other"));
  EXPECT_TRUE(removeDirectory(in("run")).ok());
  EXPECT_FALSE(*exists(in("run")));
}

TEST_F(FileSystem, LocksGoWithTheirFolder) {
  auto lock = DirectoryLock::acquire(folder);
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(*lock->holds(folder));
  ASSERT_TRUE(makeDirectories(in("other")).ok());
  EXPECT_FALSE(*lock->holds(in("other")));
}

TEST_F(FileSystem, SpaceAndPermissionAreChecked) {
  EXPECT_TRUE(requireSpace(folder, 1).ok());
  EXPECT_EQ(requireSpace(folder, UINT64_MAX / 2).getCode(), StatusCode::IO);
  EXPECT_TRUE(requireWritable(in("not/yet/there")).ok());
  ASSERT_TRUE(createFile(in("a"), {}).ok());
  EXPECT_EQ(requireWritable(in("a/b")).getCode(), StatusCode::IO);
}

} // namespace
} // namespace mpc::runtime::train
