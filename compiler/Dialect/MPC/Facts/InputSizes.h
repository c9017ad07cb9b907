// Records how large the values of each model input are in the training data.
//
// The attribute `mpc.input_sizes` of a module maps the ONNX name of an input to
// the root mean square and the largest absolute value of its elements. Later
// data may be larger, so the sizes support a precision decision, but prove
// nothing.
//
//  module attributes {mpc.input_sizes = {t = array<f64: 0.98, 4.1>}}
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_INPUTSIZES_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_INPUTSIZES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include <cmath>
#include <optional>

namespace mpc {

inline constexpr llvm::StringLiteral kInputSizesAttr = "mpc.input_sizes";

struct InputSize {
  double rms = 0, largest = 0;
};

/// True if `attribute` is a dictionary of arrays of two numbers, none negative:
/// {t = array<f64: 0.98, 4.1>}.
inline bool areInputSizes(mlir::Attribute attribute) {
  auto sizes = llvm::dyn_cast<mlir::DictionaryAttr>(attribute);
  return sizes && llvm::all_of(sizes, [](mlir::NamedAttribute each) {
           auto size = llvm::dyn_cast<mlir::DenseF64ArrayAttr>(each.getValue());
           return size && size.size() == 2 &&
                  llvm::all_of(size.asArrayRef(), [](double value) {
                    return std::isfinite(value) && value >= 0;
                  });
         });
}

/// Records the size of the input called `name`.
inline void setInputSize(mlir::ModuleOp module, llvm::StringRef name,
                         InputSize size) {
  auto former = module->getAttrOfType<mlir::DictionaryAttr>(kInputSizesAttr);
  mlir::NamedAttrList sizes(former);
  sizes.set(name, mlir::DenseF64ArrayAttr::get(module.getContext(),
                                               {size.rms, size.largest}));
  module->setAttr(kInputSizesAttr, sizes.getDictionary(module.getContext()));
}

/// Returns the recorded size of the input called `name`; nullopt if none.
inline std::optional<InputSize> findInputSize(mlir::ModuleOp module,
                                              llvm::StringRef name) {
  auto sizes = module->getAttrOfType<mlir::DictionaryAttr>(kInputSizesAttr);
  auto size = sizes ? sizes.getAs<mlir::DenseF64ArrayAttr>(name)
                    : mlir::DenseF64ArrayAttr();
  return size ? std::optional(InputSize{size[0], size[1]}) : std::nullopt;
}

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_INPUTSIZES_H
