// Chooses the initializers of a forward model that are trained by default.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// The float initializers that nodes read and the inputs with a value, grouped
/// by role.
struct Trainables {
  /// Names that are trained by default.
  llvm::StringSet<> parameters;
  /// Names of untrained values without an origin in the metadata, in the order
  /// of the file. `named` are names that modules gave; `constants` are all
  /// other names.
  std::vector<std::string> named, constants;
  /// The evidence against training, for names in `constants` that would be
  /// trained without the evidence, as text: "the name is typical of a buffer".
  llvm::StringMap<llvm::StringRef> evidence;
  /// Names of single numbers that a tool has named by a number, such as
  /// "onnx::Mul_57".
  llvm::StringSet<> numbers;
};

/// Finds the values that are trained by default, among the initializers and the
/// inputs in `given`. Pass the result of findOrigins() as `origins`.
///
/// Metadata decide if present: PyTorch writes PARAMETER or BUFFER for each
/// value. Otherwise a parameter is one of:
///   - An operand of a layer, of any size: the weight of a contraction, a
///     recurrence or an embedding, the scale and bias of a normalization, the
///     slope of PRelu, an added bias. Also values that such a weight is
///     computed from, as in weight normalization.
///   - A value with the dotted name of a module, unless the name, the values or
///     the use show a buffer.
/// A numbered name is evidence of a constant: such a value is trained only as
/// operand of a layer.
Trainables findTrainable(const Graph &graph, const TensorMap &given,
                         const llvm::StringMap<std::string> &origins);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
