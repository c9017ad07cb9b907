// The state of the search for training steps in a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_STEPRECOGNISER_H
#define MPC_FRONTENDS_ONNX_TRAINING_STEPRECOGNISER_H

#include "frontends/ONNX/Training/StepGraph.h"
#include "frontends/ONNX/Training/StepValues.h"

#include "llvm/ADT/SetVector.h"

namespace mpc::onnx_frontend {

/// Finds the states of a graph and their updates.
class StepRecogniser {
public:
  StepRecogniser(const Graph &graph, const ImportOptions &options)
      : graph(graph), options(options), values(graph, options) {}

  llvm::Expected<std::optional<TrainingStep>>
  run(std::vector<std::string> &notes);
  std::optional<TrainingStep> runGradients(std::vector<std::string> &notes);

private:
  /// The states that an output may update, and the form of the update.
  struct Candidates {
    llvm::SmallSetVector<llvm::StringRef, 4> states;
    bool subtracts = false; ///< true for an update `p - something`
    bool adds = false;      ///< true for an update `p + something`
  };
  /// An output that may be the next value of a state.
  struct Open {
    const proto::ValueInfoProto *output;
    Candidates candidates;
    bool isNamed = false;
  };

  void indexGraph();
  llvm::Error readOptimizers();
  void addCount(llvm::StringRef name, int64_t first);
  void readStatistics();
  llvm::Error readSpeltOut();
  llvm::Error addUpdate(llvm::StringRef state, llvm::StringRef value,
                        const llvm::Twine &by);
  Candidates findCandidates(const proto::ValueInfoProto &output);
  bool isAnchor(const Open &open) const;
  std::vector<Open> findOpen();
  llvm::Error take(const Open &open);
  void collectOutputs();
  void findRate(llvm::StringRef name, bool mayBeAnything);
  void findScalars();
  void findUpdateNodes();
  void findParameters();
  void describe(std::vector<std::string> &notes) const;
  bool mayHaveLoss() const;
  llvm::Error findLoss();

  llvm::Error ambiguous(const Open &open) const;

  const Graph &graph;
  const ImportOptions &options;
  StepValues values;
  TrainingStep step;
  llvm::StringMap<unsigned> readers;
  /// The updates found so far. `updates` maps each state to the new value,
  /// `updated` each new value to the state.
  llvm::StringMap<std::string> updates, updated;
  llvm::StringSet<> statistics;
  unsigned byNode = 0, speltOut = 0;
  bool hasScalar = false; ///< true if an output is declared as a scalar
  /// States that optimizers read as the count of updates.
  llvm::StringSet<> counts;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_STEPRECOGNISER_H
