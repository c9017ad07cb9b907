// Tests the choice of stored and recomputed values against all alternatives.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/KeptValues.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ElementWork.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
class KeptValuesTest : public ::testing::Test {
protected:
  KeptValuesTest() {
    context.loadDialect<func::FuncDialect, MPCDialect, amp::AMPDialect>();
  }

  /// The names of the recomputed ops of `body`, in order. `T` is a tensor of 64
  /// rows, `V` a row, `S` one value per row, `W` a matrix.
  std::vector<std::string> recomputed(std::string body) {
    for (auto [name, type] : {std::pair{"!T", "tensor<64x32xf32>"},
                              {"!V", "tensor<32xf32>"},
                              {"!S", "tensor<64x1xf32>"},
                              {"!W", "tensor<32x32xf32>"},
                              {"!C", "tensor<f32>"}})
      for (size_t at; (at = body.find(name)) != std::string::npos;)
        body.replace(at, 2, type);
    module = parseSourceString<ModuleOp>(body, &context);
    EXPECT_TRUE(module);
    std::vector<std::string> names;
    if (!module)
      return names;
    Block &block =
        cast<func::FuncOp>(module->getBody()->front()).getBody().front();
    RegionAnalysis analysis(block);
    KeptValues kept(block, analysis);
    for (Operation &op : block)
      if (kept.isRecomputed(&op))
        names.push_back(op.getName().stripDialect().str());
    return names;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

using Names = std::vector<std::string>;
} // namespace

// GELU in primitive ops behind a product, and its gradient before a product.
static constexpr const char *kGelu = R"(
func.func @f(%x: !T, %w: !W, %b: !V) -> !T {
  %r = mpc.constant dense<1.4> : !C
  %i = mpc.constant dense<1.0> : !C
  %m = mpc.matmul %x, %w : (!T, !W) -> !T
  %h = mpc.add %m, %b : (!T, !V) -> !T
  %d = mpc.div %h, %r : (!T, !C) -> !T
  %e = mpc.erf %d : (!T) -> !T
  %p = mpc.add %e, %i : (!T, !C) -> !T
  %y = mpc.mul %h, %p : (!T, !T) -> !T
  %z = mpc.matmul %y, %w : (!T, !W) -> !T
  %g = mpc.matmul %z, %w {transB = true} : (!T, !W) -> !T
  %a = mpc.mul %g, %p : (!T, !T) -> !T
  %q = mpc.mul %g, %h : (!T, !T) -> !T
  %s = mpc.formula_grad %q, %d {of = "erf"} : (!T, !T) -> !T
  %t = mpc.add %a, %s : (!T, !T) -> !T
  return %t : !T
})";

TEST_F(KeptValuesTest, AnActivationKeepsItsInputAlone) {
  EXPECT_EQ(recomputed(kGelu), (Names{"div", "erf", "add"}));
}

TEST_F(KeptValuesTest, WhatAProductReadsIsInMemoryAnyway) {
  EXPECT_EQ(recomputed(R"(
    func.func @f(%x: !T, %w: !W) -> (!T, tensor<1x32xf32>) {
      %n = mpc.neg %x : (!T) -> !T
      %p = mpc.matmul %n, %w : (!T, !W) -> !T
      %s = mpc.reduce_sum %n {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      return %p, %s : !T, tensor<1x32xf32>
    })"),
            Names{});
}

// One load replaces another, and a store is saved.
TEST_F(KeptValuesTest, AValueOfOneTensorIsComputedAgain) {
  constexpr const char *program = R"(
    func.func @f(%x: !T) -> !T {
      %e = mpc.OP %x : (!T) -> !T
      %s = mpc.reduce_sum %e {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      %y = mpc.mul %e, %s : (!T, tensor<1x32xf32>) -> !T
      return %y : !T
    })";
  for (std::string op : {"exp", "neg", "tanh"}) {
    std::string body = program;
    body.replace(body.find("OP"), 2, op);
    EXPECT_EQ(recomputed(body), Names{op});
  }
}

// Two loads would replace one load and a store.
TEST_F(KeptValuesTest, AValueOfTwoTensorsIsKept) {
  EXPECT_EQ(recomputed(R"(
    func.func @f(%x: !T, %z: !T) -> !T {
      %a = mpc.add %x, %z : (!T, !T) -> !T
      %s = mpc.reduce_sum %a {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      %y = mpc.mul %a, %s : (!T, tensor<1x32xf32>) -> !T
      return %y : !T
    })"),
            Names{});
}

// Recomputing %y would need %c, one load more than storing %c. But %y is
// stored.
TEST_F(KeptValuesTest, AKeptValueNeedsNothing) {
  EXPECT_EQ(recomputed(R"(
    func.func @f(%x: !T, %m: !V, %z: !T, %w: !T) -> !T {
      %c = mpc.sub %x, %m : (!T, !V) -> !T
      %s = mpc.reduce_sum %c {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      %p = mpc.mul %c, %s : (!T, tensor<1x32xf32>) -> !T
      %q = mpc.add %p, %z : (!T, !T) -> !T
      %y = mpc.add %q, %w : (!T, !T) -> !T
      %t = mpc.reduce_sum %y {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      %o = mpc.mul %y, %t : (!T, tensor<1x32xf32>) -> !T
      return %o : !T
    })"),
            Names{"sub"});
}

TEST_F(KeptValuesTest, ARandomValueIsKept) {
  EXPECT_EQ(recomputed(R"(
    func.func @f(%x: !T, %i: tensor<i64>) -> !T {
      %d = mpc.dropout %x, %i, %i {ratio = 0.5 : f64, id = 3 : i64} : (!T, tensor<i64>, tensor<i64>) -> !T
      %s = mpc.reduce_sum %d {axes = array<i64: 0>, keepdims = true} : (!T) -> tensor<1x32xf32>
      %y = mpc.mul %d, %s : (!T, tensor<1x32xf32>) -> !T
      return %y : !T
    })"),
            Names{});
}

// A kernel that reduces two axes as one would reduce them one by one if it also
// read a value that varies only along the first. The order of the sum would
// change.
TEST_F(KeptValuesTest, SumsKeepTheirOrder) {
  constexpr const char *program = R"(
    func.func @f(%x: tensor<64x4x32xf32>, %z: tensor<SHAPExf32>) -> (tensor<64x4x32xf32>, tensor<1x1x32xf32>) {
      %a = mpc.add %x, %z : (tensor<64x4x32xf32>, tensor<SHAPExf32>) -> tensor<64x4x32xf32>
      %m = mpc.reduce_max %a {axes = array<i64: 2>, keepdims = true} : (tensor<64x4x32xf32>) -> tensor<64x4x1xf32>
      %y = mpc.mul %a, %m : (tensor<64x4x32xf32>, tensor<64x4x1xf32>) -> tensor<64x4x32xf32>
      %s = mpc.reduce_sum %a {axes = array<i64: 0, 1>, keepdims = true} : (tensor<64x4x32xf32>) -> tensor<1x1x32xf32>
      return %y, %s : tensor<64x4x32xf32>, tensor<1x1x32xf32>
    })";
  auto with = [&](StringRef shape) {
    std::string body = program;
    for (size_t at; (at = body.find("SHAPE")) != std::string::npos;)
      body.replace(at, 5, shape.str());
    return recomputed(body);
  };
  EXPECT_EQ(with("1x1x32"), Names{"add"});
  EXPECT_EQ(with("64x1x32"), Names{});
}

// Every op of the chain has a user in the last kernel: each alone would be
// recomputed.
TEST_F(KeptValuesTest, ChainsHaveABound) {
  auto chain = [&](unsigned length) {
    std::string body = "func.func @f(%v0: !T) -> !T {\n";
    for (unsigned i = 0; i < length; ++i)
      body += "%v" + std::to_string(i + 1) + " = mpc.neg %v" +
              std::to_string(i) + " : (!T) -> !T\n";
    std::string last = "%v" + std::to_string(length);
    body += "%s = mpc.reduce_sum " + last +
            " {axes = array<i64: 0>, keepdims = true} : (!T) -> "
            "tensor<1x32xf32>\n%y = mpc.mul " +
            last + ", %s : (!T, tensor<1x32xf32>) -> !T\nreturn %y : !T\n}";
    return recomputed(body).size();
  };
  EXPECT_EQ(chain(10), 10u);
  EXPECT_LT(chain(60), 24u);
}

TEST_F(KeptValuesTest, WorkIsCountedFromFormulas) {
  recomputed(kGelu);
  std::map<std::string, int64_t> work;
  module->walk([&](Operation *op) {
    if (std::optional<int64_t> found = getElementWork(op))
      work[op->getName().stripDialect().str()] = *found;
  });
  EXPECT_EQ(work["add"], 1);
  EXPECT_GT(work["erf"], work["div"]);
  // An exponential, and the derivative's other ops.
  EXPECT_GT(work["formula_grad"], work["erf"]);
  EXPECT_EQ(work.count("matmul"), 0u);
}
