// Loads weights into a model by name, and reads them.
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

/// Sets each state variable to the array of the same name, converted to the
/// variable's type. Then recomputes derived state. Ignores arrays that name no
/// state, since files often hold more than one model needs. InvalidInput if an
/// element of `required` is missing or a shape differs; the model is then
/// unchanged.
Status loadWeights(Trainee &model, const std::vector<Array> &arrays,
                   const std::vector<std::string> &required = {});

/// Reads a state variable, valid until the model runs again: in place if the
/// host can read it, else as a copy.
StatusOr<Array> readState(Trainee &model, const Port &port);

/// Reads all state for which `isWanted` is true.
StatusOr<std::vector<Array>> readStates(Trainee &model,
                                        bool (*isWanted)(const Port &port));

/// Reads the state of a trained model: roles "parameter", "frozen" and
/// "statistic".
StatusOr<std::vector<Array>> readWeights(Trainee &model);

/// Describes the first element that is NaN or infinite: "parameter 'w' is inf
/// at [1, 2]". Empty if all elements are finite, or if `port` is neither a
/// parameter nor a running statistic. `bytes` is the value of `port`.
std::string describeNonFinite(const Port &port, const std::byte *bytes);

/// Describes each parameter and statistic with a non-finite element, by name.
StatusOr<std::map<std::string, std::string>>
findNonFiniteWeights(Trainee &model);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_WEIGHTS_H
