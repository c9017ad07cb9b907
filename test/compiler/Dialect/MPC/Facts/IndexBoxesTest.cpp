// Tests that boxes of indices are traced to the values that they were moved
// from.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {

using Ints = SmallVector<int64_t>;

/// A box as text, for comparisons: "0,0:1,8<20" is [0, 0] to [1, 8] of 20.
std::string spell(const IndexBox &box) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleave(box.begin, os, ",");
  os << ':';
  llvm::interleave(box.end, os, ",");
  os << '<' << box.size;
  return text;
}

class IndexBoxes : public testing::Test {
protected:
  IndexBoxes() { context.loadDialect<MPCDialect, func::FuncDialect>(); }

  /// The sources of the elements of `box` in the result of the op. The op is
  /// text and reads the arguments %x and %y.
  std::vector<std::string> follow(StringRef arguments, StringRef op,
                                  const IndexBox &box) {
    const std::string text =
        ("func.func @f(" + arguments + ") { %r = " + op + " return }").str();
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    std::vector<std::string> found;
    module->walk([&](Operation *op) {
      if (op->getNumResults() == 1)
        for (const auto &[operand, origin] :
             findOrigins(op, box).value_or(IndexOrigins()))
          found.push_back(spell(origin));
    });
    return found;
  }

  MLIRContext context;
};

using Found = std::vector<std::string>;

TEST_F(IndexBoxes, AReshapeKeepsWhatIsABoxOfBothShapes) {
  const char *type = "%x: tensor<3x4x2xi64>";
  const char *flat = "mpc.reshape %x : (tensor<3x4x2xi64>) -> tensor<24xi64>";
  EXPECT_EQ(follow(type, flat, {{8}, {16}, 20}), Found{"1,0,0:2,4,2<20"});
  EXPECT_EQ(follow(type, flat, {{10}, {14}, 20}), Found{"1,1,0:2,3,2<20"});
  EXPECT_EQ(follow(type, flat, {{11}, {12}, 20}), Found{"1,1,1:2,2,2<20"});
  EXPECT_EQ(follow(type, flat, {{11}, {13}, 20}), Found{});
  EXPECT_EQ(follow(type, flat, {{0}, {0}, 20}), Found{});
}

TEST_F(IndexBoxes, AReshapeKeepsTheAxesOutsideOfIt) {
  EXPECT_EQ(follow("%x: tensor<8x2x3x5xi64>",
                   "mpc.reshape %x : (tensor<8x2x3x5xi64>) -> "
                   "tensor<8x6x5xi64>",
                   {{2, 3, 4}, {7, 6, 5}, 9}),
            Found{"2,1,0,4:7,2,3,5<9"});
  EXPECT_EQ(follow("%x: tensor<8x5xi64>",
                   "mpc.reshape %x : (tensor<8x5xi64>) -> tensor<8x1x5xi64>",
                   {{0, 0, 3}, {8, 1, 4}, 9}),
            Found{"0,3:8,4<9"});
}

TEST_F(IndexBoxes, ASliceMovesThem) {
  EXPECT_EQ(follow("%x: tensor<8x26xi64>",
                   "mpc.slice %x {offsets = array<i64: 0, 7>, sizes = "
                   "array<i64: 8, 2>} : (tensor<8x26xi64>) -> tensor<8x2xi64>",
                   createWholeBox({8, 2}, 30)),
            Found{"0,7:8,9<30"});
  EXPECT_EQ(follow("%x: tensor<9xi64>",
                   "mpc.slice %x {offsets = array<i64: 8>, sizes = array<i64: "
                   "6>, strides = array<i64: -1>} : (tensor<9xi64>) -> "
                   "tensor<6xi64>",
                   {{1}, {3}, 30}),
            Found{"6:8<30"});
  const char *everySecond =
      "mpc.slice %x {offsets = array<i64: 1>, sizes = array<i64: 4>, strides = "
      "array<i64: 2>} : (tensor<9xi64>) -> tensor<4xi64>";
  EXPECT_EQ(follow("%x: tensor<9xi64>", everySecond, {{2}, {3}, 30}),
            Found{"5:6<30"});
  EXPECT_EQ(follow("%x: tensor<9xi64>", everySecond, {{0}, {4}, 30}), Found{});
}

TEST_F(IndexBoxes, TransposeExpandAndConcatMoveThem) {
  EXPECT_EQ(follow("%x: tensor<2x3x4xi64>",
                   "mpc.transpose %x {perm = array<i64: 2, 0, 1>} : "
                   "(tensor<2x3x4xi64>) -> tensor<4x2x3xi64>",
                   {{1, 0, 2}, {2, 2, 3}, 5}),
            Found{"0,2,1:2,3,2<5"});
  EXPECT_EQ(follow("%x: tensor<3x1xi64>",
                   "mpc.expand %x : (tensor<3x1xi64>) -> tensor<2x3x4xi64>",
                   {{0, 1, 2}, {1, 2, 4}, 5}),
            Found{"1,0:2,1<5"});
  EXPECT_EQ(follow("%x: tensor<2x3xi64>, %y: tensor<2x4xi64>",
                   "mpc.concat %x, %y {axis = 1 : i64} : (tensor<2x3xi64>, "
                   "tensor<2x4xi64>) -> tensor<2x7xi64>",
                   {{0, 2}, {2, 5}, 5}),
            (Found{"0,2:2,3<5", "0,0:2,2<5"}));
}

TEST_F(IndexBoxes, OnlyACastThatKeepsEveryValueIsFollowed) {
  EXPECT_EQ(follow("%x: tensor<3xi32>",
                   "mpc.cast %x : (tensor<3xi32>) -> tensor<3xi64>",
                   createWholeBox({3}, 5)),
            Found{"0:3<5"});
  EXPECT_EQ(follow("%x: tensor<3xi64>",
                   "mpc.cast %x : (tensor<3xi64>) -> tensor<3xi32>",
                   createWholeBox({3}, 5)),
            Found{});
}

TEST_F(IndexBoxes, SamplesInARowMakeOneBox) {
  Builder builder(&context);
  ArrayAttr list;
  for (int64_t i = 0; i < 4; ++i)
    list = addBox(list, {{0, i}, {1, i + 1}, 20}, builder);
  list = addBox(list, {{0, 0}, {1, 4}, 20}, builder); // the same box again
  list = addBox(list, {{1, 0}, {2, 4}, 30}, builder); // another table
  list = addBox(list, {{2, 0}, {3, 2}, 30}, builder); // not adjacent
  Found found;
  for (const IndexBox &box : getBoxes(list))
    found.push_back(spell(box));
  EXPECT_EQ(found, (Found{"0,0:1,4<20", "1,0:2,4<30", "2,0:3,2<30"}));
  EXPECT_TRUE(
      isIndices(list, RankedTensorType::get({3, 4}, builder.getI64Type())));
  EXPECT_FALSE(
      isIndices(list, RankedTensorType::get({2, 4}, builder.getI64Type())));
  EXPECT_FALSE(
      isIndices(list, RankedTensorType::get({3, 4}, builder.getF32Type())));
}

} // namespace
