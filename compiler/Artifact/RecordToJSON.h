// Writes the structs (records) of runtime/PlanSchema.h as JSON, driven by their
// lists of fields.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_RECORDTOJSON_H
#define MPC_COMPILER_ARTIFACT_RECORDTOJSON_H

#include "runtime/PlanSchema.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/JSON.h"

namespace mpc {

/// Returns the JSON of the next list of steps inside a step, such as a loop's
/// body; nullopt for an optional list that is empty. addFields calls this once
/// for each field that is a list of steps, in the order of the fields.
using NextSteps = llvm::function_ref<std::optional<llvm::json::Array>()>;

/// The NextSteps of records without lists of steps.
inline std::optional<llvm::json::Array> noSteps() { return std::nullopt; }

template <typename Record>
void addFields(llvm::json::Object &object, const Record &record,
               NextSteps nextSteps);

/// Returns the JSON of a field's value: an enumeration as its word, a list as
/// an array, a record as an object.
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

/// Adds the fields of `record` to `object`. Leaves out optional fields that
/// have their default value, to keep plans short.
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
