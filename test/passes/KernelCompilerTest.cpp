// Tests that kernels are the same on any number of threads and from a cache,
// and that errors are reported at the kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/KernelCompiler.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Support/ExitCode.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <gtest/gtest.h>
#include <map>

using namespace mlir;
using namespace mpc;

namespace {

/// Two equal kernels with different names and reasons, and a third kernel.
constexpr char kPlan[] = R"(
  func.func private @one(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {mpc.kernel = #mpc.kernel<pointwise>} {
    %y = mpc.tanh %x {mpc.phase = #mpc.phase<forward>} : (tensor<64xf32>) -> tensor<64xf32>
    return %y : tensor<64xf32>
  }
  func.func private @two(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {mpc.kernel = #mpc.kernel<pointwise>} {
    %y = mpc.tanh %x : (tensor<64xf32>) -> tensor<64xf32>
    return %y : tensor<64xf32>
  }
  func.func private @three(%x: tensor<64xf32>) -> tensor<64xf32>
      attributes {mpc.kernel = #mpc.kernel<pointwise>} {
    %y = mpc.exp %x : (tensor<64xf32>) -> tensor<64xf32>
    return %y : tensor<64xf32>
  })";

class KernelCompiler : public ::testing::Test {
protected:
  KernelCompiler() {
    context.loadDialect<MPCDialect, amp::AMPDialect, func::FuncDialect>();
    EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("mpc-kernels", folder));
  }
  ~KernelCompiler() override { llvm::sys::fs::remove_directories(folder); }

  /// The code, or the reported errors.
  std::string compile(llvm::StringRef plan, unsigned threads,
                      std::optional<CodeCache> cache = std::nullopt,
                      llvm::StringRef target = "x86-64-v3") {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(plan, &context);
    std::string messages;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
      exitCode = getExitCode(diagnostic);
      messages += diagnostic.str() + "\n";
    });
    auto code = compilePlannedKernels(
        *module, {llvm::cantFail(TargetInfo::get(target)), threads, cache});
    return succeeded(code) ? *code : messages;
  }

  std::vector<std::string> listEntries() {
    std::vector<std::string> entries;
    std::error_code error;
    for (llvm::sys::fs::directory_iterator file(folder, error), end;
         file != end && !error; file.increment(error))
      if (llvm::StringRef(file->path()).contains("llvmcache-"))
        entries.push_back(file->path());
    return entries;
  }

  /// The files of the cache's entries, by name.
  std::map<std::string, llvm::sys::fs::UniqueID> identifyEntries() {
    std::map<std::string, llvm::sys::fs::UniqueID> files;
    for (const std::string &entry : listEntries())
      EXPECT_FALSE(llvm::sys::fs::getUniqueID(entry, files[entry]));
    return files;
  }

  MLIRContext context;
  llvm::SmallString<128> folder;
  ExitCode exitCode = ExitCode::Done;
};

TEST_F(KernelCompiler, CompilesTheSameOnAnyNumberOfThreads) {
  std::string code = compile(kPlan, 1);
  EXPECT_TRUE(llvm::StringRef(code).starts_with("!<arch>"));
  EXPECT_EQ(code, compile(kPlan, 2));
  EXPECT_EQ(code, compile(kPlan, 16));
}

TEST_F(KernelCompiler, KeepsAKernelByWhatItDoes) {
  CodeCache cache = llvm::cantFail(CodeCache::open(folder));
  std::string code = compile(kPlan, 1);
  EXPECT_EQ(code, compile(kPlan, 1, cache));
  EXPECT_EQ(listEntries().size(), 2u);
  EXPECT_EQ(code, compile(kPlan, 1, cache));
  EXPECT_EQ(listEntries().size(), 2u);
  // Another target needs other code.
  EXPECT_NE(code, compile(kPlan, 1, cache, "x86-64"));
  EXPECT_EQ(listEntries().size(), 4u);
}

// A recompiled kernel gets a new file.
TEST_F(KernelCompiler, UsesWhatIsKept) {
  CodeCache cache = llvm::cantFail(CodeCache::open(folder));
  std::string code = compile(kPlan, 1, cache, "sm_80");
  auto files = identifyEntries();
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(code, compile(kPlan, 1, cache, "sm_80"));
  EXPECT_EQ(files, identifyEntries());
}

// An entry belongs to one kernel, whatever its file's name says.
TEST_F(KernelCompiler, MakesAnewWhatIsKeptUnderAnotherName) {
  CodeCache cache = llvm::cantFail(CodeCache::open(folder));
  std::string code = compile(kPlan, 1, cache, "sm_80");
  std::vector<std::string> entries = listEntries();
  ASSERT_EQ(entries.size(), 2u);
  std::string aside = (folder + "/aside").str();
  ASSERT_FALSE(llvm::sys::fs::rename(entries[0], aside));
  ASSERT_FALSE(llvm::sys::fs::rename(entries[1], entries[0]));
  ASSERT_FALSE(llvm::sys::fs::rename(aside, entries[1]));
  auto files = identifyEntries();
  EXPECT_EQ(code, compile(kPlan, 1, cache, "sm_80"));
  EXPECT_NE(files, identifyEntries());
}

TEST_F(KernelCompiler, ReportsEveryFailureAtItsKernel) {
  constexpr char plan[] = R"(
    func.func private @bad(%x: tensor<8xf32>) -> tensor<8xf32>
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %y = mpc.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    func.func private @worse(%x: tensor<8xf32>) -> tensor<8xf32>
        attributes {mpc.kernel = #mpc.kernel<movement>} {
      %y = mpc.tanh %x : (tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    })";
  std::string messages = compile(plan, 2);
  EXPECT_NE(messages.find("has no reduction"), std::string::npos) << messages;
  EXPECT_NE(messages.find("has no movement"), std::string::npos) << messages;
  EXPECT_EQ(exitCode, ExitCode::Internal);
}

} // namespace
