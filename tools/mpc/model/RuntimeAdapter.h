// Writes adapters in the format of ONNX Runtime, .onnx_adapter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_RUNTIMEADAPTER_H
#define MPC_TOOLS_MPC_MODEL_RUNTIMEADAPTER_H

#include "runtime/train/data/Array.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// The extension of ONNX Runtime's adapters.
inline constexpr char kRuntimeAdapterExtension[] = ".onnx_adapter";

/// Writes the float arrays to `file`, which appears whole or not at all. At run
/// time, ONNX Runtime binds each array to the model's input of the same name.
/// Unsupported if the file would exceed the 2 GiB of the format.
runtime::Status
writeRuntimeAdapter(const std::string &file,
                    const std::vector<runtime::train::Array> &parameters);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_RUNTIMEADAPTER_H
