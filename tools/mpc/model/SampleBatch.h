// Chooses the open dimensions of a model from the data, above all the batch
// size.
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

/// The default batch size, as in Keras.
inline constexpr int64_t kUsualBatch = 32;

/// True if some input has an open batch size that neither the model nor a flag
/// fixes.
bool leavesBatchOpen(const onnx_frontend::Model &model,
                     const ModelOptions &options);

/// Returns an open batch size without data: the batch size of the inputs with a
/// fixed shape, like `ids: i64[8]` beside `x: f32[N,3]`, if they agree, or else
/// the usual size. Weights among the inputs do not count.
int64_t assumeBatch(const onnx_frontend::Model &model,
                    const ModelOptions &options);

/// Names folders of samples in `arrays` after the only possible input. Sets an
/// open batch size: the usual size, or the number of samples if fewer. Binds
/// other open dimensions to the shapes of the data. Reads the model unless the
/// driver has a model.
ExitCode chooseShapes(Driver &driver,
                      std::vector<runtime::train::Array> &arrays,
                      const DataFlags &flags, ModelOptions &model);

/// Offers the driver the values of scalar inputs in the data as constants: an
/// If whose branches differ in shape may need constants. Skips inputs whose
/// values in `held` differ. Returns the names of the offered inputs.
std::vector<std::string>
offerScalars(Driver &driver, const std::vector<runtime::train::Array> &arrays,
             const std::vector<runtime::train::Array> &held = {});

/// Removes offered arrays that were compiled in, and thus are no inputs of
/// `function`. Prints a note.
void dropCompiledIn(const runtime::train::FunctionPorts &function,
                    const std::vector<std::string> &offered,
                    std::vector<runtime::train::Array> &arrays);

/// Prints a note about the chosen batch size.
void noteBatch(const ModelOptions &options);

/// Names arrays without a name, like `--data photos/`, after the only element
/// of `inputs` without an array. Reports a Usage error unless there is exactly
/// one element.
ExitCode nameSamples(const std::vector<std::string> &inputs,
                     std::vector<runtime::train::Array> &arrays);
/// Call `nameSamples` with the inputs of a model, or of a function.
ExitCode nameSamples(const onnx_frontend::Model &model,
                     std::vector<runtime::train::Array> &arrays);
ExitCode nameSamples(const runtime::train::FunctionPorts &function,
                     std::vector<runtime::train::Array> &arrays);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEBATCH_H
