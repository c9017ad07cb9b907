// Chooses an engine of cuDNN for an operation graph, and compiles the engine to
// a plan. Equal graphs share a plan: a network has many equal layers, and a
// plan of an attention takes a second.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DNNPLAN_H
#define MPC_RUNTIME_CUDA_DNNPLAN_H

#include "runtime/cuda/dnn/DNNGraph.h"

#include <functional>

namespace mpc::runtime::cuda {

/// A cuDNN engine's number among the engines for a graph, and the library's
/// numerical notes about the engine.
struct DNNEngine {
  int64_t index = 0;
  std::vector<DNNNumericalNote> notes;

  /// Returns "cuDNN engine 3".
  std::string describe() const {
    return "cuDNN engine " + std::to_string(index);
  }
};

/// The addresses of a graph's tensors by their numbers: on the GPU, or on the
/// host for a number passed by value.
struct DNNBindings {
  std::vector<int64_t> ids;
  std::vector<void *> addresses;

  void add(int64_t id, void *address) {
    ids.push_back(id);
    addresses.push_back(address);
  }
};

/// An engine that is compiled for a graph.
class DNNPlan {
public:
  /// Compiles a configuration. A Device error if the engine cannot run the
  /// graph.
  static StatusOr<std::shared_ptr<DNNPlan>>
  compile(const DNN &library, std::shared_ptr<DNNGraph> graph, DNNObject config,
          DNNEngine engine);

  const DNNEngine &getEngine() const { return engine; }

  /// The scratch memory that an execution needs, in bytes.
  size_t workspaceBytes() const { return bytes; }

  /// Makes a variant pack for `execute`.
  StatusOr<std::unique_ptr<DNNObject>> bind(const DNNBindings &bindings,
                                            void *workspace) const;

  /// Enqueues an execution on the library's stream. `what` names the operation
  /// in error messages: "convolve".
  Status execute(const DNNObject &pack, const char *what) const;

private:
  DNNPlan(const DNN &library, std::shared_ptr<DNNGraph> graph, DNNObject config,
          DNNEngine engine)
      : library(library), graph(std::move(graph)), config(std::move(config)),
        engine(std::move(engine)) {}

  const DNN &library;
  // The plan may refer to the descriptors of the graph and of the
  // configuration.
  std::shared_ptr<DNNGraph> graph;
  DNNObject config;
  DNNEngine engine;
  std::unique_ptr<DNNObject> plan;
  size_t bytes = 0;
};

/// The demands of a step on its engine.
struct DNNDemands {
  /// Describes the operation in messages: "the forward convolution of ...".
  std::string operation;
  /// False if a Tensor Core would round the operands.
  bool allowsTensorCores = true;
  /// Engines that need more scratch memory are skipped.
  size_t maxWorkspaceBytes = size_t(1) << 30;
  /// Scratch memory of the step beside the engine's, in bytes.
  size_t ownBytes = 0;
  /// Checks a compiled plan further; null to check nothing.
  std::function<StatusOr<bool>(const DNNPlan &plan)> isExact = nullptr;
  /// The engine to take, with its knobs; nullopt to take the library's first
  /// proposal that meets the demands.
  struct Named {
    int64_t index;
    std::vector<std::pair<DNNKnob, int64_t>> knobs;
  };
  std::optional<Named> named = std::nullopt;
  /// Returns what the error without an engine says after the operation; null
  /// for nothing.
  std::function<std::string()> remark = nullptr;
  /// The end of this error.
  std::string remedy;
};

/// Returns a plan for a complete graph. Equal graphs get one plan. Also
/// reserves scratch memory: the plan's, and `demands.ownBytes`. A Device error
/// if no deterministic engine meets the demands.
StatusOr<std::shared_ptr<const DNNPlan>>
findPlan(DNN &library, std::shared_ptr<DNNGraph> graph,
         const DNNDemands &demands);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DNNPLAN_H
