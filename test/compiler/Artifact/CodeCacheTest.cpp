// Tests that a cached kernel is found by its source, whole or not at all.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CodeCache.h"
#include "compiler/Artifact/CompilerIdentity.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace mpc;
namespace fs = llvm::sys::fs;

namespace {

class Cache : public ::testing::Test {
protected:
  Cache() { EXPECT_FALSE(fs::createUniqueDirectory("mpc-cache", folder)); }
  ~Cache() override { fs::remove_directories(folder); }

  CodeCache open() { return llvm::cantFail(CodeCache::open(folder)); }

  std::vector<std::string> listFiles() {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator file(folder, error), end; file != end && !error;
         file.increment(error))
      if (llvm::sys::path::filename(file->path()) != "llvmcache.timestamp")
        files.push_back(file->path());
    return files;
  }

  // Stores kernels 0 to `count` - 1. Returns the disk space of one kernel.
  uint64_t fill(CodeCache &cache, int count) {
    uint64_t largest = 0;
    for (int i = 0; i < count; ++i)
      cache.store("kernel " + std::to_string(i), std::string(1000, 'x'));
    for (const std::string &file : listFiles()) {
      struct stat status;
      EXPECT_EQ(stat(file.c_str(), &status), 0);
      largest = std::max<uint64_t>(largest, status.st_blocks * 512);
    }
    return largest;
  }

  llvm::SmallString<128> folder;
};

TEST_F(Cache, FindsWhatWasStored) {
  CodeCache cache = open();
  EXPECT_EQ(cache.lookup("kernel"), std::nullopt);
  cache.store("kernel", llvm::StringRef("co\0de", 5));
  EXPECT_EQ(cache.lookup("kernel"), std::string("co\0de", 5));
  EXPECT_EQ(open().lookup("kernel"), std::string("co\0de", 5));
  EXPECT_EQ(cache.lookup("other kernel"), std::nullopt);
}

TEST_F(Cache, TakesADamagedEntryForNone) {
  CodeCache cache = open();
  cache.store("kernel", "code");
  std::vector<std::string> files = listFiles();
  ASSERT_EQ(files.size(), 1u);
  for (llvm::StringRef bytes : {"", "code", "c0de12345678"}) {
    std::error_code error;
    llvm::raw_fd_ostream(files[0], error) << bytes;
    ASSERT_FALSE(error);
    EXPECT_EQ(cache.lookup("kernel"), std::nullopt) << bytes.str();
  }
  cache.store("kernel", "code");
  EXPECT_EQ(cache.lookup("kernel"), "code");
}

TEST_F(Cache, TakesAnEntryOfAnotherKeyForNone) {
  CodeCache cache = open();
  cache.store("first", "code of one");
  cache.store("second", "code of two");
  std::vector<std::string> files = listFiles();
  ASSERT_EQ(files.size(), 2u);
  const std::string third = (folder + "/third").str();
  ASSERT_FALSE(fs::rename(files[0], third));
  ASSERT_FALSE(fs::rename(files[1], files[0]));
  ASSERT_FALSE(fs::rename(third, files[1]));
  EXPECT_EQ(cache.lookup("first"), std::nullopt);
  EXPECT_EQ(cache.lookup("second"), std::nullopt);
  cache.store("first", "code of one");
  EXPECT_EQ(cache.lookup("first"), "code of one");
}

TEST_F(Cache, RefusesAFolderThatOthersMayWriteTo) {
  ASSERT_FALSE(fs::setPermissions(folder, fs::all_all));
  auto cache = CodeCache::open(folder);
  ASSERT_FALSE(cache);
  EXPECT_EQ(llvm::toString(cache.takeError()),
            "others may write to the folder '" + folder.str().str() +
                "', and so change the code that runs; remove their write "
                "permission, or name another folder");
}

// Whoever may write to the parent folder may replace the cache's folder.
TEST_F(Cache, RefusesAFolderThatOthersMayExchange) {
  llvm::SmallString<128> inner(folder);
  llvm::sys::path::append(inner, "cache");
  ASSERT_TRUE(!!CodeCache::open(inner));
  ASSERT_FALSE(fs::setPermissions(folder, fs::all_all));
  auto cache = CodeCache::open(inner);
  ASSERT_FALSE(cache);
  EXPECT_EQ(llvm::toString(cache.takeError()),
            "others may write to the parent of the folder '" +
                inner.str().str() +
                "', and so change the code that runs; remove their write "
                "permission, or name another folder");
  // A sticky folder, such as /tmp, protects files of others.
  ASSERT_FALSE(fs::setPermissions(folder, fs::all_all | fs::sticky_bit));
  EXPECT_TRUE(!!CodeCache::open(inner));
}

TEST_F(Cache, UsesTheFolderThatWasChecked) {
  llvm::SmallString<128> inner(folder), moved(folder);
  llvm::sys::path::append(inner, "cache");
  llvm::sys::path::append(moved, "moved");
  CodeCache cache = llvm::cantFail(CodeCache::open(inner));
  cache.store("kernel", "code");
  ASSERT_FALSE(fs::rename(inner, moved));
  ASSERT_FALSE(fs::create_directory(inner));
  EXPECT_EQ(cache.lookup("kernel"), "code");
  cache.store("other kernel", "other code");
  CodeCache other = llvm::cantFail(CodeCache::open(inner));
  EXPECT_EQ(other.lookup("other kernel"), std::nullopt);
  EXPECT_EQ(llvm::cantFail(CodeCache::open(moved)).lookup("other kernel"),
            "other code");
}

TEST_F(Cache, MakesAFolderThatIsMissingAndItsOwnersAlone) {
  llvm::SmallString<128> inner(folder);
  llvm::sys::path::append(inner, "a", "b");
  ASSERT_TRUE(!!CodeCache::open(inner));
  auto permissions = fs::getPermissions(inner);
  ASSERT_TRUE(!!permissions);
  EXPECT_EQ(*permissions, fs::owner_all);
}

TEST_F(Cache, RefusesAFolderThatCannotBe) {
  auto cache = CodeCache::open("/dev/null/cache");
  ASSERT_FALSE(cache);
  EXPECT_EQ(llvm::toString(cache.takeError()),
            "cannot make the folder '/dev/null/cache': Not a directory");
}

TEST_F(Cache, RefusesAFile) {
  const std::string file = (folder + "/file").str();
  std::error_code error;
  llvm::raw_fd_ostream(file, error) << "mine";
  ASSERT_FALSE(error);
  auto cache = CodeCache::open(file);
  ASSERT_FALSE(cache);
  EXPECT_EQ(llvm::toString(cache.takeError()),
            "expected a folder, found the file '" + file + "'");
}

// A kernel of 1000 bytes occupies a disk block, and the bound counts blocks.
TEST_F(Cache, StaysWithinItsPartOfTheDisk) {
  CodeCache cache = open();
  uint64_t block = fill(cache, 20);
  ASSERT_GT(block, 1008u);
  cache.prune(/*maxBytes=*/20 * block, /*interval=*/0);
  EXPECT_EQ(listFiles().size(), 20u);
  cache.prune(/*maxBytes=*/10 * block, /*interval=*/0);
  EXPECT_EQ(listFiles().size(), 10u);
  // The bound exceeds the bytes of ten kernels, but not their blocks.
  cache.prune(/*maxBytes=*/10 * 1008, /*interval=*/0);
  EXPECT_EQ(listFiles().size(), 10 * 1008 / block);
}

TEST_F(Cache, RemovesWhatWasReadLongestAgo) {
  CodeCache cache = open();
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  auto setRead = [&](const std::string &file, time_t ago) {
    timespec times[] = {{now.tv_sec - ago, 0}, {0, UTIME_OMIT}};
    EXPECT_EQ(utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
  };
  // The first entry was read a minute ago, the second two hours ago, and the
  // others an hour ago.
  cache.store("first", std::string(1000, 'x'));
  std::string first = listFiles().front();
  cache.store("second", std::string(1000, 'x'));
  for (const std::string &file : listFiles())
    setRead(file, file == first ? 60 : 7200);
  std::vector<std::string> done = listFiles();
  uint64_t block = fill(cache, 4);
  for (const std::string &file : listFiles())
    if (!llvm::is_contained(done, file))
      setRead(file, 3600);
  // Pruning removes the second entry first, and in the end all but the first.
  cache.prune(/*maxBytes=*/5 * block, /*interval=*/0);
  EXPECT_EQ(listFiles().size(), 5u);
  EXPECT_EQ(cache.lookup("second"), std::nullopt);
  cache.prune(/*maxBytes=*/block, /*interval=*/0);
  EXPECT_EQ(listFiles(), std::vector<std::string>{first});
}

TEST_F(Cache, CountsItsEntries) {
  CodeCache cache = open();
  EXPECT_EQ(cache.getUsage().entries, 0u);
  cache.store("key", "code");
  cache.store("other", std::string(10000, 'x'));
  EXPECT_EQ(cache.getUsage().entries, 2u);
  EXPECT_GE(cache.getUsage().bytes, 10004u);
}

TEST_F(Cache, RemovesNoOtherFiles) {
  CodeCache cache = open();
  llvm::SmallString<128> other(folder);
  llvm::sys::path::append(other, "notes");
  std::error_code error;
  llvm::raw_fd_ostream(other, error) << "mine";
  ASSERT_FALSE(error);
  fill(cache, 3);
  cache.prune(/*maxBytes=*/0, /*interval=*/0);
  EXPECT_EQ(listFiles(), std::vector<std::string>{other.str().str()});
}

// A second pruning within the interval changes nothing.
TEST_F(Cache, IsNotLookedAtTwiceInAnInterval) {
  CodeCache cache = open();
  cache.prune(/*maxBytes=*/0, /*interval=*/0);
  fill(cache, 3);
  open().prune(/*maxBytes=*/0, /*interval=*/3600);
  EXPECT_EQ(listFiles().size(), 3u);
  cache.prune(/*maxBytes=*/0, /*interval=*/0);
  EXPECT_EQ(listFiles().size(), 0u);
}

// Concurrent prunings tolerate files that another one has already removed.
TEST_F(Cache, IsLookedAtWhenTheLastTimeIsStillToCome) {
  CodeCache cache = open();
  cache.prune(/*maxBytes=*/0, /*interval=*/0);
  const std::string timestamp = (folder + "/llvmcache.timestamp").str();
  const timespec tomorrow{std::time(nullptr) + 86400, 0};
  const timespec times[] = {tomorrow, tomorrow};
  ASSERT_EQ(utimensat(AT_FDCWD, timestamp.c_str(), times, 0), 0);
  fill(cache, 1);
  cache.prune(/*maxBytes=*/0, /*interval=*/3600);
  EXPECT_TRUE(listFiles().empty());
}

TEST_F(Cache, WritesToNoFileThatALinkNames) {
  CodeCache cache = open();
  const std::string other = (folder + "/other").str();
  std::error_code error;
  llvm::raw_fd_ostream(other, error) << "data";
  ASSERT_EQ(
      symlink(other.c_str(), (folder + "/llvmcache.timestamp").str().c_str()),
      0);
  cache.prune(/*maxBytes=*/0, /*interval=*/0);
  uint64_t bytes = 0;
  ASSERT_FALSE(fs::file_size(other, bytes));
  EXPECT_EQ(bytes, 4u);
}

TEST_F(Cache, IsPrunedByTwoAtOnce) {
  CodeCache cache = open();
  uint64_t block = fill(cache, 400);
  auto prune = [&] { cache.prune(/*maxBytes=*/100 * block, /*interval=*/0); };
  std::thread one(prune), other(prune);
  one.join();
  other.join();
  EXPECT_EQ(listFiles().size(), 100u);
}

// Each reader finds the whole code or none while others store it.
TEST_F(Cache, ServesSeveralAtOnce) {
  CodeCache cache = open();
  std::string code(100000, 'x');
  auto work = [&] {
    for (int i = 0; i < 50; ++i) {
      std::optional<std::string> found = cache.lookup("kernel");
      EXPECT_TRUE(!found || *found == code);
      cache.store("kernel", code);
    }
  };
  std::thread one(work), other(work);
  one.join();
  other.join();
  EXPECT_EQ(cache.lookup("kernel"), code);
  EXPECT_EQ(listFiles().size(), 1u);
}

TEST(CacheFolder, IsTheUsersUnlessNamed) {
  EXPECT_EQ(CodeCache::findFolder("none"), "");
  EXPECT_EQ(CodeCache::findFolder("some/folder"), "some/folder");
  setenv("HOME", "/home/user", 1);
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(CodeCache::findFolder("auto"), "/caches/mpc");
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(CodeCache::findFolder("auto"), "/home/user/.cache/mpc");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(CodeCache::findFolder("auto"), "");
}

// Program, LLVM and MLIR, in two hexadecimal digits per byte.
TEST(CompilerIdentity, NamesThreeBuilds) {
  std::string identity = identifyCompiler();
  EXPECT_EQ(std::count(identity.begin(), identity.end(), ' '), 3);
  EXPECT_GE(identity.size(), 3 * 17u);
}

} // namespace
