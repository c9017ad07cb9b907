// Writes the records of runtime/PlanSchema.h as JSON, by their fields.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_RECORDTOJSON_H
#define MPC_COMPILER_ARTIFACT_RECORDTOJSON_H

#include "runtime/PlanSchema.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace mpc {

/// Returns the next list of steps inside a step; nullopt for an empty optional
/// list. Fields that are lists ask in their order.
using NextSteps = llvm::function_ref<std::optional<llvm::json::Array>()>;

/// For records without lists of steps.
inline std::optional<llvm::json::Array> noSteps() { return std::nullopt; }

template <typename Record>
void addFields(llvm::json::Object &object, const Record &record,
               NextSteps nextSteps);

/// Returns the JSON of the value of a field.
template <typename T>
llvm::json::Value valueToJSON(const T &value, NextSteps nextSteps) {
  if constexpr (std::is_enum_v<T>) {
    return llvm::StringRef(stringify(value));
  } else if constexpr (std::is_same_v<T, size_t>) {
    return static_cast<int64_t>(value);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return llvm::json::isUTF8(value) ? value : llvm::json::fixUTF8(value);
  } else if constexpr (runtime::IsList<T>::value) {
    llvm::json::Array array;
    for (const auto &element : value)
      array.push_back(valueToJSON(element, nextSteps));
    return array;
  } else if constexpr (runtime::IsRecord<T>::value) {
    llvm::json::Object object;
    addFields(object, value, nextSteps);
    return object;
  } else {
    return value;
  }
}

/// Adds the fields of `record` to `object`, without optional fields of the
/// default value: they would make plans longer.
template <typename Record>
void addFields(llvm::json::Object &object, const Record &record,
               NextSteps nextSteps) {
  const Record initial{};
  runtime::visitFields<Record>([&](const runtime::Field &field, auto member) {
    const auto &value = record.*member;
    using T = std::decay_t<decltype(value)>;
    if constexpr (runtime::isSteps<T>) {
      if (std::optional<llvm::json::Array> steps = nextSteps())
        object[field.key] = std::move(*steps);
    } else if constexpr (runtime::IsOptional<T>::value) {
      if constexpr (runtime::IsRecord<typename T::value_type>::value)
        if (value && field.presence == runtime::Presence::Inlined)
          return addFields(object, *value, nextSteps);
      if (value)
        object[field.key] = valueToJSON(*value, nextSteps);
      else if (field.presence == runtime::Presence::Nullable)
        object[field.key] = nullptr;
    } else if (field.presence == runtime::Presence::Required ||
               !(value == initial.*member)) {
      object[field.key] = valueToJSON(value, nextSteps);
    }
  });
}

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_RECORDTOJSON_H
