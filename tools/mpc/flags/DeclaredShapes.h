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

/// The declaration of an input or output, like f32[N,1,8,8].
struct DeclaredShape {
  std::string name, type;
  /// Each dimension as a number, a symbol or "?"; nullopt if the rank is open.
  std::optional<std::vector<std::string>> dimensions;
  /// True for each dimension that is a quoted symbol. In f32['3',3], '3' is the
  /// name of an open dimension.
  std::vector<bool> isQuoted;

  /// True if the axis may exist and the model leaves its extent open.
  bool isOpen(size_t axis) const;
  /// The extent that the model fixes; nullopt for other axes.
  std::optional<int64_t> extent(size_t axis) const;
};

/// Parses the type of the value `name`, like "f32[N,1,8,8]" or "f32['a,b',3]",
/// which has two dimensions.
DeclaredShape parseDeclaredShape(const std::string &name, llvm::StringRef type);

/// Reads the declarations of all inputs of the model.
std::vector<DeclaredShape>
readDeclaredInputs(const onnx_frontend::Model &model);

/// True if one of --shape names the input, or the symbol on its axis.
bool isBound(const DeclaredShape &input, size_t axis,
             const std::vector<std::string> &shapes);

/// The sample axis of an input that gets an array of `shape`: from
/// --batch-axis, else 0. nullopt if --batch-axis says none, or if the ranks
/// differ.
std::optional<int64_t> findBatchAxis(const DeclaredShape &input,
                                     llvm::ArrayRef<int64_t> shape,
                                     const std::vector<std::string> &batchAxes);

/// True if the array has channels last, the input has channels first, and the
/// array fits in no other way.
bool isTurned(const DeclaredShape &input, llvm::ArrayRef<int64_t> shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H
