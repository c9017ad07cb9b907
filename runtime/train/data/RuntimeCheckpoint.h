// Reads checkpoints of ONNX Runtime's on-device training: a file of parameters,
// in the flatbuffer format, beside the training artifacts.
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

/// True if the bytes begin like a checkpoint of ONNX Runtime: four bytes of an
/// offset, then "ODTC".
bool looksLikeRuntimeCheckpoint(const std::byte *data, size_t size);

/// Parses all parameters, trained and frozen, in [data, data + size) in place.
/// `owner` keeps the bytes alive. InvalidInput if an offset, a length or a
/// shape does not fit the file, or if two parameters share a name. Unsupported
/// if values are in another file or are no numbers.
StatusOr<std::vector<Array>>
parseRuntimeCheckpoint(const std::byte *data, size_t size,
                       const std::shared_ptr<const void> &owner,
                       const std::string &where);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_RUNTIMECHECKPOINT_H
