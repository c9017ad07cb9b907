// Tests splitting large kernels into smaller kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/RegionSplit.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>
#include <random>

using namespace mlir;
using namespace mpc;

namespace {
class Model {
public:
  Model() : builder(&context) {
    context.loadDialect<MPCDialect, func::FuncDialect>();
    module = ModuleOp::create(builder.getUnknownLoc());
    builder.setInsertionPointToStart(module->getBody());
    auto function = func::FuncOp::create(builder, builder.getUnknownLoc(), "f",
                                         builder.getFunctionType({}, {}));
    block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
  }
  Value input(ArrayRef<int64_t> shape) {
    return block->addArgument(type(shape), builder.getUnknownLoc());
  }
  Value add(Value a, Value b) {
    return AddOp::create(builder, builder.getUnknownLoc(), type(shapeOf(a)), a,
                         b);
  }
  Value matmul(Value a, Value b) {
    return MatMulOp::create(builder, builder.getUnknownLoc(),
                            type({shapeOf(a)[0], shapeOf(b)[1]}), a, b, false,
                            false, APFloat(1.0));
  }
  Value maximum(Value x) {
    return ReduceMaxOp::create(builder, builder.getUnknownLoc(),
                               type({shapeOf(x)[0], 1}), x,
                               ArrayRef<int64_t>(1), /*keepdims=*/true);
  }
  void finish(ValueRange results) {
    func::ReturnOp::create(builder, builder.getUnknownLoc(), results);
  }

  Block *block;

private:
  RankedTensorType type(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }

  MLIRContext context;
  OpBuilder builder;
  OwningOpRef<ModuleOp> module;
};
} // namespace

// The number of buffers that a kernel reads and writes.
static size_t countBuffers(const KernelRegion &region) {
  llvm::SmallPtrSet<Operation *, 16> inside(region.ops.begin(),
                                            region.ops.end());
  llvm::DenseSet<Value> buffers;
  for (Operation *op : region.ops) {
    for (Value operand : op->getOperands())
      if (!inside.contains(operand.getDefiningOp()))
        buffers.insert(operand);
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(),
                       [&](Operation *user) { return !inside.contains(user); }))
        buffers.insert(result);
  }
  return buffers.size();
}

// Checks that all ops have a kernel within the limits, and that the kernels
// have an order.
static void check(Block &block, const RegionAnalysis &analysis) {
  size_t covered = 0;
  for (const KernelRegion &region : analysis.getRegions()) {
    EXPECT_LE(region.ops.size(), kMaxRegionOps);
    EXPECT_LE(countBuffers(region), kMaxRegionBuffers);
    EXPECT_TRUE(llvm::is_contained(region.ops, region.hero));
    covered += region.ops.size();
    for (Operation *op : region.ops) {
      EXPECT_EQ(analysis.getRegion(op), &region);
      if (region.kind == KernelKind::Pointwise) {
        EXPECT_EQ(shapeOf(op->getResult(0)), ArrayRef<int64_t>(region.space));
      }
    }
  }
  EXPECT_EQ(covered, block.getOperations().size() - 1);

  // Kernels become ready one after the other, producers first.
  llvm::DenseSet<const KernelRegion *> done;
  for (bool progress = true; progress;) {
    progress = false;
    for (const KernelRegion &region : analysis.getRegions()) {
      bool isReady = llvm::all_of(region.ops, [&](Operation *op) {
        return llvm::all_of(op->getOperands(), [&](Value operand) {
          Operation *producer = operand.getDefiningOp();
          const KernelRegion *source =
              producer ? analysis.getRegion(producer) : nullptr;
          return !source || source == &region || done.contains(source);
        });
      });
      progress |= isReady && done.insert(&region).second;
    }
  }
  EXPECT_EQ(done.size(), analysis.getRegions().size());
}

TEST(RegionSplit, LeavesSmallKernelsWhole) {
  Model model;
  Value x = model.matmul(model.input({8, 4}), model.input({4, 16}));
  for (int i = 0; i < 20; ++i)
    x = model.add(x, model.input({16}));
  model.finish({x});
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  EXPECT_EQ(analysis.getRegions().size(), 1u);
}

TEST(RegionSplit, DividesALongEpilogue) {
  Model model;
  Value x = model.matmul(model.input({8, 4}), model.input({4, 16}));
  for (int i = 0; i < 130; ++i)
    x = model.add(x, model.input({16}));
  model.finish({x});
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  ArrayRef<KernelRegion> regions = analysis.getRegions();
  ASSERT_EQ(regions.size(), 3u);
  EXPECT_EQ(regions[0].kind, KernelKind::Contraction);
  EXPECT_EQ(regions[1].kind, KernelKind::Pointwise);
}

// Each op has one buffer: buffers are the limit, not ops.
TEST(RegionSplit, CountsBuffers) {
  Model model;
  Value x = model.input({8, 16});
  SmallVector<Value> results;
  for (int i = 0; i < 60; ++i)
    results.push_back(x = model.add(x, model.input({16})));
  model.finish(results);
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  EXPECT_EQ(analysis.getRegions().size(), 2u);
}

// Three values pass between most ops, and one between two of them: the cut is
// there.
TEST(RegionSplit, CutsWhereTheLeastPasses) {
  Model model;
  Value x = model.input({8, 16});
  auto diamond = [&](int depth) {
    Value a = x, b = x, c = x;
    for (int i = 0; i < depth; ++i) {
      a = model.add(a, a);
      b = model.add(b, a);
      c = model.add(c, b);
    }
    x = model.add(model.add(a, b), c);
  };
  diamond(15); // 47 ops
  Operation *neck = x.getDefiningOp();
  diamond(15);
  model.finish({x});
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  ASSERT_EQ(analysis.getRegions().size(), 2u);
  EXPECT_EQ(analysis.getRegions()[0].ops.back(), neck);
}

// Casts of an epilogue's operands, all at the start of the program, stay with
// the op that reads them.
TEST(RegionSplit, KeepsProducersWithTheirReaders) {
  Model model;
  SmallVector<Value> rows;
  Value zero = model.input({8, 16});
  for (int i = 0; i < 80; ++i)
    rows.push_back(model.add(zero, model.input({8, 16})));
  Value x = model.matmul(model.input({8, 4}), model.input({4, 16}));
  for (Value row : rows)
    x = model.add(x, row);
  model.finish({x});
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  EXPECT_EQ(analysis.getRegions().size(), 3u);
  for (const KernelRegion &region : analysis.getRegions())
    EXPECT_LE(countBuffers(region), 40u);
}

TEST(RegionSplit, DividesKernelsOfRows) {
  Model model;
  Value x = model.input({8, 16}), row = model.maximum(x);
  for (int i = 0; i < 100; ++i) {
    row = model.add(row, row);
    x = model.add(x, row);
  }
  model.finish({x, model.maximum(x)});
  RegionAnalysis analysis(*model.block);
  check(*model.block, analysis);
  EXPECT_GE(analysis.getRegions().size(), 4u);
}

TEST(RegionSplit, KeepsRandomGraphsInOrder) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Model model;
    std::mt19937 random(seed);
    SmallVector<Value> full = {model.input({16, 16})};
    SmallVector<Value> rows = {model.input({16, 1})};
    auto pick = [&](ArrayRef<Value> list) {
      return list[list.size() - 1 -
                  random() % std::min<size_t>(list.size(), 9)];
    };
    for (int i = 0; i < 600; ++i) {
      switch (random() % 40) {
      case 0:
        full.push_back(model.matmul(pick(full), pick(full)));
        break;
      case 1:
        rows.push_back(model.maximum(pick(full)));
        break;
      case 2:
      case 3:
        rows.push_back(model.add(pick(rows), pick(rows)));
        break;
      case 4:
        full.push_back(model.input({16, 16}));
        break;
      default:
        full.push_back(
            model.add(pick(full), random() % 3 ? pick(full) : pick(rows)));
      }
    }
    model.finish({full.back(), rows.back()});
    check(*model.block, RegionAnalysis(*model.block));
  }
}
