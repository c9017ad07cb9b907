// Tests the value ranges that ops infer.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RangeOpInterface.h"
#include "test/compiler/OneOp.h"

#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Ends = std::pair<double, double>;
using Integers = std::pair<int64_t, int64_t>;

std::string unary(const std::string &op) {
  return "%r = mpc." + op + " : (tensor<8xf32>) -> tensor<8xf32>";
}

std::string binary(const std::string &op, const std::string &type = "f32") {
  std::string tensor = "tensor<8x" + type + ">";
  return "%r = mpc." + op + " %x, %y : (" + tensor + ", " + tensor + ") -> " +
         tensor;
}

const std::string kFloats = "%x: tensor<8xf32>, %y: tensor<8xf32>";
const std::string kIntegers = "%x: tensor<8xi64>, %y: tensor<8xi64>";

Ends inferFloats(const std::string &op, ArrayRef<Bounds> in) {
  std::optional<Bounds> range = inferRange(OneOp(kFloats, op).get(), in);
  return range ? Ends(range->low, range->high) : Ends(NAN, NAN);
}

std::optional<Integers>
inferIntegers(const std::string &op, ArrayRef<IntegerRange> in,
              const std::string &arguments = kIntegers) {
  OneOp parsed(arguments, op);
  auto find = [&](unsigned operand) { return in[operand]; };
  std::optional<IntegerRange> range = inferIntegerRange(parsed.get(), find);
  if (!range)
    return std::nullopt;
  return Integers(range->low, range->high);
}
} // namespace

TEST(RangesTest, ArithmeticHasItsExtremesAtTheEndsOfItsOperands) {
  Bounds x{-2, 3}, y{-4, 5}, above{2, 4};
  EXPECT_EQ(inferFloats(binary("add"), {x, y}), Ends(-6, 8));
  EXPECT_EQ(inferFloats(binary("sub"), {x, y}), Ends(-7, 7));
  EXPECT_EQ(inferFloats(binary("mul"), {x, y}), Ends(-12, 15));
  EXPECT_EQ(inferFloats(binary("div"), {x, above}), Ends(-1, 1.5));
  // A divisor around 0 counts as a divisor of its largest magnitude.
  EXPECT_EQ(inferFloats(binary("div"), {x, {-4, 1}}), Ends(-0.75, 0.75));
  EXPECT_EQ(inferFloats(binary("maximum"), {x, above}), Ends(2, 4));
  EXPECT_EQ(inferFloats(binary("minimum"), {x, above}), Ends(-2, 3));
}

TEST(RangesTest, FunctionsOfOneOperand) {
  Bounds x{-2, 3};
  EXPECT_EQ(inferFloats(unary("neg %x"), {x}), Ends(-3, 2));
  EXPECT_EQ(inferFloats(unary("abs %x"), {x}), Ends(0, 3));
  EXPECT_EQ(inferFloats(unary("abs %x"), {{-3, -2}}), Ends(2, 3));
  EXPECT_EQ(inferFloats(unary("relu %x"), {x}), Ends(0, 3));
  EXPECT_EQ(inferFloats(unary("clip %x {max = 1.0 : f64}"), {x}), Ends(-2, 1));
  // Other functions infer no range.
  EXPECT_TRUE(std::isnan(inferFloats(unary("exp %x"), {x}).first));
}

TEST(RangesTest, MovedElementsStayWhatTheyAre) {
  std::string concat = "%r = mpc.concat %x, %y {axis = 0 : i64} : "
                       "(tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>";
  EXPECT_EQ(inferFloats(concat, {{-2, 3}, {1, 7}}), Ends(-2, 7));
  std::string view = "%r = mpc.reshape %x : (tensor<8xf32>) -> tensor<2x4xf32>";
  EXPECT_EQ(inferFloats(view, {{-2, 3}}), Ends(-2, 3));
  std::string expand =
      "%r = mpc.expand %x : (tensor<8xf32>) -> tensor<2x8xf32>";
  EXPECT_EQ(inferFloats(expand, {{-2, 3}}), Ends(-2, 3));
  std::string max = "%r = mpc.reduce_max %x {axes = array<i64: 0>} : "
                    "(tensor<8xf32>) -> tensor<f32>";
  EXPECT_EQ(inferFloats(max, {{-2, 3}}), Ends(-2, 3));
  std::string sum = "%r = mpc.reduce_sum %x {axes = array<i64: 0>} : "
                    "(tensor<8xf32>) -> tensor<f32>";
  EXPECT_TRUE(std::isnan(inferFloats(sum, {{-2, 3}}).first));
}

TEST(RangesTest, RowsThatAreLookedUpStayWhatTheyAre) {
  OneOp gather("%x: tensor<8xf32>, %i: tensor<4xi64>",
               "%r = mpc.gather %x, %i {axis = 0 : i64} : (tensor<8xf32>, "
               "tensor<4xi64>) -> tensor<4xf32>");
  // An index out of range gives 0.
  std::optional<Bounds> range = inferRange(gather.get(), {Bounds{4, 7}});
  ASSERT_TRUE(range);
  EXPECT_EQ(Ends(range->low, range->high), Ends(0, 7));
  EXPECT_EQ(listHandedOn(gather.get()).size(), 1u);
}

TEST(RangesTest, BordersCount) {
  auto pad = [](const std::string &value) {
    return "%r = mpc.pad %x {offsets = array<i64: 1>, shape = array<i64: 9>, "
           "value = " +
           value + " : f64} : (tensor<8xf32>) -> tensor<9xf32>";
  };
  EXPECT_EQ(inferFloats(pad("-9.0"), {{-2, 3}}), Ends(-9, 3));
  EXPECT_TRUE(holdsConstant(OneOp(kFloats, pad("-9.0")).get()));
  EXPECT_FALSE(holdsConstant(OneOp(kFloats, pad("0.0")).get()));
  EXPECT_FALSE(holdsConstant(OneOp(kFloats, unary("exp %x")).get()));
}

TEST(RangesTest, IntegersThatLeave64BitsHaveNoRange) {
  IntegerRange x{-2, 3}, y{-4, 5}, all{INT64_MIN, INT64_MAX};
  EXPECT_EQ(inferIntegers(binary("add", "i64"), {x, y}), Integers(-6, 8));
  EXPECT_EQ(inferIntegers(binary("sub", "i64"), {x, y}), Integers(-7, 7));
  EXPECT_EQ(inferIntegers(binary("mul", "i64"), {x, y}), Integers(-12, 15));
  EXPECT_EQ(inferIntegers(binary("maximum", "i64"), {x, y}), Integers(-2, 5));
  EXPECT_EQ(inferIntegers(binary("minimum", "i64"), {x, y}), Integers(-4, 3));
  EXPECT_EQ(inferIntegers(binary("add", "i64"), {x, all}), std::nullopt);
  EXPECT_EQ(inferIntegers(binary("sub", "i64"), {x, all}), std::nullopt);
  EXPECT_EQ(inferIntegers(binary("mul", "i64"), {x, all}), std::nullopt);
}

TEST(RangesTest, RemaindersAreBelowTheDivisor) {
  IntegerRange any{-100, 100}, notBelow{0, 100}, divisor{3, 8};
  EXPECT_EQ(inferIntegers(binary("mod", "i64"), {any, divisor}),
            Integers(0, 7));
  EXPECT_EQ(inferIntegers(binary("mod", "i64"), {any, {0, 8}}), std::nullopt);
  std::string withSign = "%r = mpc.mod %x, %y {fmod = true} : (tensor<8xi64>, "
                         "tensor<8xi64>) -> tensor<8xi64>";
  EXPECT_EQ(inferIntegers(withSign, {any, divisor}), Integers(-7, 7));
  EXPECT_EQ(inferIntegers(withSign, {notBelow, divisor}), Integers(0, 7));
}

TEST(RangesTest, SumsAreOfAsManyElementsAsAreAdded) {
  std::string x = "%x: tensor<4x3xi64>";
  std::string sum = "%r = mpc.reduce_sum %x {axes = array<i64: 0>} : "
                    "(tensor<4x3xi64>) -> tensor<3xi64>";
  EXPECT_EQ(inferIntegers(sum, {{2, 9}}, x), Integers(0, 36));
  EXPECT_EQ(inferIntegers(sum, {{-1, INT64_MAX}}, x), std::nullopt);
  std::string running = "%r = mpc.cumsum %x {axis = 1 : i64} : "
                        "(tensor<4x3xi64>) -> tensor<4x3xi64>";
  EXPECT_EQ(inferIntegers(running, {{-1, 1}}, x), Integers(-12, 12));
}

TEST(RangesTest, ChosenAndConvertedIntegers) {
  std::string select =
      "%r = mpc.select %c, %x, %y : (tensor<8xi1>, tensor<8xi64>, "
      "tensor<8xi64>) -> tensor<8xi64>";
  EXPECT_EQ(inferIntegers(select, {{0, 1}, {-2, 3}, {7, 9}},
                          "%c: tensor<8xi1>, " + kIntegers),
            Integers(-2, 9));
  // An index out of range gives 0.
  std::string gather =
      "%r = mpc.gather %x, %y {axis = 0 : i64} : (tensor<8xi64>, "
      "tensor<8xi64>) -> tensor<8xi64>";
  EXPECT_EQ(inferIntegers(gather, {{4, 7}, {0, 9}}), Integers(0, 7));
  std::string cast = "%r = mpc.cast %x : (tensor<8xi64>) -> tensor<8xi32>";
  EXPECT_EQ(inferIntegers(cast, {{4, 7}}), Integers(4, 7));
  // Casts from floats have no range.
  std::string truncate = "%r = mpc.cast %x : (tensor<8xf32>) -> tensor<8xi64>";
  EXPECT_EQ(inferIntegers(truncate, {{4, 7}}, kFloats), std::nullopt);
}

TEST(RangesTest, FunctionsThatAreFlatAtBothEnds) {
  auto find = [](const std::string &op) -> std::optional<Ends> {
    OneOp parsed(kFloats, unary(op));
    std::optional<Bounds> ends = getSaturation(parsed->getResult(0));
    return ends ? std::optional(Ends(ends->low, ends->high)) : std::nullopt;
  };
  for (const char *op :
       {"tanh %x", "erf %x", "cos %x", "sin %x", "softsign %x"})
    EXPECT_EQ(find(op), Ends(-1, 1)) << op;
  for (const char *op :
       {"sigmoid %x", "hard_sigmoid %x", "softmax %x {axis = 0 : i64}"})
    EXPECT_EQ(find(op), Ends(0, 1)) << op;
  EXPECT_EQ(find("exp %x"), std::nullopt);
  EXPECT_EQ(find("softplus %x"), std::nullopt);
  // A function bounded only at one end, below 0.
  EXPECT_EQ(find("elu %x"), Ends(-1, INFINITY));
  EXPECT_EQ(find("elu %x {alpha = 0.5 : f64}"), Ends(-0.5, INFINITY));
  EXPECT_EQ(find("celu %x {alpha = 2.0 : f64}"), Ends(-2, INFINITY));
  EXPECT_EQ(find("selu %x {alpha = 2.0 : f64, gamma = 0.5 : f64}"),
            Ends(-1, INFINITY));
  // Also through a reshape.
  EXPECT_EQ(find("tanh %x : (tensor<8xf32>) -> tensor<8xf32>\n"
                 "%m = mpc.slice %r {offsets = array<i64: 0>, sizes = "
                 "array<i64: 8>}"),
            Ends(-1, 1));
}

TEST(RangesTest, WhatIsHandedOn) {
  auto count = [](const std::string &op) {
    return listHandedOn(OneOp(kFloats, op).get()).size();
  };
  EXPECT_EQ(count(unary("neg %x")), 1u);
  EXPECT_EQ(count(unary("exp %x")), 0u);
  EXPECT_EQ(count(binary("maximum")), 2u);
  EXPECT_EQ(count(binary("pow")), 1u);
  EXPECT_EQ(count("%r = mpc.reshape %x : (tensor<8xf32>) -> tensor<2x4xf32>"),
            1u);
  EXPECT_EQ(count("%r = mpc.expand %x : (tensor<8xf32>) -> tensor<2x8xf32>"),
            1u);
  EXPECT_EQ(count("%r = mpc.concat %x, %y {axis = 0 : i64} : (tensor<8xf32>, "
                  "tensor<8xf32>) -> tensor<16xf32>"),
            2u);
  EXPECT_EQ(count("%c = mpc.less %x, %y : (tensor<8xf32>, tensor<8xf32>) -> "
                  "tensor<8xi1>\n"
                  "%r = mpc.select %c, %x, %y : (tensor<8xi1>, tensor<8xf32>, "
                  "tensor<8xf32>) -> tensor<8xf32>"),
            2u);
  // A square passes its factor on. Other products pass on factors that
  // accumulate at 1.
  EXPECT_EQ(count("%r = mpc.mul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> "
                  "tensor<8xf32>"),
            2u);
  EXPECT_EQ(count(binary("mul")), 0u);
  EXPECT_EQ(count("%t = mpc.tanh %x : (tensor<8xf32>) -> tensor<8xf32>\n"
                  "%r = mpc.mul %t, %y : (tensor<8xf32>, tensor<8xf32>) -> "
                  "tensor<8xf32>"),
            1u);
}

TEST(RangesTest, TheLargestIsOneOfTheElements) {
  auto chooses = [](const std::string &name) {
    OneOp op(kFloats, "%r = mpc." + name +
                          " %x {axes = array<i64: 0>} : (tensor<8xf32>) -> "
                          "tensor<f32>");
    return cast<ReductionOpInterface>(op.get()).choosesElement();
  };
  EXPECT_TRUE(chooses("reduce_max"));
  EXPECT_FALSE(chooses("reduce_sum"));
}
