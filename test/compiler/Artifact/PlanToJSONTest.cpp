// Tests that the runtime's parser accepts the compiler's JSON, verifies it, and
// reads the IR's values.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/PlanToJSON.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/Plan.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"

#include <gtest/gtest.h>

using namespace mlir;

namespace {
class PlanToJSONTest : public ::testing::Test {
protected:
  PlanToJSONTest() {
    context.loadDialect<mpc::MPCDialect, mpc::plan::PlanDialect,
                        func::FuncDialect>();
  }

  /// The plan of the module in `source`, as the runtime reads it.
  mpc::runtime::StatusOr<mpc::runtime::Plan>
  parse(llvm::StringRef source,
        llvm::StringRef triple = "x86_64-unknown-linux-gnu") {
    module = parseSourceString<ModuleOp>(source, &context);
    if (!module)
      return mpc::runtime::Status(mpc::runtime::StatusCode::Internal,
                                  "the test's module does not parse");
    const bool isGPU = triple.starts_with("nvptx64");
    (*module)->setAttr(
        mpc::kTargetAttr,
        mpc::TargetAttr::get(&context, isGPU ? "sm_80" : "x86-64-v3"));
    auto members = mpc::planToJSON(*module, data);
    if (failed(members))
      return mpc::runtime::Status(mpc::runtime::StatusCode::Internal,
                                  "no JSON");
    llvm::json::Object plan{
        {"format", mpc::format::kVersion},
        {"producer", "test"},
        {"model",
         llvm::json::Object{{"name", "m"}, {"hash", "h"}, {"opset", 17}}},
        {"precision", "32-true"},
        {"recipe", llvm::json::Object()},
        {"target", llvm::json::Object{{"triple", triple},
                                      {"cpu", "x86-64"},
                                      {"features", llvm::json::Array()}}},
        {"constant_bytes", members->constantBytes},
        {"state", std::move(members->state)},
        {"functions", std::move(members->functions)},
        {"kernels", std::move(members->kernels)}};
    std::string text;
    llvm::raw_string_ostream(text) << llvm::json::Value(std::move(plan));
    return mpc::runtime::parsePlan(text, data.getSize());
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  mpc::DataSection data;
};
} // namespace

TEST_F(PlanToJSONTest, OneValueEverywhereTakesNoBytes) {
  auto plan = parse(R"(
    mpc.variable @ones : tensor<2x3xf32> role parameter init dense<1.0> : tensor<2x3xf32>
    mpc.variable @same : tensor<3xbf16> role parameter init dense_resource<halves> : tensor<3xbf16>
    mpc.variable @minus_zero : tensor<2xf32> role parameter init dense<-0.0> : tensor<2xf32>
    mpc.variable @count : tensor<2xi64> role counter init dense<7> : tensor<2xi64>
    {-# dialect_resources: { builtin: { halves: "0x02000000003F003F003F" } } #-}
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->state.size(), 4u);
  EXPECT_FALSE(plan->state[0].data.has_value());
  EXPECT_EQ(plan->state[0].fill, 1.0);
  EXPECT_FALSE(plan->state[1].data.has_value());
  EXPECT_EQ(plan->state[1].fill, 0.5);
  // JSON writers may lose the sign, and integers are kept exactly.
  EXPECT_TRUE(plan->state[2].data.has_value());
  EXPECT_TRUE(plan->state[3].data.has_value());
}

TEST_F(PlanToJSONTest, EverythingArrives) {
  auto plan = parse(R"(
    mpc.variable @w : tensor<2x3xf32> role parameter init dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
    mpc.variable @n : tensor<i64> role counter fill 7.0
    plan.program @step attributes {arena_bytes = 192 : i64} {
      %x = plan.input "x" role data : memref<4x3xf32>
      %w = plan.state @w : memref<2x3xf32>
      %c = plan.constant dense<[1.0, 2.0]> : tensor<2xf32> : memref<2xf32>
      %a = plan.arena at 64 : memref<4x2xf32>
      plan.matmul %x, %w into %a : memref<4x2xf32>
        shape <m = 4, n = 2, k = 3, trans_b = true, lda = 3, ldb = 3, ldc = 2, tile_m = 4, tile_n = 2>
        axes <stride_c = 8> {alpha = 0.5 : f64} : memref<4x3xf32>, memref<2x3xf32> loc("fc1")
      %v = plan.view %a : memref<4x2xf32> to memref<8xf32>
      %half = plan.view %v at 8 : memref<8xf32> to memref<4xf32>
      %pair = plan.view %half at 4 : memref<4xf32> to memref<2xf32>
      %b = plan.arena at 128 : memref<8xf32>
      plan.launch @kernel ins(%v, %c : memref<8xf32>, memref<2xf32>) outs(%b : memref<8xf32>) extent 8 grain 16384
      %t = plan.arena at 0 : memref<4x2xf32>
      plan.matmul %x, %w epilogue @tail ins(%c : memref<2xf32>) outs(%t : memref<4x2xf32>)
        shape <m = 4, n = 2, k = 3, trans_b = true, lda = 3, ldb = 3, ldc = 2, tile_m = 4, tile_n = 2>
        axes <stride_c = 8> {alpha = 1.0 : f64} : memref<4x3xf32>, memref<2x3xf32>
      %p = plan.arena at 0 : memref<i1>
      plan.if %p {
        plan.copy %v to %b : memref<8xf32>, memref<8xf32>
      } else {
        %d = plan.arena at 64 : memref<8xf32>
        plan.copy %d to %b : memref<8xf32>, memref<8xf32>
      } : memref<i1>
      %box = plan.arena at 0 : memref<4x1xf32>
      plan.copy %a to %box {rows = 4 : i64, offset = 4 : i64, stride = 8 : i64}
          : memref<4x2xf32>, memref<4x1xf32>
      plan.output "y" role output %b : memref<8xf32>
      plan.output "pair" role output %pair : memref<2xf32>
    }
    func.func private @kernel(%x: tensor<8xf32>, %c: tensor<2xf32>) -> tensor<8xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.relu %x : (tensor<8xf32>) -> tensor<8xf32>
      return %y : tensor<8xf32>
    }
    func.func private @tail(%tile: tensor<4x2xf32>, %c: tensor<2xf32>) -> tensor<4x2xf32> attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %y = mpc.add %tile, %c : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
      return %y : tensor<4x2xf32>
    }
    func.func private @unused(%x: tensor<0xf32>) -> tensor<0xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %y = mpc.relu %x : (tensor<0xf32>) -> tensor<0xf32>
      return %y : tensor<0xf32>
    }
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->state.size(), 2u);
  EXPECT_EQ(plan->state[0].name, "w");
  ASSERT_TRUE(plan->state[0].data.has_value());
  EXPECT_EQ(plan->state[0].data->bytes, 24);
  // Constants precede initial values.
  EXPECT_EQ(plan->constantBytes, 8);
  EXPECT_EQ(plan->state[0].data->offset, 64);
  EXPECT_EQ(plan->state[1].fill, 7.0);

  const mpc::runtime::Function *step = plan->findFunction("step");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->arenaBytes, 192);
  ASSERT_EQ(step->steps.size(), 5u);
  const auto &rows = std::get<mpc::runtime::CopyStep>(step->steps[4].op);
  ASSERT_TRUE(rows.strided.has_value());
  EXPECT_EQ(rows.strided->rows, 4);
  EXPECT_EQ(rows.strided->offset, 4);
  EXPECT_EQ(rows.strided->stride, 8);
  EXPECT_EQ(step->steps[0].name, "fc1");
  const auto &matmul = std::get<mpc::runtime::MatMulStep>(step->steps[0].op);
  EXPECT_TRUE(matmul.transB);
  EXPECT_EQ(matmul.alpha, 0.5);
  const auto &launch = std::get<mpc::runtime::LaunchStep>(step->steps[1].op);
  ASSERT_EQ(launch.args.size(), 3u);
  // Describes the code of the kernels that steps call.
  EXPECT_EQ(plan->kernels.size(), 2u);
  const mpc::runtime::Kernel &kernel = plan->kernels.at("kernel");
  EXPECT_EQ(kernel.extent, 8);
  EXPECT_EQ(kernel.grain, 16384);
  ASSERT_EQ(kernel.reads.size(), 2u);
  EXPECT_EQ(kernel.reads[1].shape, mpc::runtime::Shape{2});
  EXPECT_EQ(kernel.writes.size(), 1u);
  const mpc::runtime::Kernel &tail = plan->kernels.at("tail");
  ASSERT_TRUE(tail.tiled.has_value());
  EXPECT_EQ(tail.tiled->rows, 4);
  EXPECT_EQ(tail.tiled->columns, 2);
  EXPECT_EQ(tail.reads.size(), 1u);
  // The view is at its source's offset.
  EXPECT_EQ(step->buffers[launch.args[0]].offset, 64);
  EXPECT_EQ(step->buffers[launch.args[0]].shape, mpc::runtime::Shape{8});
  EXPECT_EQ(step->buffers[launch.args[1]].space, mpc::runtime::Space::Constant);
  const auto &condition = std::get<mpc::runtime::IfStep>(step->steps[3].op);
  EXPECT_EQ(condition.then.size(), 1u);
  ASSERT_EQ(condition.otherwise.size(), 1u);
  const auto &copied =
      std::get<mpc::runtime::CopyStep>(condition.otherwise[0].op);
  EXPECT_EQ(step->buffers[copied.src].offset, 64);
  ASSERT_NE(step->findOutput("y"), nullptr);
  // A view of a view begins at the sum of both offsets.
  const auto *pair = step->findOutput("pair");
  ASSERT_NE(pair, nullptr);
  EXPECT_EQ(step->buffers[pair->buffer].offset, 64 + 12);
}

TEST_F(PlanToJSONTest, ConvolutionsArrive) {
  auto plan = parse(R"(
    plan.program @f attributes {arena_bytes = 4096 : i64} {
      %x = plan.input "x" role data : memref<2x4x4x3xf32>
      %w = plan.input "w" role data : memref<5x3x3x3xf32>
      %y = plan.arena at 0 : memref<2x4x4x5xf32>
      plan.conv forward x(%x : memref<2x4x4x3xf32>) w(%w : memref<5x3x3x3xf32>)
        y(%y : memref<2x4x4x5xf32>) {batch = 2 : i64, groups = 1 : i64,
        in_channels = 3 : i64, out_channels = 5 : i64,
        in_spatial = array<i64: 4, 4>, out_spatial = array<i64: 4, 4>,
        kernel = array<i64: 3, 3>, strides = array<i64: 1, 1>,
        dilations = array<i64: 1, 1>, pads_begin = array<i64: 1, 1>,
        pads_end = array<i64: 1, 1>}
      plan.output "y" role output %y : memref<2x4x4x5xf32>
    }
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &step = plan->findFunction("f")->steps.front();
  const auto &conv = std::get<mpc::runtime::ConvStep>(step.op);
  EXPECT_EQ(conv.kind, mpc::runtime::ConvKind::Forward);
  EXPECT_EQ(conv.outChannels, 5);
}

TEST_F(PlanToJSONTest, AttentionArrives) {
  auto plan = parse(R"(
    plan.program @f attributes {arena_bytes = 16384 : i64} {
      %p = plan.input "p" role data : memref<1x16x24xbf16>
      %o = plan.arena at 0 : memref<1x16x8xbf16>
      %do = plan.arena at 512 : memref<1x16x8xbf16>
      %s = plan.arena at 1024 : memref<1x1x16xf32>
      %dp = plan.arena at 2048 : memref<1x16x24xbf16>
      plan.attention gradient query(%p : memref<1x16x24xbf16>)
        key(%p : memref<1x16x24xbf16>) value(%p : memref<1x16x24xbf16>)
        output(%o : memref<1x16x8xbf16>) statistics(%s : memref<1x1x16xf32>)
        d_output(%do : memref<1x16x8xbf16>) d_query(%dp : memref<1x16x24xbf16>)
        d_key(%dp : memref<1x16x24xbf16>) d_value(%dp : memref<1x16x24xbf16>)
        shape <queries = 16, keys = 16, size = 8, columns = 8,
               query_at = <token = 24>, key_at = <offset = 8, token = 24>,
               value_at = <offset = 16, token = 24>, output_at = <token = 8>,
               d_output_at = <token = 8>, d_query_at = <token = 24>,
               d_key_at = <offset = 8, token = 24>,
               d_value_at = <offset = 16, token = 24>>
        {scale = 0.25 : f64, causal_offset = 0 : i64}
      plan.output "dp" role output %dp : memref<1x16x24xbf16>
    }
  )",
                    "nvptx64-nvidia-cuda");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &step = plan->findFunction("f")->steps.front();
  const auto &attention = std::get<mpc::runtime::AttentionStep>(step.op);
  EXPECT_EQ(attention.kind, mpc::AttentionKind::Gradient);
  EXPECT_EQ(attention.keys, 16);
  EXPECT_EQ(attention.valueAt.offset, 16);
  EXPECT_EQ(attention.dKeyAt.token, 24);
  EXPECT_EQ(attention.scale, 0.25);
  EXPECT_EQ(attention.causalOffset, 0);
  EXPECT_EQ(attention.query, 0u);
  EXPECT_EQ(attention.output, 1u);
  EXPECT_EQ(attention.dOutput, 2u);
  EXPECT_EQ(attention.statistics, 3u);
  EXPECT_EQ(attention.dValue, 4u);
  EXPECT_EQ(attention.bias, std::nullopt);
}

TEST_F(PlanToJSONTest, LoopsAndChecksArrive) {
  auto plan = parse(R"(
    plan.program @f attributes {arena_bytes = 256 : i64} {
      %ids = plan.input "ids" role data : memref<4x2xi64>
      plan.check_indices %ids [{begin = array<i64: 0, 1>, end = array<i64: 4, 2>, size = 9 : i64, label, ignored = -1 : i64}] : memref<4x2xi64>
      %xs = plan.input "xs" role data : memref<4x8xf32>
      %ys = plan.arena at 0 : memref<4x8xf32>
      plan.for 4 parallel {
        %x = plan.part %xs from 0 by 32 : memref<4x8xf32> to memref<8xf32>
        %y = plan.part %ys from 96 by -32 : memref<4x8xf32> to memref<8xf32>
        %h = plan.arena at 128 : memref<8xf32>
        plan.copy %x to %h : memref<8xf32>, memref<8xf32>
        plan.copy %h to %y : memref<8xf32>, memref<8xf32>
      } {private_bytes = 64 : i64, private_offset = 128 : i64}
      plan.copy %xs to %ys {rows = 4 : i64, stride = 32 : i64, row_bytes = 8 : i64,
        to_offset = 8 : i64, to_stride = 32 : i64} : memref<4x8xf32>, memref<4x8xf32>
      plan.all_reduce mean %ys {row_elements = 8 : i64} : memref<4x8xf32>
    }
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  using namespace mpc::runtime;
  const std::vector<Step> &steps = plan->findFunction("f")->steps;
  ASSERT_EQ(steps.size(), 4u);
  const IndexBox box{{0, 1}, {4, 2}, 9, /*isLabel=*/true, /*ignored=*/-1};
  EXPECT_EQ(std::get<CheckIndicesStep>(steps[0].op).indices, std::vector{box});
  const auto &loop = std::get<ForStep>(steps[1].op);
  EXPECT_EQ(loop.count, 4);
  EXPECT_EQ(loop.privateMemory, (PrivateMemory{128, 64}));
  ASSERT_EQ(loop.moving.size(), 2u);
  EXPECT_EQ(loop.moving[0].bytes, 32);
  EXPECT_EQ(loop.moving[1].bytes, -32);
  EXPECT_EQ(loop.steps.size(), 2u);
  EXPECT_EQ(std::get<CopyStep>(steps[2].op).strided,
            (StridedRows{4, 0, 32, RowTarget{8, 8, 32}}));
  EXPECT_EQ(std::get<AllReduceStep>(steps[3].op).kind, Reduce::Mean);
  EXPECT_EQ(std::get<AllReduceStep>(steps[3].op).rowElements, 8);
}

/// Owners are names in the IR, and indices of state variables in the plan.
TEST_F(PlanToJSONTest, OwnersArrive) {
  auto plan = parse(R"(
    mpc.variable @v : tensor<8xf32> role parameter
    mpc.variable @w : tensor<8xf32> role parameter
    mpc.variable @w.m : tensor<8xf32> role optimizer_state {plan.owner = @w}
    plan.program @f attributes {arena_bytes = 128 : i64} {
      %a = plan.arena at 0 : memref<8xf32>
      %b = plan.arena at 64 : memref<8xf32>
      %v = plan.state @v : memref<8xf32>
      %w = plan.state @w : memref<8xf32>
      %m = plan.state @w.m : memref<8xf32>
      plan.reduce_scatter mean %b, %a owners [@w, @v] : memref<8xf32>, memref<8xf32>
      plan.copy %b to %m {plan.owner = @w} : memref<8xf32>, memref<8xf32>
      plan.copy %a to %v : memref<8xf32>, memref<8xf32>
      plan.all_gather %w, %v owners [@w, @v] : memref<8xf32>, memref<8xf32>
    }
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  using namespace mpc::runtime;
  ASSERT_EQ(plan->state.size(), 3u);
  EXPECT_EQ(plan->state[0].owner, std::nullopt);
  EXPECT_EQ(plan->state[1].owner, std::nullopt);
  EXPECT_EQ(plan->state[2].owner, std::optional<size_t>(1));
  const Function &function = *plan->findFunction("f");
  ASSERT_EQ(function.steps.size(), 4u);
  const auto &reduction = std::get<ReduceScatterStep>(function.steps[0].op);
  EXPECT_EQ(reduction.kind, Reduce::Mean);
  const auto ownersOf = [](const std::vector<OwnedPart> &parts) {
    std::vector<size_t> owners;
    for (const OwnedPart &part : parts)
      owners.push_back(part.owner);
    return owners;
  };
  EXPECT_EQ(ownersOf(reduction.parts), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(function.buffers[reduction.parts[0].buffer].offset, 64);
  EXPECT_EQ(function.steps[1].owner, std::optional<size_t>(1));
  EXPECT_EQ(function.steps[2].owner, std::nullopt);
  const auto &gather = std::get<AllGatherStep>(function.steps[3].op);
  EXPECT_EQ(ownersOf(gather.parts), (std::vector<size_t>{1, 0}));
  EXPECT_EQ(function.buffers[gather.parts[0].buffer].space, Space::State);
  EXPECT_EQ(function.buffers[gather.parts[0].buffer].index, 1u);
}

TEST_F(PlanToJSONTest, ScratchMemoryArrives) {
  auto plan = parse(R"(
    plan.program @f attributes {arena_bytes = 262144 : i64} {
      %x = plan.arena at 0 : memref<64x512xf32>
      %y = plan.arena at 131072 : memref<64x512xf32>
      plan.launch @kernel ins(%x : memref<64x512xf32>) outs(%y : memref<64x512xf32>)
        extent 64 grain 32 {scratch_bytes = 2048 : i64}
    }
    func.func private @kernel(%x: tensor<64x512xf32>) -> tensor<64x512xf32> attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %e = mpc.exp %x : (tensor<64x512xf32>) -> tensor<64x512xf32>
      %s = mpc.reduce_sum %e {axes = array<i64: 1>, keepdims = true} : (tensor<64x512xf32>) -> tensor<64x1xf32>
      %y = mpc.div %e, %s : (tensor<64x512xf32>, tensor<64x1xf32>) -> tensor<64x512xf32>
      return %y : tensor<64x512xf32>
    }
  )");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &step = plan->findFunction("f")->steps.front();
  EXPECT_EQ(std::get<mpc::runtime::LaunchStep>(step.op).scratchBytes, 2048);
  EXPECT_EQ(plan->kernels.at("kernel").scratchBytes, 2048);
}

TEST_F(PlanToJSONTest, WhatGPUsHaveArrives) {
  auto plan = parse(R"(
    plan.program @f attributes {arena_bytes = 69632 : i64} {
      %x = plan.input "x" role data : memref<4x6xbf16>
      %w = plan.input "w" role data : memref<6x8xbf16>
      %y = plan.arena at 0 : memref<4x8xf32>
      %s = plan.arena at 256 : memref<8xf32>
      %m = plan.arena at 512 : memref<4x16xui8>
      plan.matmul %x, %w into %y : memref<4x8xf32> fused drelu_bgrad
        aux(%m : memref<4x16xui8>) bias_grad(%s : memref<8xf32>)
        shape <m = 4, n = 8, k = 6, lda = 6, ldb = 8, ldc = 8>
        axes <> {alpha = 1.0 : f64} : memref<4x6xbf16>, memref<6x8xbf16>
      %a = plan.input "a" role data : memref<128x64xbf16>
      %b = plan.input "b" role data : memref<64x128xbf16>
      %p = plan.arena at 4096 : memref<128x128xf32>
      plan.launch @kernel ins(%a, %b : memref<128x64xbf16>, memref<64x128xbf16>)
        outs(%p : memref<128x128xf32>)
        extent 8 grain 1 threads 64 {shared_bytes = 12288 : i64}
      %f = plan.arena at 1024 : memref<2x1x1x8xf32>
      %v = plan.view %y : memref<4x8xf32> to memref<1x2x2x8xf32>
      %z = plan.arena at 2048 : memref<1x2x2x2xf32>
      plan.conv forward x(%v : memref<1x2x2x8xf32>) w(%f : memref<2x1x1x8xf32>)
        y(%z : memref<1x2x2x2xf32>) {batch = 1 : i64, groups = 1 : i64,
        in_channels = 8 : i64, out_channels = 2 : i64,
        in_spatial = array<i64: 2, 2>, out_spatial = array<i64: 2, 2>,
        kernel = array<i64: 1, 1>, strides = array<i64: 1, 1>,
        dilations = array<i64: 1, 1>, pads_begin = array<i64: 0, 0>,
        pads_end = array<i64: 0, 0>, filter_layout = #mpc.filter_layout<OHWI>, compute = #plan.compute<tf32>}
    }
    func.func private @kernel(%a: tensor<128x64xbf16>, %b: tensor<64x128xbf16>) -> tensor<128x128xf32> attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %y = mpc.matmul %a, %b : (tensor<128x64xbf16>, tensor<64x128xbf16>) -> tensor<128x128xf32>
      return %y : tensor<128x128xf32>
    }
  )",
                    "nvptx64-nvidia-cuda");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &steps = plan->findFunction("f")->steps;
  const auto &matmul = std::get<mpc::runtime::MatMulStep>(steps[0].op);
  ASSERT_TRUE(matmul.fused.has_value());
  EXPECT_EQ(matmul.fused->kind, mpc::runtime::FusedKind::DReluBGrad);
  EXPECT_EQ(matmul.fused->aux, 4u);
  EXPECT_EQ(matmul.fused->biasGrad, 3u);
  const auto &launch = std::get<mpc::runtime::LaunchStep>(steps[1].op);
  EXPECT_EQ(launch.threads, 64);
  EXPECT_EQ(launch.sharedBytes, 12288);
  const auto &conv = std::get<mpc::runtime::ConvStep>(steps[2].op);
  EXPECT_EQ(conv.filterLayout, mpc::runtime::FilterLayout::OHWI);
  EXPECT_EQ(conv.compute, mpc::runtime::Compute::TF32);
}

TEST_F(PlanToJSONTest, OffsetsMustBeAssigned) {
  ScopedDiagnosticHandler quiet(&context,
                                [](Diagnostic &) { return success(); });
  auto plan = parse(R"(
    plan.program @f {
      %a = plan.arena : memref<8xf32>
      plan.output "y" role output %a : memref<8xf32>
    }
  )");
  EXPECT_FALSE(plan.ok());
}
