// A model's inputs, parameters and layers, from what the file says of them:
// nothing is imported, and no values are read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_SUMMARY_H
#define MPC_FRONTENDS_ONNX_SUMMARY_H

#include "frontends/ONNX/Import.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::onnx_frontend {

/// The inputs that the file declares, each with its type as messages have it,
/// such as "f32[N,1,28,28]".
std::vector<std::pair<std::string, std::string>> listInputs(const Model &model);

/// Describes a graph of optimizers alone, whose parameters and gradients
/// another graph has, and says what to do with it. Empty for any other model.
std::string describeOptimizerGraph(const Model &model);

/// An initializer.
struct ParameterSummary {
  std::string name;
  mlir::RankedTensorType type;
  bool isTrained = false; ///< by default, if a gradient reaches it
  std::string why;        ///< why not
};

/// The initializers of a forward model. Unsupported where the model is a
/// training graph, which says itself what it updates.
llvm::Expected<std::vector<ParameterSummary>>
describeParameters(const Model &model);

/// A node.
struct LayerSummary {
  std::string name, op;
  std::string output; ///< the name of the first result
  std::string type;   ///< of it, as the file has it; empty where it has none
  std::vector<std::string> parameters; ///< initializers it reads
  int64_t elements = 0;                ///< of those that are floats
};

/// The nodes in order, without Constant nodes.
llvm::Expected<std::vector<LayerSummary>> describeLayers(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_SUMMARY_H
