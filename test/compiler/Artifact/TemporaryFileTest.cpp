// Tests that temporary files of code are accessible only to the user, and are
// removed.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
namespace fs = llvm::sys::fs;

namespace {
/// Sets a umask of 0 while it lives.
class NoUmask {
public:
  NoUmask() : previous(umask(0)) {}
  ~NoUmask() { umask(previous); }

private:
  mode_t previous;
};
} // namespace

static unsigned getMode(llvm::StringRef path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.str().c_str(), &status), 0) << path.str();
  return status.st_mode & 07777;
}

TEST(TemporaryFile, IsTheUsersAloneAndGoesWithItsFolder) {
  NoUmask all;
  std::string folder;
  {
    TemporaryFile file;
    ASSERT_FALSE(file.create("o", "code"));
    folder = llvm::sys::path::parent_path(file.getPath()).str();
    EXPECT_EQ(getMode(folder), 0700u);
    EXPECT_EQ(getMode(file.getPath()), 0600u);
    EXPECT_EQ(llvm::cantFail(file.read()), "code");
    // Files that a tool leaves beside the temporary file are removed too.
    std::error_code error;
    llvm::raw_fd_ostream(folder + "/left", error) << "x";
    ASSERT_FALSE(error);
  }
  EXPECT_FALSE(fs::exists(folder));
}

TEST(TemporaryFile, WithoutANameIsTheUsersAlone) {
  NoUmask all;
  std::string folder;
  llvm::Expected<int> file = openUnnamedFile(folder);
  ASSERT_TRUE(!!file) << llvm::toString(file.takeError());
  struct stat status = {};
  ASSERT_EQ(fstat(*file, &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(status.st_nlink, 0u);
  close(*file);
}
