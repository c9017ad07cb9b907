// Tests that separately compiled kernels get their names and one file.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/KernelCode.h"
#include "compiler/Artifact/Code.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Object/Archive.h"
#include "llvm/Object/ObjectFile.h"

#include <gtest/gtest.h>

using namespace mpc;

namespace {

/// An object file in which `mpc_kernel` calls `callee`.
std::string compileCall(llvm::StringRef callee) {
  llvm::LLVMContext context;
  llvm::Module module("kernel", context);
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), false);
  auto *kernel = llvm::Function::Create(type, llvm::Function::ExternalLinkage,
                                        kAnonymousKernel, module);
  llvm::IRBuilder<> b(llvm::BasicBlock::Create(context, "", kernel));
  b.CreateCall(module.getOrInsertFunction(callee, type));
  b.CreateRetVoid();
  TargetInfo target = llvm::cantFail(TargetInfo::get("x86-64"));
  return llvm::cantFail(emitObject(module, target));
}

std::vector<std::string> listSymbols(const llvm::object::ObjectFile &object) {
  std::vector<std::string> names;
  for (const llvm::object::SymbolRef &symbol : object.symbols()) {
    std::string name = llvm::cantFail(symbol.getName()).str();
    bool isGlobal =
        llvm::cantFail(symbol.getFlags()) & llvm::object::SymbolRef::SF_Global;
    if (isGlobal)
      names.push_back(name);
  }
  llvm::sort(names);
  return names;
}

TEST(KernelCode, ArchivesObjectsUnderTheirNames) {
  std::string joined = llvm::cantFail(joinObjects(
      {{"step_0_conv1", compileCall("expf")}, {"eval", compileCall("tanhf")}}));
  auto archive =
      llvm::cantFail(llvm::object::Archive::create({joined, "kernels"}));
  std::vector<std::string> symbols;
  llvm::Error error = llvm::Error::success();
  for (const llvm::object::Archive::Child &member : archive->children(error)) {
    auto object = llvm::cantFail(member.getAsBinary());
    llvm::append_range(
        symbols, listSymbols(*llvm::cast<llvm::object::ObjectFile>(&*object)));
  }
  llvm::cantFail(std::move(error));
  EXPECT_EQ(symbols, (std::vector<std::string>{"expf", "step_0_conv1", "eval",
                                               "tanhf"}));
}

TEST(KernelCode, RefusesWhatIsNoObject) {
  auto joined = joinObjects({{"kernel", "text"}});
  ASSERT_FALSE(joined);
  llvm::consumeError(joined.takeError());
}

constexpr char kPreamble[] = "//\n// by LLVM\n//\n\n.version 8.0\n"
                             ".target sm_80\n.address_size 64\n";

std::string ptx(llvm::StringRef body) { return kPreamble + body.str(); }

TEST(KernelCode, JoinsPTXBehindOnePreamble) {
  std::string joined = llvm::cantFail(joinPTX(
      {{"one", ptx(".extern .shared .align 128 .b8 shared[];\n"
                   ".visible .entry mpc_kernel(mpc_kernel_param_0) {}\n")},
       {"two", ptx(".extern .shared .align 128 .b8 shared[];\n"
                   ".visible .entry mpc_kernel() { mpc_kernel_shared }\n")}}));
  EXPECT_EQ(joined, ptx(".extern .shared .align 128 .b8 shared[];\n"
                        ".visible .entry one(one_param_0) {}\n"
                        ".visible .entry two() { two_shared }\n"));
}

TEST(KernelCode, RefusesPTXOfAnotherVersion) {
  auto joined = joinPTX({{"one", ptx("")}, {"two", ".version 9.0\n"}});
  ASSERT_FALSE(joined);
  EXPECT_EQ(llvm::toString(joined.takeError()),
            "the kernel 'two' is of another version of PTX than those before "
            "it");
}

} // namespace
