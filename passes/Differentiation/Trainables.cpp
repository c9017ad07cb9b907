// Selects the trained parameters by role, or by the user's patterns.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/Trainables.h"

#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/InferenceMode.h"
#include "passes/Differentiation/NamePatterns.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Selects the parameters to train in one module.
class Selection {
public:
  Selection(FunctionEditor &step, const TrainablePatterns &patterns)
      : step(step), train("--train", patterns.train),
        freeze("--freeze", patterns.freeze) {}

  void addVariables(ModuleOp module);
  void freezeNormalizations();
  FailureOr<SmallVector<VariableOp>> select(ModuleOp module,
                                            const DenseSet<Value> &sources);

private:
  bool isFrozenByUser(StringRef name) const {
    return ((train.isGiven() || hasAdapters) && !inTrain.contains(name)) ||
           inFreeze.contains(name);
  }
  bool isFrozenByUser(BatchNormOp norm) const;

  FunctionEditor &step;
  NamePatterns train, freeze;
  llvm::StringSet<> inTrain, inFreeze, parameters;
  /// True if the module has adapters, which freeze the rest of the model.
  bool hasAdapters = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// The selection
//===----------------------------------------------------------------------===//

void Selection::addVariables(ModuleOp module) {
  for (auto variable : module.getOps<VariableOp>()) {
    Role role = variable.getRole();
    StringRef name = variable.getSymName();
    if (!isModelRole(role))
      continue;
    if (role == Role::Parameter)
      parameters.insert(name);
    hasAdapters |= isAdapter(variable);
    if (role != Role::Statistic && train.match(variable))
      inTrain.insert(name);
    if (freeze.match(variable))
      inFreeze.insert(name);
  }
}

bool Selection::isFrozenByUser(BatchNormOp norm) const {
  SmallVector<StringRef> names, statistics;
  for (Value value : {norm.getScale(), norm.getBias()})
    if (StringRef name = step.variableOf(value); parameters.contains(name))
      names.push_back(name);
  for (Value value : {norm.getRunningMean(), norm.getRunningVar()})
    if (StringRef name = step.variableOf(value); !name.empty())
      statistics.push_back(name);
  if (names.empty())
    names = statistics;
  return !names.empty() && llvm::all_of(names, [&](StringRef name) {
    return isFrozenByUser(name);
  });
}

// Converts each BatchNormalization that the user froze to inference mode. A
// frozen layer of a fine-tuned model must compute as before; statistics of new
// data would change the layer's results.
void Selection::freezeNormalizations() {
  SmallVector<BatchNormOp> frozen;
  for (auto norm : step.getBody().getOps<BatchNormOp>())
    if (norm.getMean().use_empty() && norm.getInvStd().use_empty() &&
        isFrozenByUser(norm))
      frozen.push_back(norm);
  for (BatchNormOp norm : frozen) {
    step.dropUpdatesBy(norm);
    convertToInference(norm);
  }
}

FailureOr<SmallVector<VariableOp>>
Selection::select(ModuleOp module, const DenseSet<Value> &sources) {
  if (failed(train.verify(module.getLoc())) ||
      failed(freeze.verify(module.getLoc())))
    return failure();
  // Collect the names of variables that the loss depends on.
  llvm::StringSet<> reached;
  for (Value argument : step.get().getArguments())
    if (sources.contains(argument))
      reached.insert(step.variableOf(argument));
  SmallVector<VariableOp> trainables;
  for (auto variable : module.getOps<VariableOp>()) {
    if (variable.getRole() != Role::Parameter &&
        variable.getRole() != Role::Frozen)
      continue;
    // Train a variable if the user or its role chooses it, no --freeze matches,
    // and the loss reads the variable. Freeze all others.
    StringRef name = variable.getSymName();
    bool chosen = train.isGiven() || hasAdapters
                      ? inTrain.contains(name) || isAdapter(variable)
                      : parameters.contains(name);
    bool isTrained =
        chosen && !inFreeze.contains(name) && reached.contains(name);
    variable.setRole(isTrained ? Role::Parameter : Role::Frozen);
    if (isTrained)
      trainables.push_back(variable);
  }
  if (!trainables.empty())
    return trainables;
  return withExitCode(mlir::emitError(module.getLoc()), ExitCode::InvalidInput)
         << "nothing to train: the loss depends on no float parameter, or all "
            "of them are frozen; --train REGEX chooses among all floats of "
            "the model";
}

FailureOr<SmallVector<VariableOp>>
mpc::selectTrainables(ModuleOp module, FunctionEditor &step,
                      const DenseSet<Value> &sources,
                      const TrainablePatterns &patterns) {
  Selection selection(step, patterns);
  selection.addVariables(module);
  selection.freezeNormalizations();
  return selection.select(module, sources);
}
