// Describes inputs, parameters and layers of a model from the declarations of
// the file, without importing the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_SUMMARY_H
#define MPC_FRONTENDS_ONNX_SUMMARY_H

#include "frontends/ONNX/Import.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::onnx_frontend {

/// Lists the declared inputs, with types as in messages, such as
/// "f32[N,1,28,28]".
std::vector<std::pair<std::string, std::string>> listInputs(const Model &model);

/// Lists the graph inputs that act as weights: weights of layers, biases added
/// to the result of a layer, and buffers that sum up gradients. Such an input
/// has no samples.
llvm::StringSet<> listWeightInputs(const Model &model);

/// Describes an optimizer graph, which updates parameters from gradients among
/// the inputs. Explains how to use the graph with a training graph. Empty for
/// any other model.
std::string describeOptimizerGraph(const Model &model);

/// The summary of an initializer.
struct ParameterSummary {
  std::string name;
  mlir::RankedTensorType type;
  bool isTrained = false; ///< trained by default, if a gradient reaches it
  std::string why;        ///< the reason if not trained
};

/// Describes the initializers of a forward model. Fails (kind Unsupported) for
/// a training graph, which states the parameters to update.
llvm::Expected<std::vector<ParameterSummary>>
describeParameters(const Model &model);

/// The summary of a node.
struct LayerSummary {
  std::string name, op;
  std::string output; ///< name of the first result
  std::string type;   ///< declared type of the result; empty if none
  std::vector<std::string> parameters; ///< initializers that the node reads
  int64_t elements = 0;                ///< elements of float parameters
};

/// Describes the nodes in order, except Constant nodes.
llvm::Expected<std::vector<LayerSummary>> describeLayers(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_SUMMARY_H
