// The shapes that a model leaves open, of data: how many samples it takes at
// once, and how long they are.
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

/// How many samples a batch has unless something says it: Keras's default.
inline constexpr int64_t kUsualBatch = 32;

/// Whether neither the model nor a flag says how many samples some input takes
/// at once.
bool leavesBatchOpen(const onnx_frontend::Model &model,
                     const ModelOptions &options);

/// The batch of such a model where there are no data: that of its other inputs
/// where they fix one and all else, such as `ids: i64[8]` beside
/// `x: f32[N,3]`, or the usual one.
int64_t assumeBatch(const onnx_frontend::Model &model,
                    const ModelOptions &options);

/// Gives folders of samples that `arrays` have without a name the name of the
/// one input that they may be for, and sets the batch size of a model that
/// leaves it open: the usual one, or all samples of `arrays` where there are
/// fewer. Other open dimensions are those of the data. The driver has the model
/// then.
ExitCode chooseShapes(Driver &driver,
                      std::vector<runtime::train::Array> &arrays,
                      const DataFlags &flags, ModelOptions &model);

/// Offers the driver, which has the model, what inputs without axes are in the
/// data, and `held` does not have otherwise: an If whose branches are for other
/// shapes may want to know. Names what was offered.
std::vector<std::string>
offerScalars(Driver &driver, const std::vector<runtime::train::Array> &arrays,
             const std::vector<runtime::train::Array> &held = {});

/// Takes those of `offered` that are compiled in, no inputs of `function`, out
/// of the arrays, and says so.
void dropCompiledIn(const runtime::train::FunctionPorts &function,
                    const std::vector<std::string> &offered,
                    std::vector<runtime::train::Array> &arrays);

/// Says which batch was chosen.
void noteBatch(const ModelOptions &options);

/// Gives arrays without a name, those of `--data photos/`, the name of the one
/// of `inputs` that no other array has. Usage, reported, where there are
/// several, or none.
ExitCode nameSamples(const std::vector<std::string> &inputs,
                     std::vector<runtime::train::Array> &arrays);
/// The same for the inputs of a model, and for those of a function.
ExitCode nameSamples(const onnx_frontend::Model &model,
                     std::vector<runtime::train::Array> &arrays);
ExitCode nameSamples(const runtime::train::FunctionPorts &function,
                     std::vector<runtime::train::Array> &arrays);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEBATCH_H
