// The scratch memory that library calls share: who may still use which block.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DeviceMemory.h"

#include <gtest/gtest.h>
#include <map>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;

namespace {

/// Sizes of the blocks that are allocated, by address.
std::map<DevicePointer, size_t> blocks;

DriverResult allocateBlock(DevicePointer *memory, size_t bytes) {
  static DevicePointer next = 0;
  *memory = next += 256;
  blocks[*memory] = bytes;
  return DriverResult::Success;
}

DriverResult freeBlock(DevicePointer memory) {
  EXPECT_EQ(blocks.erase(memory), 1u);
  return DriverResult::Success;
}

class WorkspaceTest : public testing::Test {
protected:
  void SetUp() override {
    blocks.clear();
    driver.call.memAlloc = allocateBlock;
    driver.call.memFree = freeBlock;
  }

  Driver driver;
  GPU gpu;
  Plan plan;
  DeviceMemory memory{driver, gpu, plan};
};

TEST_F(WorkspaceTest, growsInPlaceOfABlockThatNobodyTook) {
  Workspace workspace(memory);
  ASSERT_TRUE(workspace.reserve(100).ok());
  ASSERT_TRUE(workspace.reserve(200).ok());
  ASSERT_TRUE(workspace.reserve(150).ok());
  EXPECT_EQ(workspace.bytes(), 200u);
  ASSERT_EQ(blocks.size(), 1u);
  EXPECT_EQ(blocks.at(workspace.take()), 200u);
}

TEST_F(WorkspaceTest, keepsABlockThatSomebodyTook) {
  {
    Workspace workspace(memory);
    ASSERT_TRUE(workspace.reserve(100).ok());
    DevicePointer first = workspace.take();
    ASSERT_TRUE(workspace.reserve(200).ok());
    EXPECT_NE(workspace.take(), first);
    EXPECT_EQ(blocks.count(first), 1u);
    EXPECT_EQ(workspace.bytes(), 300u);
  }
  EXPECT_TRUE(blocks.empty());
}

} // namespace
