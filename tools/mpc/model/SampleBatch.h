// Chooses the open dimensions of a model, above all the batch size, by the
// data.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_SAMPLEBATCH_H
#define MPC_TOOLS_MPC_MODEL_SAMPLEBATCH_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Array.h"
#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/model/Driver.h"

#include <vector>

namespace mpc::tools {

/// The default batch size, equal to that of Keras.
inline constexpr int64_t kUsualBatch = 32;

/// True if the batch size of an input is open, and no flag fixes it.
bool leavesBatchOpen(const onnx_frontend::Model &model,
                     const ModelOptions &options);

/// Returns a batch size for a model with an open batch when there are no data.
/// If inputs of fixed shape, like `ids: i64[8]` beside `x: f32[N,3]`, agree on
/// a size, returns the size; else kUsualBatch. Weights that are inputs do not
/// count.
int64_t assumeBatch(const onnx_frontend::Model &model,
                    const ModelOptions &options);

/// Names arrays without a name after the only input that can be meant. Sets an
/// open batch size to the default, or to the number of samples if there are
/// fewer. Fixes other open dimensions to the extents of the data. Reads the
/// model unless the driver has read it.
ExitCode chooseShapes(Driver &driver,
                      std::vector<runtime::train::Array> &arrays,
                      const DataFlags &flags, ModelOptions &model);

/// Offers the values of scalar inputs to the driver, which compiles a value in
/// as a constant if a shape depends on it: an ONNX If may have branches with
/// different shapes. Skips inputs with another value in `held`, the evaluation
/// data. Returns the names of the offered inputs.
std::vector<std::string>
offerScalars(Driver &driver, const std::vector<runtime::train::Array> &arrays,
             const std::vector<runtime::train::Array> &held = {});

/// Removes arrays whose values were compiled in: those in `offered` that are no
/// inputs of `function`. Prints a note.
void dropCompiledIn(const runtime::train::FunctionPorts &function,
                    const std::vector<std::string> &offered,
                    std::vector<runtime::train::Array> &arrays);

/// Prints a note that says which batch size was chosen.
void noteBatch(const ModelOptions &options);

/// Gives arrays without a name, like those of `--data photos/`, the name of the
/// only input that has no array. Prints an error and returns Usage if there is
/// no such input, or more than one.
ExitCode nameSamples(const std::vector<std::string> &inputs,
                     std::vector<runtime::train::Array> &arrays);
/// Like nameSamples above, with the inputs of a model or of a function.
ExitCode nameSamples(const onnx_frontend::Model &model,
                     std::vector<runtime::train::Array> &arrays);
ExitCode nameSamples(const runtime::train::FunctionPorts &function,
                     std::vector<runtime::train::Array> &arrays);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEBATCH_H
