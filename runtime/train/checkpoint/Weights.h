// Weights by name: into a model from files, and out of it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_WEIGHTS_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_WEIGHTS_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Gives state variables the values of the arrays with their names, converted
/// to their types, and derives what depends on them. Arrays that name no state
/// are ignored: files often hold more than one model takes. InvalidInput where
/// one of `required` is missing or a shape differs; the model is then as it
/// was.
Status loadWeights(Trainee &model, const std::vector<Array> &arrays,
                   const std::vector<std::string> &required = {});

/// A state variable as it is until the model runs again: in place where the
/// host can read it there, else a copy.
StatusOr<Array> readState(Trainee &model, const Port &port);

/// All state that is wanted, each by readState.
StatusOr<std::vector<Array>> readStates(Trainee &model,
                                        bool (*isWanted)(const Port &port));

/// What a trained model is made of: state of the roles "parameter", "frozen"
/// and "statistic".
StatusOr<std::vector<Array>> readWeights(Trainee &model);

/// "parameter 'w' is inf at [1, 2]": the first element of a parameter or a
/// running statistic that is NaN or infinite; empty where all are finite, and
/// of state of another role. `bytes` is the value of `port`.
std::string describeNonFinite(const Port &port, const std::byte *bytes);

/// The same for each state variable that has such an element, by its name.
StatusOr<std::map<std::string, std::string>>
findNonFiniteWeights(Trainee &model);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_WEIGHTS_H
