// Reads the shapes that a model declares for its inputs and outputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H
#define MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H

#include "frontends/ONNX/Import.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tools {

/// The type that a model declares for an input or output, like f32[N,1,8,8].
struct DeclaredShape {
  std::string name, type;
  /// The dimensions: a number, a symbol or "?" each; nullopt if the rank is
  /// open.
  std::optional<std::vector<std::string>> dimensions;
  /// For each dimension, true for a symbol in quotes: in f32['3',3], '3' is the
  /// name of an open dimension.
  std::vector<bool> isQuoted;

  /// True if the model leaves the extent of `axis` open, or leaves open if the
  /// axis exists.
  bool isOpen(size_t axis) const;
  /// Returns the extent that the model fixes for `axis`; nullopt if there is
  /// none.
  std::optional<int64_t> extent(size_t axis) const;
};

/// Parses the type of the value called `name`, like "f32[N,1,8,8]". A quoted
/// symbol may contain commas: "f32['a,b',3]" has two dimensions.
DeclaredShape parseDeclaredShape(const std::string &name, llvm::StringRef type);

/// Returns the declared types of all inputs of the model.
std::vector<DeclaredShape>
readDeclaredInputs(const onnx_frontend::Model &model);

/// True if an element of `shapes`, the values of --shape, fixes the extent of
/// `axis`: by the name of the input, or by the symbol on the axis.
bool isBound(const DeclaredShape &input, size_t axis,
             const std::vector<std::string> &shapes);

/// Returns the sample axis of an input whose array has `shape`: the axis in
/// --batch-axis, or else 0. nullopt if --batch-axis says NAME=none, or if the
/// ranks of input and array differ.
std::optional<int64_t> findBatchAxis(const DeclaredShape &input,
                                     llvm::ArrayRef<int64_t> shape,
                                     const std::vector<std::string> &batchAxes);

/// True if the array has channels last and the input has channels first, and
/// only a transposed array fits.
bool isTurned(const DeclaredShape &input, llvm::ArrayRef<int64_t> shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H
