// Checkpoints of ONNX Runtime's on-device training: a flatbuffer of parameters,
// beside its artifacts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_RUNTIMECHECKPOINT_H
#define MPC_RUNTIME_TRAIN_DATA_RUNTIMECHECKPOINT_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Whether the bytes begin as such a checkpoint: the offset of its root, then
/// "ODTC".
bool looksLikeRuntimeCheckpoint(const std::byte *data, size_t size);

/// The parameters, trained and frozen, in [data, data + size), in place;
/// `owner` keeps the bytes alive. InvalidInput where an offset, a length or a
/// shape does not fit the file, or two have one name; Unsupported where values
/// are in another file or are not numbers.
StatusOr<std::vector<Array>>
parseRuntimeCheckpoint(const std::byte *data, size_t size,
                       const std::shared_ptr<const void> &owner,
                       const std::string &where);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_RUNTIMECHECKPOINT_H
