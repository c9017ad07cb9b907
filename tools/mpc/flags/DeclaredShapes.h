// What a model declares of its inputs and outputs, dimension by dimension.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H
#define MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H

#include "frontends/ONNX/Import.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc::tools {

/// What is declared as f32[N,1,8,8].
struct DeclaredShape {
  std::string name, type;
  /// A number, a symbol or "?" of each; nothing where the shape is open.
  std::optional<std::vector<std::string>> dimensions;
  /// Of each dimension, whether it is a symbol that looks like something else:
  /// '3' in f32['3',3] is the name of an open one.
  std::vector<bool> isQuoted;

  /// Whether there may be such an axis whose extent the model leaves open.
  bool isOpen(size_t axis) const;
  /// The extent that the model fixes.
  std::optional<int64_t> extent(size_t axis) const;
};

/// What a value called `name` is declared as, of its type as text, such as
/// "f32[N,1,8,8]" or "f32['a,b',3]", of two dimensions.
DeclaredShape parseDeclaredShape(const std::string &name, llvm::StringRef type);

/// The model's inputs.
std::vector<DeclaredShape>
readDeclaredInputs(const onnx_frontend::Model &model);

/// Whether one of --shape is of that input, or of the symbol on its axis.
bool isBound(const DeclaredShape &input, size_t axis,
             const std::vector<std::string> &shapes);

/// The axis of samples of an input that is given an array of `shape`: by
/// --batch-axis, or else the first. Nothing where it has none, or is of another
/// rank.
std::optional<int64_t> findBatchAxis(const DeclaredShape &input,
                                     llvm::ArrayRef<int64_t> shape,
                                     const std::vector<std::string> &batchAxes);

/// Whether an array of `shape` has the channels last of an input that has them
/// first, and fits it in no other way.
bool isTurned(const DeclaredShape &input, llvm::ArrayRef<int64_t> shape);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_DECLAREDSHAPES_H
