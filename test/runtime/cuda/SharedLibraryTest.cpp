// Tests the search for NVIDIA's libraries, and the message for a missing one.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/SharedLibrary.h"
#include "test/runtime/cuda/Emulated.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;
using namespace mpc::runtime::test;

namespace {

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(CUDASharedLibrary, NamesEachPlaceOfAMissingLibraryOnce) {
  emulated(
      {{"MPC_CUDA_LIBRARY_PATH", "/a:/b/:/a/:/usr/local/cuda/lib64"},
       {"CUDA_HOME", "/usr/local/cuda/"}},
      [] {
        std::string message =
            SharedLibrary::open({"libmpc-absent.so.1"}, "a library")
                .status()
                .message();
        for (const char *path :
             {"tried: /a/lib", "; /b/lib", "; /usr/local/cuda/lib64/lib",
              "; lib", "; /usr/local/cuda/lib/lib"})
          EXPECT_EQ(count(message, std::string(path) + "mpc-absent.so.1: "), 1u)
              << path << " in " << message;
        EXPECT_EQ(count(message, "libmpc-absent.so.1: "), 5u) << message;
      });
}

TEST(CUDASharedLibrary, TellsAnAbsentLibraryFromOneThatCannotBeLoaded) {
  const std::string folder = testing::TempDir() + "/mpc-broken";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/libmpc-broken.so.1") << "no library";
  emulated({{"MPC_CUDA_LIBRARY_PATH", folder}}, [&] {
    EXPECT_EQ(SharedLibrary::look({"libmpc-absent.so.1"}).status().message(),
              "not found");
    const std::string message =
        SharedLibrary::look({"libmpc-absent.so.1", "libmpc-broken.so.1"})
            .status()
            .message();
    EXPECT_NE(message.find("/libmpc-broken.so.1: "), std::string::npos)
        << message;
  });
  std::filesystem::remove_all(folder);
}

} // namespace
