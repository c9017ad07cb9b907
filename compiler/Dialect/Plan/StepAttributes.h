// Copies the attributes of a plan op into a record (struct) of
// runtime/PlanSchema.h whose fields have the same names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_STEPATTRIBUTES_H
#define MPC_COMPILER_DIALECT_PLAN_STEPATTRIBUTES_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc::plan {

/// Maps an enumeration of runtime/Names.h to the attribute class that holds it.
template <typename Enum>
struct AttrOf;
template <>
struct AttrOf<Compute> {
  using Type = ComputeAttr;
};
template <>
struct AttrOf<ConvKind> {
  using Type = ConvKindAttr;
};
template <>
struct AttrOf<AttentionKind> {
  using Type = AttentionKindAttr;
};
template <>
struct AttrOf<FusedKind> {
  using Type = FusedKindAttr;
};
template <>
struct AttrOf<Reduce> {
  using Type = ReduceAttr;
};
template <>
struct AttrOf<FilterLayout> {
  using Type = FilterLayoutAttr;
};

/// Sets each field of `record` whose name is an attribute of `op`. An optional
/// record whose fields are inlined is set if `op` has the attribute named after
/// the record's key. The caller sets buffers, lists of steps and nested
/// records, because they are no attributes.
template <typename Record>
void readAttributes(mlir::Operation *op, Record &record) {
  runtime::visitFields<Record>([&](const runtime::Field &field, auto member) {
    auto &value = record.*member;
    using T = std::decay_t<decltype(value)>;
    mlir::Attribute attribute = op->getAttr(field.key);
    if (!attribute)
      return;
    if constexpr (std::is_same_v<T, int64_t>) {
      value = llvm::cast<mlir::IntegerAttr>(attribute).getInt();
    } else if constexpr (std::is_same_v<T, bool>) {
      value = llvm::cast<mlir::BoolAttr>(attribute).getValue();
    } else if constexpr (std::is_same_v<T, double>) {
      value = llvm::cast<mlir::FloatAttr>(attribute).getValueAsDouble();
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = llvm::cast<mlir::FlatSymbolRefAttr>(attribute).getValue().str();
    } else if constexpr (std::is_same_v<T, std::vector<int64_t>>) {
      llvm::append_range(
          value, llvm::cast<mlir::DenseI64ArrayAttr>(attribute).asArrayRef());
    } else if constexpr (std::is_enum_v<T>) {
      value = llvm::cast<typename AttrOf<T>::Type>(attribute).getValue();
    } else if constexpr (std::is_same_v<T, std::optional<int64_t>>) {
      value = llvm::cast<mlir::IntegerAttr>(attribute).getInt();
    } else if constexpr (runtime::IsOptional<T>::value) {
      if constexpr (runtime::IsRecord<typename T::value_type>::value)
        if (field.presence == runtime::Presence::Inlined)
          readAttributes(op, value.emplace());
    }
  });
}

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_STEPATTRIBUTES_H
