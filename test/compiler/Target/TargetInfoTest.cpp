// Tests the properties of each target, and that `native` is the host.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/TargetInfo.h"
#include "runtime/cpu/CPUFeatures.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

namespace {

mpc::TargetInfo target(llvm::StringRef name) {
  return llvm::cantFail(mpc::TargetInfo::get(name));
}

TEST(TargetInfo, KnowsEveryNameItLists) {
  for (llvm::StringRef name : mpc::TargetInfo::getNames())
    EXPECT_EQ(target(name).getName(), name);
}

TEST(TargetInfo, NamesWhatItKnowsWhereItDoesNot) {
  auto unknown = mpc::TargetInfo::get("x86-64-v5");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(llvm::toString(unknown.takeError()),
            "unknown target 'x86-64-v5', expected one of native, x86-64, "
            "x86-64-v3, x86-64-v4, zen5, sapphirerapids, sm_80, sm_86, sm_89, "
            "sm_90, sm_100, sm_120");
}

TEST(TargetInfo, AnswersByFeature) {
  mlir::MLIRContext context;
  mlir::Builder b(&context);
  EXPECT_EQ(target("x86-64").getVectorBits(), 128u);
  EXPECT_EQ(target("x86-64-v3").getVectorBits(), 256u);
  EXPECT_EQ(target("zen5").getVectorBits(), 512u);
  EXPECT_FALSE(target("x86-64").hasNativeF16Conversion());
  EXPECT_TRUE(target("x86-64-v3").hasNativeF16Conversion());
  EXPECT_FALSE(target("x86-64-v4").hasNativeBF16Conversion());
  EXPECT_TRUE(target("zen5").hasNativeContraction(b.getBF16Type()));
  EXPECT_FALSE(target("x86-64-v3").hasNativeContraction(b.getBF16Type()));
  // AMX multiplies f16 as sums of bf16 numbers, faster than vectors do f32.
  EXPECT_TRUE(target("sapphirerapids").hasNativeContraction(b.getF16Type()));
  EXPECT_FALSE(target("zen5").hasNativeContraction(b.getF16Type()));
  EXPECT_TRUE(target("x86-64").hasNativeContraction(b.getF64Type()));
  EXPECT_FALSE(target("zen5").hasAMX());
  EXPECT_TRUE(target("sapphirerapids").hasAMX());
}

TEST(TargetInfo, KnowsGPUs) {
  mlir::MLIRContext context;
  mlir::Builder b(&context);
  for (llvm::StringRef name :
       {"sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}) {
    mpc::TargetInfo gpu = target(name);
    EXPECT_TRUE(gpu.isGPU());
    EXPECT_EQ(gpu.getTriple(), "nvptx64-nvidia-cuda");
    // Drivers for CUDA 12.0 know PTX 8.0, but not the newest architectures.
    EXPECT_EQ(gpu.getFeatureString(), name == "sm_100"   ? "+ptx86"
                                      : name == "sm_120" ? "+ptx87"
                                                         : "+ptx80");
    EXPECT_GT(gpu.getMemoryTime(1 << 20), 0);
    EXPECT_GE(gpu.getTensorCoreTime(1e9, /*aligned=*/false),
              gpu.getTensorCoreTime(1e9, /*aligned=*/true));
    EXPECT_EQ(gpu.getWarpSize(), 32u);
    EXPECT_EQ(gpu.getVectorBits(), 128u);
    EXPECT_TRUE(gpu.hasNativeContraction(b.getF16Type()));
    EXPECT_TRUE(gpu.hasNativeContraction(b.getBF16Type()));
    EXPECT_FALSE(gpu.hasAMX());
  }
  EXPECT_FALSE(target("sapphirerapids").isGPU());
  EXPECT_EQ(target("x86-64").getWarpSize(), 1u);
}

TEST(TargetInfo, NativeAsksForWhatTheRuntimeFinds) {
  mpc::TargetInfo native = target("native");
  std::vector<std::string> needed(native.getFeatures().begin(),
                                  native.getFeatures().end());
  EXPECT_FALSE(needed.empty());
  EXPECT_EQ(mpc::runtime::missingFeatures(needed), std::vector<std::string>());
}

TEST(TargetInfo, TheRuntimeCanDetectWhatAnyTargetNeeds) {
  // The runtime treats a feature that it cannot detect as missing: an artifact
  // that needs it would run nowhere.
  mpc::TargetInfo widest = target("sapphirerapids");
  mpc::TargetInfo native = target("native");
  for (const std::string &feature : widest.getFeatures())
    EXPECT_EQ(mpc::runtime::hostHasFeature(feature), native.hasFeature(feature))
        << feature;
}

} // namespace
