// Prints, parses and hashes the records (structs) of runtime/PlanSchema.h, for
// attributes that hold a record. Fields with their default value are not
// printed:
//
//  #plan.product_shape<m = 32, n = 10, k = 64, trans_b = true, lda = 64, ...>
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_RECORDS_H
#define MPC_COMPILER_DIALECT_PLAN_RECORDS_H

#include "runtime/PlanSchema.h"

#include "mlir/IR/OpImplementation.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

namespace mpc::runtime {

/// Hashes a record. MLIR needs the hash to store each distinct attribute once
/// per context.
template <typename Record>
std::enable_if_t<IsRecord<Record>::value, llvm::hash_code>
hash_value(const Record &record) {
  llvm::hash_code code(0);
  visitFields<Record>([&](const Field &, auto member) {
    const auto &value = record.*member;
    if constexpr (IsList<std::decay_t<decltype(value)>>::value)
      code = llvm::hash_combine(code, llvm::hash_combine_range(value));
    else
      code = llvm::hash_combine(code, value);
  });
  return code;
}

template <typename Record>
std::enable_if_t<IsRecord<Record>::value, llvm::raw_ostream &>
operator<<(llvm::raw_ostream &os, const Record &record) {
  const Record initial{};
  llvm::ListSeparator separator;
  os << '<';
  visitFields<Record>([&](const Field &field, auto member) {
    const auto &value = record.*member;
    using T = std::decay_t<decltype(value)>;
    if (value == initial.*member)
      return;
    os << separator << field.key << " = ";
    if constexpr (IsList<T>::value) {
      os << '[';
      llvm::interleaveComma(value, os);
      os << ']';
    } else if constexpr (std::is_same_v<T, bool>) {
      os << (value ? "true" : "false");
    } else {
      os << value;
    }
  });
  return os << '>';
}

} // namespace mpc::runtime

namespace mpc::plan {

template <typename Record>
mlir::ParseResult parseRecord(mlir::AsmParser &parser, Record &record);

inline mlir::ParseResult parseField(mlir::AsmParser &parser, int64_t &value) {
  return parser.parseInteger(value);
}

inline mlir::ParseResult parseField(mlir::AsmParser &parser, bool &value) {
  value = succeeded(parser.parseOptionalKeyword("true"));
  return value ? mlir::success() : parser.parseKeyword("false");
}

inline mlir::ParseResult parseField(mlir::AsmParser &parser,
                                    std::vector<int64_t> &values) {
  return parser.parseCommaSeparatedList(
      mlir::AsmParser::Delimiter::Square,
      [&] { return parser.parseInteger(values.emplace_back()); });
}

template <typename Record>
std::enable_if_t<runtime::IsRecord<Record>::value, mlir::ParseResult>
parseField(mlir::AsmParser &parser, Record &record) {
  return parseRecord(parser, record);
}

/// Parses `<key = value, ...>` in any order. A missing key keeps the default of
/// the field; an unknown or repeated key is an error.
template <typename Record>
mlir::ParseResult parseRecord(mlir::AsmParser &parser, Record &record) {
  llvm::SmallSet<llvm::StringRef, 16> seen;
  return parser.parseCommaSeparatedList(
      mlir::AsmParser::Delimiter::LessGreater, [&]() -> mlir::ParseResult {
        llvm::StringRef key;
        llvm::SMLoc location = parser.getCurrentLocation();
        if (parser.parseKeyword(&key) || parser.parseEqual())
          return mlir::failure();
        if (!seen.insert(key).second)
          return parser.emitError(location, "field '") << key << "' twice";
        std::optional<mlir::ParseResult> parsed;
        runtime::visitFields<Record>(
            [&](const runtime::Field &field, auto member) {
              if (key == field.key)
                parsed = parseField(parser, record.*member);
            });
        if (!parsed)
          return parser.emitError(location, "unknown field '") << key << "'";
        return *parsed;
      });
}

} // namespace mpc::plan

namespace mlir {

template <typename Record>
struct FieldParser<
    Record, std::enable_if_t<mpc::runtime::IsRecord<Record>::value, Record>> {
  static FailureOr<Record> parse(AsmParser &parser) {
    Record record;
    if (failed(mpc::plan::parseRecord(parser, record)))
      return failure();
    return record;
  }
};

} // namespace mlir

#endif // MPC_COMPILER_DIALECT_PLAN_RECORDS_H
