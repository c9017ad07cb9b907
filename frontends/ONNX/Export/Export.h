// ONNX out: the model that was read, with trained values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
#define MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H

#include "frontends/ONNX/Error.h"
#include "frontends/ONNX/HostTensor.h"

namespace mpc::onnx_frontend {

/// Writes the model at `source` to `destination` with the values of the
/// initializers (and Constant nodes) named in `values` replaced, in inference
/// mode (InferenceMode.h); everything else, unknown fields included, stays as
/// it was. Values are converted to the type the model stores. A name the model
/// does not have, or a value of another shape, is an error (kind Invalid). Data
/// that was external, and all of it in a model too large for one file, goes to
/// `<destination>.data`. The files appear whole or not at all.
llvm::Error exportModel(llvm::StringRef source, llvm::StringRef destination,
                        const TensorMap &values, mlir::MLIRContext *context);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_EXPORT_H
