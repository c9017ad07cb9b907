// The ops of the plan dialect have the attributes that runtime/PlanSchema.def
// states, and no others but those that are listed here.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/StepAttributes.h"

#include "mlir/AsmParser/AsmParser.h"

#include <gtest/gtest.h>

#include <set>

using namespace mpc;

namespace {

using Keys = std::set<std::string>;

/// Adds the keys of the fields that readAttributes reads from an op.
template <typename Record>
void addKeys(Keys &keys) {
  runtime::visitFields<Record>([&](const runtime::Field &field, auto member) {
    using T = std::decay_t<decltype(std::declval<Record>().*member)>;
    if constexpr (runtime::IsOptional<T>::value &&
                  !std::is_same_v<T, std::optional<int64_t>>) {
      if constexpr (runtime::IsRecord<typename T::value_type>::value)
        if (field.presence == runtime::Presence::Inlined)
          addKeys<typename T::value_type>(keys);
    } else if constexpr (std::is_enum_v<T> || std::is_same_v<T, int64_t> ||
                         std::is_same_v<T, std::optional<int64_t>> ||
                         std::is_same_v<T, bool> || std::is_same_v<T, double> ||
                         std::is_same_v<T, std::string> ||
                         std::is_same_v<T, std::vector<int64_t>>) {
      keys.insert(field.key);
    }
  });
}

template <typename Record>
Keys keysOf() {
  Keys keys;
  addKeys<Record>(keys);
  return keys;
}

/// Returns the attributes of `OpTy`, without those in `others`, which must all
/// be there: the writer of artifacts sets their fields by name.
template <typename OpTy>
Keys attributesBut(const Keys &others) {
  Keys keys;
  for (llvm::StringRef name : OpTy::getAttributeNames())
    keys.insert(name.str());
  for (const std::string &other : others)
    EXPECT_EQ(keys.erase(other), 1u) << other;
  return keys;
}

TEST(StepAttributes, AreTheFieldsOfTheSchema) {
  using namespace mpc::plan;
  EXPECT_EQ(attributesBut<LaunchOp>({"operandSegmentSizes"}),
            keysOf<runtime::LaunchStep>());
  EXPECT_EQ(attributesBut<plan::ConvOp>({"operandSegmentSizes", "epilogue"}),
            keysOf<runtime::ConvStep>());
  EXPECT_EQ(attributesBut<CopyOp>({}), keysOf<runtime::CopyStep>());
  EXPECT_EQ(attributesBut<plan::CheckIndicesOp>({"indices"}),
            keysOf<runtime::CheckIndicesStep>());
  EXPECT_EQ(attributesBut<plan::AllReduceOp>({}),
            keysOf<runtime::AllReduceStep>());
  EXPECT_EQ(attributesBut<plan::IfOp>({}), keysOf<runtime::IfStep>());
  EXPECT_EQ(attributesBut<plan::ForOp>(
                {"parallel", "private_offset", "private_bytes"}),
            keysOf<runtime::ForStep>());
}

// The shape and the axes are attributes with fields of their own.
TEST(StepAttributes, ProductsHaveRecords) {
  Keys keys = keysOf<runtime::MatMulStep>();
  for (const Keys &own :
       {keysOf<runtime::ProductShape>(), keysOf<runtime::BatchAxes>()})
    for (const std::string &key : own)
      keys.erase(key);
  EXPECT_EQ(attributesBut<plan::MatMulOp>(
                {"operandSegmentSizes", "epilogue", "fused", "shape", "axes"}),
            keys);
}

TEST(StepAttributes, AttentionHasARecord) {
  Keys keys = keysOf<runtime::AttentionStep>();
  for (const std::string &key : keysOf<runtime::AttentionShape>())
    keys.erase(key);
  EXPECT_EQ(attributesBut<plan::AttentionOp>({"operandSegmentSizes", "shape"}),
            keys);
}

// A difference of a single field makes another attribute.
TEST(StepAttributes, RecordsAreUniquedByTheirFields) {
  mlir::MLIRContext context;
  context.loadDialect<plan::PlanDialect>();
  runtime::BatchAxes axes;
  axes.batch = 2;
  axes.outer = {{3}, {4}, {5}, {6}};
  auto first = plan::BatchAxesAttr::get(&context, axes);
  EXPECT_EQ(first, plan::BatchAxesAttr::get(&context, axes));
  axes.outer.c = {7};
  EXPECT_NE(first, plan::BatchAxesAttr::get(&context, axes));
  std::string text;
  llvm::raw_string_ostream(text) << first;
  EXPECT_EQ(text, "#plan.batch_axes<batch = 2, outer = <extents = [3], a = "
                  "[4], b = [5], c = [6]>>");
  EXPECT_EQ(mlir::parseAttribute(text, &context), first);
}

} // namespace
