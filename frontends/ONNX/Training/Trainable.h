// Which initializers of a forward model are trained unless the user says
// otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// The float initializers that nodes read, and inputs with a given value.
struct Trainables {
  /// Trained by default.
  llvm::StringSet<> parameters;
  /// Not trained, in the order of the file, where the exporter does not say
  /// what they are: those that a module names, and all others.
  std::vector<std::string> named, constants;
  /// Those of one number that a tool has numbered.
  llvm::StringSet<> numbers;
};

/// Finds what is trained by default among the initializers and the inputs in
/// `given`; `origins` are those that findOrigins() finds.
///
/// Where the exporter says of a value what it was in the program, that holds:
/// PyTorch writes PARAMETER or BUFFER into the metadata of each. Otherwise a
/// parameter is:
///   - an operand of a layer, of any size: the weight of a contraction, a
///     recurrence or an embedding, the scale and bias of a normalization, the
///     slope of PRelu, a bias that is added; and what such a weight is computed
///     from, as in weight normalization;
///   - what has a module's dotted name, unless it is a buffer by its name, its
///     values, or the operand that it is.
/// A name that a tool has numbered is evidence of a constant: such a value is
/// trained as the operand of a layer only.
Trainables findTrainable(const Graph &graph, const TensorMap &given,
                         const llvm::StringMap<std::string> &origins);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
