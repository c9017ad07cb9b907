// Reads and writes low-rank adapters (LoRA) as PEFT does, and merges them into
// the weights that they adapt.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_ADAPTERFILES_H
#define MPC_TOOLS_MPC_MODEL_ADAPTERFILES_H

#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"
#include "runtime/train/data/Array.h"

#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Describes adapters for the recipe of an artifact; readAdapters reads them.
llvm::json::Array describeAdapters(llvm::ArrayRef<Adapter> adapters);

/// Returns the adapters that the JSON text of a recipe describes; none if the
/// text is no recipe with adapters.
std::vector<Adapter> readAdapters(llvm::StringRef recipe);

/// Replaces each adapted weight in `state` by weight + scale * B A, rounded
/// once, and removes A and B. Each adapter needs a weight that is a variable.
runtime::Status mergeAdapters(std::vector<runtime::train::Array> &state,
                              const std::vector<Adapter> &adapters);

/// The names of PEFT begin with this text: base_model.model.fc1.lora_A.weight.
inline constexpr llvm::StringLiteral kPEFTPrefix = "base_model.model.";

/// Removes PEFT's prefix from the name of each of `values`, if one of them is
/// an adapter. `getName` returns a reference to a name. Keeps the names of the
/// model, for which `isOwn` is true.
template <typename Values, typename GetName>
void dropPEFTPrefix(Values &values, GetName getName,
                    llvm::function_ref<bool(llvm::StringRef)> isOwn) {
  auto isPart = [&](auto &value) {
    return llvm::StringRef(getName(value)).ends_with(kAdapterASuffix);
  };
  if (llvm::none_of(values, isPart))
    return;
  for (auto &value : values)
    if (std::string &name = getName(value);
        llvm::StringRef(name).starts_with(kPEFTPrefix) && !isOwn(name))
      name.erase(0, kPEFTPrefix.size());
}

/// Writes `trained`, the values of adapters and of other trained parameters, to
/// `file` by PEFT's names; to .onnx_adapter by the model's names. For
/// .safetensors, also writes PEFT's `adapter_config.json` into the folder of
/// `file`.
runtime::Status writeAdapters(const std::string &file,
                              std::vector<runtime::train::Array> trained,
                              const std::vector<Adapter> &adapters);

/// Moves the values of adapters out of `options`, where they would name nothing
/// in `model`. Error if there are any, but `hasAdapters`, the user's --lora, is
/// false.
llvm::Expected<onnx_frontend::TensorMap>
takeAdapterValues(const onnx_frontend::Model &model,
                  onnx_frontend::ImportOptions &options, bool hasAdapters);

/// Fails if `file`, of --weights, has adapters that are not plain LoRA by the
/// `adapter_config.json` beside, such as DoRA: their product is another.
llvm::Error checkAdapterKind(const std::string &file);

/// Fails if `adapter_config.json` beside one of the `files` of --weights scales
/// an adapter in the file by another factor than `adapters`, the user's --lora.
llvm::Error checkAdapterConfigs(llvm::ArrayRef<std::string> files,
                                llvm::ArrayRef<Adapter> adapters);

/// Declares a variable for each value, in the module just imported.
void declareAdapterValues(mlir::ModuleOp module,
                          const onnx_frontend::TensorMap &values);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_ADAPTERFILES_H
