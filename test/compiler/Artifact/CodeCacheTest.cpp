// A kept kernel is found by what it was compiled from, whole or not at all.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CodeCache.h"
#include "compiler/Artifact/CompilerIdentity.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

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

TEST_F(Cache, RefusesAFolderThatOthersMayWriteTo) {
  ASSERT_FALSE(fs::setPermissions(folder, fs::all_all));
  auto cache = CodeCache::open(folder);
  ASSERT_FALSE(cache);
  EXPECT_EQ(llvm::toString(cache.takeError()),
            "others may write to the folder '" + folder.str().str() +
                "', and so to the code that runs");
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

TEST_F(Cache, StaysWithinItsSize) {
  CodeCache cache = open();
  std::string code(1000, 'x');
  for (int i = 0; i < 20; ++i)
    cache.store("kernel " + std::to_string(i), code);
  EXPECT_EQ(listFiles().size(), 20u);
  cache.prune(/*maxBytes=*/10000, /*interval=*/0);
  EXPECT_LE(listFiles().size(), 10u);
  EXPECT_GE(listFiles().size(), 5u);
}

// Every reader finds the whole code or none while others store the same.
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

// Program, LLVM and MLIR; two hexadecimal digits a byte.
TEST(CompilerIdentity, NamesThreeBuilds) {
  std::string identity = identifyCompiler();
  EXPECT_EQ(std::count(identity.begin(), identity.end(), ' '), 3);
  EXPECT_GE(identity.size(), 3 * 17u);
}

} // namespace
