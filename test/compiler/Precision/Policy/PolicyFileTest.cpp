// Tests that a printed policy reads back as the same policy.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PrecisionPolicy.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
struct PolicyFileTest : testing::Test {
  PolicyFileTest()
      : fp16(Float16Type::get(context())), bf16(BFloat16Type::get(context())) {}

  MLIRContext *context() {
    owned.loadDialect<MPCDialect, amp::AMPDialect>();
    return &owned;
  }

  /// The error of reading `text` as a policy file, without the file's name;
  /// empty if there is none. Both types read it.
  std::string read(llvm::StringRef text) {
    llvm::SmallString<128> path;
    int descriptor;
    if (llvm::sys::fs::createTemporaryFile("policy", "json", descriptor, path))
      return "no temporary file";
    llvm::FileRemover remover(path);
    llvm::raw_fd_ostream(descriptor, /*shouldClose=*/true) << text;
    for (PrecisionPolicy *policy : {&fp16, &bf16}) {
      std::string error = llvm::toString(policy->load(path));
      if (!error.empty())
        return llvm::StringRef(error).drop_front(path.size()).str();
    }
    return "";
  }

  void reset() {
    fp16 = PrecisionPolicy(Float16Type::get(context()));
    bf16 = PrecisionPolicy(BFloat16Type::get(context()));
  }

  std::string print() {
    std::string text;
    llvm::raw_string_ostream os(text);
    printPolicy(os, fp16, bf16);
    return text;
  }

  MLIRContext owned;
  PrecisionPolicy fp16, bf16;
};
} // namespace

TEST_F(PolicyFileTest, TheDefaultIsReadAsItIsPrinted) {
  std::string text = print();
  PrecisionPolicy byDefault(Float16Type::get(context()));
  PrecisionPolicy byDefaultBF16(BFloat16Type::get(context()));
  EXPECT_EQ(read(text), "");
  EXPECT_EQ(print(), text);
  for (RegisteredOperationName name :
       owned.getRegisteredOperationsByDialect("mpc")) {
    auto expected = byDefault.lookup(name.stripDialect());
    auto found = fp16.lookup(name.stripDialect());
    ASSERT_EQ(found.has_value(), expected.has_value());
    if (!found)
      continue;
    EXPECT_EQ(found->precisionClass, expected->precisionClass);
    EXPECT_EQ(found->unbounded, expected->unbounded);
    EXPECT_EQ(found->why, expected->why);
    EXPECT_EQ(bf16.lookup(name.stripDialect())->why,
              byDefaultBF16.lookup(name.stripDialect())->why);
  }
  // The rule names the file.
  EXPECT_TRUE(llvm::StringRef(fp16.lookup("conv")->rule).contains(":table["));
}

TEST_F(PolicyFileTest, PresetsAndRulesAreReadAsTheyArePrinted) {
  EXPECT_EQ(read(R"({"preset": "tensorflow", "rules": [
      {"op": "Gemm", "node": "^fc\\.\"1$", "type": "fp16", "class": "deny",
       "unbounded": true, "reason": "diverged"},
      {"op": "conv_weight_grad", "class": "infer", "optional": true}]})"),
            "");
  std::string text = print();
  EXPECT_TRUE(llvm::StringRef(text).contains(
      R"({"op":"conv_weight_grad","class":"infer","optional":true})"));
  EXPECT_TRUE(llvm::StringRef(text).contains("in the rewriter's deny list"));
  reset();
  EXPECT_EQ(read(text), "");
  EXPECT_EQ(print(), text);
}

TEST_F(PolicyFileTest, ARowHoldsForGradients) {
  EXPECT_EQ(read(R"({"table": [{"op": "Conv", "fp16": "deny", "bf16": "infer",
                                "reason": "tried"}]})"),
            "");
  EXPECT_EQ(fp16.lookup("conv")->precisionClass, PrecisionClass::Deny);
  EXPECT_EQ(fp16.lookup("conv_weight_grad")->why, "tried");
  EXPECT_EQ(bf16.lookup("conv_input_grad")->precisionClass,
            PrecisionClass::Infer);
}

TEST_F(PolicyFileTest, EachTypeMayHaveAReason) {
  EXPECT_EQ(read(R"({"table": [{"op": "Conv", "fp16": "deny", "bf16": "infer",
                                "reason": "both", "fp16_reason": "diverged"}]})"),
            "");
  EXPECT_EQ(fp16.lookup("conv")->why, "diverged");
  EXPECT_EQ(bf16.lookup("conv")->why, "both");
  std::string text = print();
  reset();
  EXPECT_EQ(read(text), "");
  EXPECT_EQ(fp16.lookup("conv")->why, "diverged");
  EXPECT_EQ(bf16.lookup("conv")->why, "both");
}

TEST_F(PolicyFileTest, AGradientMayHaveARowOfItsOwn) {
  EXPECT_EQ(read(R"({"table": [
      {"op": "conv_weight_grad", "fp16": "deny", "bf16": "deny"}]})"),
            "");
  EXPECT_EQ(fp16.lookup("conv")->precisionClass, PrecisionClass::Allow);
  EXPECT_EQ(fp16.lookup("conv_weight_grad")->precisionClass,
            PrecisionClass::Deny);
  std::string text = print();
  EXPECT_TRUE(llvm::StringRef(text).contains(
      R"({"op":"conv_weight_grad","follows":"conv","fp16":"deny")"));
  reset();
  EXPECT_EQ(read(text), "");
  EXPECT_EQ(print(), text);
}

TEST_F(PolicyFileTest, WhatNoPolicyChangesMustBeAsItIs) {
  EXPECT_EQ(
      read(R"({"table": [{"op": "gemm", "fp16": "allow", "bf16": "allow",
                                "accumulate": "fp16"}]})"),
      ":table[0]: accumulate: expected \"fp32\", which no policy changes, "
      "found \"fp16\"");
  EXPECT_EQ(read(R"({"table": [{"op": "gemm", "fp16": "allow", "bf16": "allow",
                                "fp32_operands": [0]}]})"),
            ":table[0]: fp32_operands: expected [2], which no policy changes, "
            "found [0]");
  EXPECT_EQ(read(R"({"table": [{"op": "relu", "fp16": "clear", "bf16": "clear",
                                "fp32_results": [0]}]})"),
            ":table[0]: fp32_results: expected none for \"relu\", found [0]");
}

TEST_F(PolicyFileTest, FixedIsFixed) {
  EXPECT_EQ(read(R"({"table": [{"op": "Adam", "fp16": "allow",
                                "bf16": "fixed"}]})"),
            ":table[0]: fp16: expected fixed, which no policy changes, found "
            "allow");
  EXPECT_EQ(read(R"({"table": [{"op": "Gemm", "fp16": "allow",
                                "bf16": "fixed"}]})"),
            ":table[0]: bf16: expected allow, infer, deny or clear, found "
            "fixed");
  EXPECT_EQ(read(R"({"rules": [{"op": "Adam", "class": "allow"}]})"),
            ":rules[0]: op: \"Adam\" is fixed, which no rule changes: updates "
            "are smaller than a low parameter's last digit");
  EXPECT_EQ(read(R"({"rules": [{"op": "Gemm", "class": "fixed"}]})"),
            ":rules[0]: class: expected allow, infer, deny or clear, found "
            "\"fixed\", which is only for rows of mpc's own table");
}

TEST_F(PolicyFileTest, ErrorsSayWhere) {
  EXPECT_EQ(read(R"({"table": [{"op": "gemm", "fp16": "allow"}]})"),
            ":table[0]: bf16: expected allow, infer, deny or clear, found "
            "\"\"");
  EXPECT_EQ(read(R"({"table": [{"op": "gemm", "class": "allow"}]})"),
            ":table[0]: unknown key \"class\", expected one of op, onnx, "
            "follows, fp16, bf16, accumulate, unbounded, fp32_operands, "
            "fp32_results, reason, fp16_reason, bf16_reason");
  EXPECT_EQ(read(R"({"table": [{"op": "Gemmm"}]})"),
            ":table[0]: op: unknown op \"Gemmm\"; did you mean \"Gemm\"?");
  EXPECT_EQ(read(R"({"table": [
      {"op": "Gemm", "fp16": "allow", "bf16": "allow"},
      {"op": "gemm", "fp16": "allow", "bf16": "allow"}]})"),
            ":table[1]: op: \"gemm\" has a row already");
  EXPECT_EQ(read(R"({"table": {}})"), ": table: expected an array");
  EXPECT_EQ(read(R"({"table": ["gemm"]})"), ":table[0]: expected an object");
}

TEST_F(PolicyFileTest, DeepNestingLongFilesAndDevicesAreRefused) {
  // The second error is nested in a value, behind brackets inside strings.
  for (const std::string &text :
       {std::string(1000000, '['),
        "{\"preset\": \"]]]]\\\"\", \"rules\": " + std::string(300000, '[')}) {
    reset();
    EXPECT_EQ(read(text), ": is nested too deeply");
  }
  reset();
  EXPECT_EQ(read("{}" + std::string(16 << 20, ' ')),
            ": expected a policy of at most 16 MiB");
  EXPECT_EQ(llvm::toString(fp16.load("/dev/zero")),
            "/dev/zero: expected a file, found a folder, a pipe or a device; "
            "save the policy to a file");
}
