// Tests PTX, its assembler, and artifacts that contain both PTX and machine
// code.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/GPU.h"
#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/Code.h"
#include "runtime/Artifact.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdlib>
#include <gtest/gtest.h>

using namespace mlir;

namespace {

constexpr char kGPUPlan[] = R"({"format": 2, "producer": "test",
  "model": {"name": "m", "hash": "h", "opset": 17}, "precision": "32-true",
  "recipe": {}, "target": {"triple": "nvptx64-nvidia-cuda", "cpu": "sm_80",
  "features": ["ptx80"]}, "state": [], "functions": {}, "kernels": {}})";

/// A folder in place of a CUDA toolkit, whose ptxas is `script`.
class Toolkit {
public:
  explicit Toolkit(const std::string &script) {
    llvm::cantFail(llvm::errorCodeToError(
        llvm::sys::fs::createUniqueDirectory("toolkit", folder)));
    llvm::SmallString<128> path(folder);
    llvm::sys::path::append(path, "bin");
    llvm::cantFail(
        llvm::errorCodeToError(llvm::sys::fs::create_directory(path)));
    llvm::sys::path::append(path, "ptxas");
    assembler = path.str().str();
    std::error_code code;
    llvm::raw_fd_ostream out(assembler, code);
    out << "#!/bin/sh\n" << script;
    out.close();
    llvm::cantFail(llvm::errorCodeToError(
        llvm::sys::fs::setPermissions(assembler, llvm::sys::fs::all_all)));
  }
  ~Toolkit() { llvm::sys::fs::remove_directories(folder); }

  std::string assembler;
  llvm::SmallString<128> folder;
};

class GPU : public ::testing::Test {
protected:
  GPU() {
    DialectRegistry registry;
    registry.insert<LLVM::LLVMDialect>();
    registerNVVMDialectTranslation(registry);
    context.appendDialectRegistry(registry);
  }

  llvm::Expected<std::string> compile(llvm::StringRef source) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(source, &context);
    return mpc::compileKernels(*module, target, mpc::CodeFormat::PTX);
  }

  MLIRContext context;
  mpc::TargetInfo target = llvm::cantFail(mpc::TargetInfo::get("sm_80"));
};

constexpr char kGPUKernel[] = R"(
  llvm.func @kernel(%p: !llvm.ptr<1>)
      attributes {nvvm.kernel, nvvm.maxntid = array<i32: 64>} {
    %0 = llvm.mlir.constant(1.0 : f32) : f32
    llvm.store %0, %p : f32, !llvm.ptr<1>
    llvm.return
  })";

TEST_F(GPU, HasPTXAndNoObjects) {
  EXPECT_TRUE(mpc::hasFormat(target, mpc::CodeFormat::PTX));
  EXPECT_TRUE(mpc::hasFormat(target, mpc::CodeFormat::LLVM));
  EXPECT_FALSE(mpc::hasFormat(target, mpc::CodeFormat::Object));
  mpc::TargetInfo cpu = llvm::cantFail(mpc::TargetInfo::get("x86-64"));
  EXPECT_FALSE(mpc::hasFormat(cpu, mpc::CodeFormat::PTX));
}

TEST_F(GPU, CompilesKernelsToPTX) {
  std::string ptx = llvm::cantFail(compile(kGPUKernel));
  EXPECT_NE(ptx.find(".target sm_80"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(".visible .entry kernel("), std::string::npos) << ptx;
  EXPECT_NE(ptx.find(".maxntid 64"), std::string::npos) << ptx;
  EXPECT_NE(ptx.find("st.global.b32"), std::string::npos) << ptx;
}

TEST_F(GPU, RefusesCallsThatNoGPUProvides) {
  auto ptx = compile(R"(
    llvm.func @exp(f64) -> f64
    llvm.func @kernel(%p: !llvm.ptr<1>) attributes {nvvm.kernel} {
      %0 = llvm.load %p : !llvm.ptr<1> -> f64
      %1 = llvm.call @exp(%0) : (f64) -> f64
      llvm.store %1, %p : f64, !llvm.ptr<1>
      llvm.return
    })");
  ASSERT_FALSE(ptx);
  EXPECT_EQ(llvm::toString(ptx.takeError()),
            "a kernel calls 'exp', which no GPU provides");
}

TEST_F(GPU, FindsTheAssemblerOfTheToolkitThatIsNamed) {
  Toolkit toolkit("");
  const char *before = std::getenv("CUDA_HOME");
  std::string saved = before ? before : "";
  setenv("CUDA_HOME", toolkit.folder.c_str(), 1);
  EXPECT_EQ(mpc::findPTXAssembler(), toolkit.assembler);
  if (before)
    setenv("CUDA_HOME", saved.c_str(), 1);
  else
    unsetenv("CUDA_HOME");
}

TEST_F(GPU, ReturnsWhatTheAssemblerWrites) {
  Toolkit toolkit("[ $1 = -arch=sm_80 ] && tr a-z A-Z < $4 > $3");
  auto cubin = mpc::assemblePTX(toolkit.assembler, "code", target);
  ASSERT_TRUE(static_cast<bool>(cubin)) << llvm::toString(cubin.takeError());
  EXPECT_EQ(*cubin, "CODE");
}

TEST_F(GPU, SaysWhyTheAssemblerFails) {
  Toolkit toolkit("echo line 7: what is this; exit 1");
  auto cubin = mpc::assemblePTX(toolkit.assembler, "code", target);
  ASSERT_FALSE(cubin);
  EXPECT_EQ(llvm::toString(cubin.takeError()),
            toolkit.assembler + " rejects the kernels: line 7: what is this");
}

TEST_F(GPU, LinksWhatTheRuntimeOpens) {
  std::string ptx = llvm::cantFail(compile(kGPUKernel));
  for (llvm::StringRef cubin : {"", "cubin"}) {
    std::string bytes;
    llvm::raw_string_ostream out(bytes);
    mpc::SectionPiece data = {"data"};
    llvm::cantFail(
        mpc::writeArtifact({ptx, kGPUPlan, data, cubin}, target, out));
    auto artifact =
        mpc::runtime::Artifact::fromBytes(bytes.data(), bytes.size());
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    // The text ends with a zero byte, which a reader may count or not.
    EXPECT_EQ(std::string((*artifact)->ptx().data()), ptx);
    EXPECT_EQ((*artifact)->cubin(), cubin.str());
    EXPECT_EQ((*artifact)->dataBytes(), 4u);
  }
}

} // namespace
