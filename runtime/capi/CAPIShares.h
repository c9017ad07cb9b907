// Calls on the state of a sharded optimizer, which lies on several ranks. All
// ranks make the calls together.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CAPI_CAPISHARES_H
#define MPC_RUNTIME_CAPI_CAPISHARES_H

#include "runtime/capi/CAPIObjects.h"

namespace mpc::capi {

/// Ends mpc_session_create on a rank, whose session is `created`. If the ranks
/// divide the state, the ranks agree on failures and derive. `communicator` is
/// null for a single rank.
Status finishCreation(
    const runtime::Artifact &artifact, runtime::Communicator *communicator,
    const runtime::StatusOr<std::unique_ptr<runtime::Session>> &created);

/// Returns a state variable with its value on the owner. Usage if another rank
/// calls another function or names another variable, and Rank if the call is
/// refused on another rank. `failure` is the reason to refuse the call on this
/// rank.
runtime::StatusOr<runtime::Tensor>
readState(mpc_session &session, const char *name, const Status &failure);

/// Sets a state variable. The errors of readState, and Usage if another rank
/// gives other bytes. `failure` is the reason to refuse the call on this rank.
Status writeState(mpc_session &session, const char *name,
                  const runtime::Tensor &value, const Status &failure);

/// Derives on all ranks.
Status derive(mpc_session &session);

} // namespace mpc::capi

#endif // MPC_RUNTIME_CAPI_CAPISHARES_H
