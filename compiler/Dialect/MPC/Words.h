// Parses and prints enumerations of runtime/Names.h and MPCEnums.td as words in
// the IR: as parameters of attributes, and as words in the assembly of ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_WORDS_H
#define MPC_COMPILER_DIALECT_MPC_WORDS_H

#include "runtime/Names.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/OpImplementation.h"

#include <type_traits>

namespace mpc {

template <typename Enum, typename = void>
struct HasWords : std::false_type {};
template <typename Enum>
struct HasWords<Enum, std::void_t<decltype(Words<Enum>::list)>>
    : std::true_type {};

template <typename Enum>
std::enable_if_t<HasWords<Enum>::value, llvm::raw_ostream &>
operator<<(llvm::raw_ostream &os, Enum value) {
  return os << stringify(value);
}

/// Parses one word of an op's assembly into an enumeration attribute:
/// `pointwise` in `mpc.region pointwise`.
template <typename AttrT>
mlir::ParseResult parseWord(mlir::OpAsmParser &parser, AttrT &attribute) {
  using Enum = decltype(attribute.getValue());
  mlir::FailureOr<Enum> value = mlir::FieldParser<Enum>::parse(parser);
  if (failed(value))
    return mlir::failure();
  attribute = AttrT::get(parser.getContext(), *value);
  return mlir::success();
}

template <typename AttrT>
void printWord(mlir::OpAsmPrinter &printer, mlir::Operation *,
               AttrT attribute) {
  printer.getStream() << attribute.getValue();
}

} // namespace mpc

namespace mlir {

template <typename Enum>
struct FieldParser<Enum, std::enable_if_t<mpc::HasWords<Enum>::value, Enum>> {
  static FailureOr<Enum> parse(AsmParser &parser) {
    std::string word;
    SMLoc location = parser.getCurrentLocation();
    if (failed(parser.parseOptionalKeywordOrString(&word)))
      return parser.emitError(location, "expected a ")
             << mpc::Words<Enum>::kind;
    if (std::optional<Enum> value = mpc::symbolize<Enum>(word))
      return *value;
    auto error = parser.emitError(location, "unknown ")
                 << mpc::Words<Enum>::kind << " \"" << word
                 << "\", expected one of ";
    llvm::interleaveComma(mpc::Words<Enum>::list, error);
    return error;
  }
};

} // namespace mlir

#endif // MPC_COMPILER_DIALECT_MPC_WORDS_H
