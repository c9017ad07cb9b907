// Tests the scratch memory that library calls share: who may still use which
// block.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/DeviceMemory.h"

#include <gtest/gtest.h>
#include <map>

using namespace mpc::runtime;
using namespace mpc::runtime::cuda;

namespace {

/// Sizes of the allocated blocks, by address.
std::map<DevicePointer, size_t> blocks;

/// The GPU's memory.
size_t room = SIZE_MAX;

DriverResult allocateBlock(DevicePointer *memory, size_t bytes) {
  static DevicePointer next = 0;
  size_t used = bytes;
  for (const auto &[address, size] : blocks)
    used += size;
  if (used > room)
    return DriverResult::OutOfMemory;
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
    room = SIZE_MAX;
    driver.call.memAlloc = allocateBlock;
    driver.call.memFree = freeBlock;
    driver.call.memGetInfo = [](size_t *, size_t *) {
      return DriverResult::OutOfMemory;
    };
  }

  CUDADriver driver;
  GPU gpu;
  Plan plan;
  StateShares shares{plan};
  DeviceMemory memory{driver, gpu, plan, shares};
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

TEST_F(WorkspaceTest, isAsLargeAsBeforeWhereItCannotGrow) {
  for (bool isTaken : {false, true}) {
    blocks.clear();
    room = 250;
    Workspace workspace(memory);
    ASSERT_TRUE(workspace.reserve(100).ok());
    if (isTaken)
      workspace.take();
    EXPECT_FALSE(workspace.reserve(300).ok());
    EXPECT_EQ(blocks.at(workspace.take()), 100u);
    EXPECT_TRUE(workspace.reserve(80).ok());
    EXPECT_EQ(blocks.at(workspace.take()), 100u);
    // Other sessions took the block's memory. Nobody gets less than promised.
    blocks[1] = 250;
    EXPECT_FALSE(workspace.reserve(400).ok());
    blocks.erase(1);
  }
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
