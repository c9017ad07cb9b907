// Tests that the runtime opens the artifacts that the compiler links, and that
// bad ones are refused.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/DataSection.h"
#include "runtime/Artifact.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/MemoryBuffer.h"

#include <cstring>
#include <gtest/gtest.h>
#include <sys/stat.h>

using namespace mlir;

namespace {

constexpr char kPlan[] = R"({"format": 2, "producer": "test",
  "model": {"name": "m", "hash": "h", "opset": 17}, "precision": "32-true",
  "recipe": {}, "target": {"triple": "x86_64-unknown-linux-gnu",
  "cpu": "x86-64", "features": []}, "state": [{"name": "w", "role": "parameter",
  "type": "f32", "shape": [2], "init": {"offset": 64, "bytes": 8}}],
  "functions": {}, "kernels": {}})";

class ArtifactWriter : public ::testing::Test {
protected:
  ArtifactWriter() { context.loadDialect<LLVM::LLVMDialect>(); }

  std::string compile(llvm::StringRef source,
                      mpc::CodeFormat format = mpc::CodeFormat::Object) {
    OwningOpRef<ModuleOp> module =
        parseSourceString<ModuleOp>(source, &context);
    return llvm::cantFail(mpc::compileKernels(*module, target, format));
  }

  /// The bytes of the file, or the error.
  std::string link(llvm::StringRef object,
                   llvm::ArrayRef<mpc::SectionPiece> data) {
    std::string bytes;
    llvm::raw_string_ostream out(bytes);
    if (llvm::Error error =
            mpc::writeArtifact({object, kPlan, data}, target, out))
      return llvm::toString(std::move(error));
    return bytes;
  }

  DenseElementsAttr floats(std::vector<float> values) {
    auto type = RankedTensorType::get({static_cast<int64_t>(values.size())},
                                      Float32Type::get(&context));
    return DenseElementsAttr::get(type, llvm::ArrayRef(values));
  }

  MLIRContext context;
  mpc::TargetInfo target = llvm::cantFail(mpc::TargetInfo::get("x86-64"));
};

auto writeText(llvm::StringRef text) {
  return [text](llvm::raw_ostream &out) {
    out << text;
    return llvm::Error::success();
  };
}

constexpr char kKernel[] = R"(
  llvm.func @answer() -> i64 attributes {no_unwind} {
    %0 = llvm.mlir.constant(42 : i64) : i64
    llvm.return %0 : i64
  })";

TEST_F(ArtifactWriter, LinksWhatTheRuntimeOpens) {
  mpc::DataSection data;
  ASSERT_TRUE(succeeded(data.add(floats({7}))));
  auto entry = data.add(floats({1, 2}));
  ASSERT_TRUE(succeeded(entry));
  EXPECT_EQ(entry->offset, 64);
  EXPECT_EQ(entry->bytes, 8);
  std::string object = compile(kKernel);
  std::string bytes = link(object, data.getPieces());
  auto artifact = mpc::runtime::Artifact::fromBytes(bytes.data(), bytes.size());
  ASSERT_TRUE(artifact.ok()) << artifact.status().message();
  EXPECT_EQ((*artifact)->planText(), kPlan);
  ASSERT_EQ((*artifact)->dataBytes(), 72u);
  float second;
  std::memcpy(&second, (*artifact)->data() + 68, sizeof(second));
  EXPECT_EQ(second, 2);
  auto kernel = (*artifact)->kernel("answer");
  ASSERT_TRUE(kernel.ok()) << kernel.status().message();
  EXPECT_EQ(reinterpret_cast<int64_t (*)()>(*kernel)(), 42);
}

TEST_F(ArtifactWriter, LinksTheSameBytesTwice) {
  std::string object = compile(kKernel);
  std::string first = link(object, {{"data"}});
  EXPECT_EQ(first, link(compile(kKernel), {{"da"}, {"ta"}}));
  EXPECT_NE(first, link(object, {{"datum"}}));
}

TEST_F(ArtifactWriter, RefusesCallsThatNoProcessProvides) {
  std::string object = compile(R"(
    llvm.func @mystery()
    llvm.func @kernel() {
      llvm.call @mystery() : () -> ()
      llvm.return
    })");
  EXPECT_EQ(link(object, {}),
            "a kernel calls 'mystery', which the runtime does not provide");
}

TEST_F(ArtifactWriter, StoresAnAttributeOnceAndBooleansAsBytes) {
  mpc::DataSection data;
  auto first = data.add(floats({1, 2}));
  auto again = data.add(floats({1, 2}));
  ASSERT_TRUE(succeeded(first) && succeeded(again));
  EXPECT_EQ(first->offset, again->offset);
  auto type = RankedTensorType::get({3}, IntegerType::get(&context, 1));
  auto flags = data.add(
      DenseElementsAttr::get(type, llvm::ArrayRef<bool>({true, false, true})));
  ASSERT_TRUE(succeeded(flags));
  EXPECT_EQ(flags->bytes, 3);
  EXPECT_EQ(data.getPieces().back().bytes, llvm::StringRef("\1\0\1", 3));
  auto splat = data.add(DenseElementsAttr::get(
      RankedTensorType::get({4}, Float32Type::get(&context)), 0.0f));
  ASSERT_TRUE(succeeded(splat));
  EXPECT_EQ(splat->bytes, 16);
}

TEST_F(ArtifactWriter, EmitsTextOnRequest) {
  EXPECT_NE(compile(kKernel, mpc::CodeFormat::LLVM).find("i64 @answer()"),
            std::string::npos);
  EXPECT_NE(compile(kKernel, mpc::CodeFormat::Assembly).find("$42"),
            std::string::npos);
}

// A device is written to, not replaced. This device is always full.
TEST_F(ArtifactWriter, ReportsAFullDisk) {
  llvm::Error error = mpc::writeFileAtomically("/dev/full", writeText("x"));
  EXPECT_EQ(llvm::errorToErrorCode(std::move(error)),
            std::errc::no_space_on_device);
}

TEST_F(ArtifactWriter, LetsOthersWriteToNoProgram) {
  const std::string path = ::testing::TempDir() + "rights.mpc";
  const mode_t mask = umask(0);
  llvm::Error program =
      mpc::writeFileAtomically(path, writeText("x"), mpc::kProgramRights);
  auto rights = llvm::sys::fs::getPermissions(path);
  llvm::Error text = mpc::writeFileAtomically(path, writeText("x"));
  auto others = llvm::sys::fs::getPermissions(path);
  umask(mask);
  std::remove(path.c_str());
  ASSERT_FALSE(program || text);
  EXPECT_EQ(*rights, 0644);
  EXPECT_EQ(*others, 0666);
}

TEST_F(ArtifactWriter, LeavesTheOldFileWhereItCannotWrite) {
  std::string path = ::testing::TempDir() + "atomic.mpc";
  ASSERT_FALSE(mpc::writeFileAtomically(path, writeText("old")));
  ASSERT_FALSE(mpc::writeFileAtomically(path, writeText("new")));
  EXPECT_EQ((*llvm::MemoryBuffer::getFile(path))->getBuffer(), "new");
  std::remove(path.c_str());
  llvm::Error error =
      mpc::writeFileAtomically("/nonexistent-directory/a.mpc", writeText("x"));
  EXPECT_TRUE(static_cast<bool>(error));
  llvm::consumeError(std::move(error));
}

} // namespace
