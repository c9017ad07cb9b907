// Tests the list of GPUs and libraries, over emulated libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Inventory.h"
#include "test/runtime/cuda/Emulated.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;
using namespace mpc::runtime::test;

namespace {

TEST(CUDAInventory, ListsGPUsAndVersions) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_EMULATOR_FOLDER},
            {"MPC_EMULATOR_DEVICE", "sm_90,driver=12040,count=2"}},
           [] {
             const Inventory found = takeInventory();
             ASSERT_EQ(found.gpus.size(), 2u);
             EXPECT_EQ(found.gpus[1].architecture(), "sm_90");
             EXPECT_EQ(found.driver.version, "12.4");
             EXPECT_EQ(found.driver.fault, "");
             ASSERT_EQ(found.libraries.size(), 4u);
             EXPECT_EQ(found.libraries[0].name, "cuBLASLt");
             EXPECT_EQ(found.libraries[0].version, "13.1.0");
             EXPECT_EQ(found.libraries[1].version, "9.19.0");
             EXPECT_EQ(found.libraries[2].name, "NVRTC");
             EXPECT_EQ(found.libraries[2].version, "13.0.0");
             for (const InstalledLibrary &library : found.libraries) {
               EXPECT_EQ(library.fault, "") << library.name;
               EXPECT_NE(library.path.find(MPC_TEST_EMULATOR_FOLDER),
                         std::string::npos);
             }
           });
}

TEST(CUDAInventory, AMachineWithoutAGPUIsNoFailure) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_EMULATOR_FOLDER},
            {"MPC_EMULATOR_DEVICE", "none"}},
           [] {
             const Inventory found = takeInventory();
             EXPECT_TRUE(found.gpus.empty());
             EXPECT_NE(found.driver.path, "");
           });
}

TEST(CUDAInventory, ADriverWithoutFunctionsHasAFault) {
  emulated({{"MPC_CUDA_LIBRARY_PATH", MPC_TEST_EMPTY_DRIVER_FOLDER}}, [] {
    const Inventory found = takeInventory();
    EXPECT_TRUE(found.gpus.empty());
    EXPECT_NE(found.driver.fault.find("has no function"), std::string::npos)
        << found.driver.fault;
  });
}

} // namespace
