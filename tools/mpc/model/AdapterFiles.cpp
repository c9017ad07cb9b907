// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/AdapterFiles.h"

#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Support/NamePattern.h"
#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/Weights.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/model/RuntimeAdapter.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::tools;
using runtime::DType;
using runtime::Status;
using runtime::StatusOr;
using runtime::Tensor;
using runtime::train::Array;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// The recipe
//===----------------------------------------------------------------------===//

json::Array mpc::tools::describeAdapters(ArrayRef<Adapter> adapters) {
  json::Array list;
  for (const Adapter &adapter : adapters)
    list.push_back(json::Object{{"module", json::fixUTF8(adapter.module)},
                                {"weight", json::fixUTF8(adapter.weight)},
                                {"a", json::fixUTF8(adapter.a)},
                                {"b", json::fixUTF8(adapter.b)},
                                {"rank", adapter.rank},
                                {"alpha", adapter.alpha},
                                {"scale", adapter.scale},
                                {"inputs_first", adapter.inputsFirst}});
  return list;
}

std::vector<Adapter> mpc::tools::readAdapters(StringRef recipe) {
  std::vector<Adapter> adapters;
  llvm::Expected<json::Value> value = json::parse(recipe);
  if (!value) {
    llvm::consumeError(value.takeError());
    return adapters;
  }
  const json::Object *object = value->getAsObject();
  const json::Array *list = object ? object->getArray("adapters") : nullptr;
  if (!list)
    return adapters;
  for (const json::Value &item : *list) {
    const json::Object *facts = item.getAsObject();
    if (!facts)
      return {};
    auto text = [&](StringRef key) {
      return facts->getString(key).value_or("").str();
    };
    adapters.push_back({text("module"), text("weight"), text("a"), text("b"),
                        facts->getInteger("rank").value_or(0),
                        facts->getNumber("alpha").value_or(0),
                        facts->getNumber("scale").value_or(0),
                        facts->getBoolean("inputs_first").value_or(false)});
  }
  return adapters;
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

static std::vector<double> toDoubles(const Array &array) {
  std::vector<double> values(array.size());
  convertElements(array, 0, array.size(), DType::F64,
                  runtime::train::NonFinite::Allow, values.data());
  return values;
}

// Returns the weight with the adapter's product added, in the weight's type.
static StatusOr<Array> merge(const Array &weight, const Array &a,
                             const Array &b, const Adapter &adapter) {
  // The matrices of a convolution have two more axes, of one element each.
  const auto isMatrix = [](const Array &array) {
    return array.shape.size() >= 2 &&
           array.size() == array.shape[0] * array.shape[1];
  };
  if (!isMatrix(a) || !isMatrix(b) || b.shape[1] != a.shape[0] ||
      weight.size() != a.shape[1] * b.shape[0])
    return Status(runtime::StatusCode::InvalidInput,
                  "the adapter of '" + weight.name + "' has another shape");
  const int64_t inputs = a.shape[1], outputs = b.shape[0], rank = a.shape[0];
  std::vector<double> merged = toDoubles(weight);
  const std::vector<double> as = toDoubles(a), bs = toDoubles(b);
  std::vector<double> row(inputs);
  for (int64_t output = 0; output < outputs; ++output) {
    row.assign(inputs, 0);
    for (int64_t k = 0; k < rank; ++k)
      for (int64_t input = 0; input < inputs; ++input)
        row[input] += bs[output * rank + k] * as[k * inputs + input];
    for (int64_t input = 0; input < inputs; ++input)
      merged[adapter.inputsFirst ? input * outputs + output
                                 : output * inputs + input] +=
          adapter.scale * row[input];
  }
  Array wide;
  wide.name = weight.name;
  wide.type = runtime::train::ElementType::F64;
  wide.shape = weight.shape;
  wide.data = reinterpret_cast<const std::byte *>(merged.data());
  StatusOr<Tensor> value =
      runtime::train::toTensor(wide, runtime::train::toDType(weight.type));
  if (!value.ok())
    return value.status();
  return runtime::train::toArray(weight.name, *value);
}

Status mpc::tools::mergeAdapters(std::vector<Array> &state,
                                 const std::vector<Adapter> &adapters) {
  llvm::StringMap<Array *> byName;
  for (Array &array : state)
    byName[array.name] = &array;
  llvm::StringSet<> parts;
  for (const Adapter &adapter : adapters) {
    Array *weight = byName.lookup(adapter.weight);
    Array *a = byName.lookup(adapter.a), *b = byName.lookup(adapter.b);
    if (!weight || !a || !b)
      return Status(runtime::StatusCode::InvalidInput,
                    "the adapter of '" + adapter.module +
                        "' cannot be merged: the values lack '" +
                        (!weight ? adapter.weight
                         : !a    ? adapter.a
                                 : adapter.b) +
                        "'");
    StatusOr<Array> merged = merge(*weight, *a, *b, adapter);
    if (!merged.ok())
      return merged.status();
    *weight = std::move(*merged);
    parts.insert(adapter.a);
    parts.insert(adapter.b);
  }
  llvm::erase_if(
      state, [&](const Array &array) { return parts.contains(array.name); });
  return Status();
}

//===----------------------------------------------------------------------===//
// PEFT's files
//===----------------------------------------------------------------------===//

static std::string configBeside(StringRef file) {
  llvm::SmallString<128> config(llvm::sys::path::parent_path(file));
  llvm::sys::path::append(config, "adapter_config.json");
  return config.str().str();
}

// Returns a whole number as an integer, as PEFT's configurations have them.
static json::Value toJSON(double number) {
  const auto whole = static_cast<int64_t>(number);
  return static_cast<double>(whole) == number ? json::Value(whole)
                                              : json::Value(number);
}

// Returns the text of adapter_config.json. `saved` names the trained parameters
// that belong to no adapter.
static std::string describeConfig(const std::vector<Adapter> &adapters,
                                  const std::vector<std::string> &saved) {
  json::Array modules, savedModules;
  json::Object ranks, alphas;
  const Adapter &first = adapters.front();
  for (const Adapter &adapter : adapters) {
    const std::string name =
        json::fixUTF8(onnx_frontend::getONNXName(adapter.module));
    modules.push_back(name);
    if (adapter.rank != first.rank)
      ranks[name] = adapter.rank;
    if (adapter.alpha != first.alpha)
      alphas[name] = toJSON(adapter.alpha);
  }
  llvm::StringSet<> seen;
  for (StringRef name : saved)
    if (StringRef module = name.rsplit('.').first; seen.insert(module).second)
      savedModules.push_back(json::fixUTF8(module));
  json::Value toSave = savedModules.empty()
                           ? json::Value(nullptr)
                           : json::Value(std::move(savedModules));
  return llvm::formatv("{0:2}\n",
                       json::Value(json::Object{
                           {"peft_type", "LORA"},
                           // PEFT looks for a model of this name on the net.
                           {"base_model_name_or_path", nullptr},
                           {"task_type", nullptr},
                           {"inference_mode", true},
                           {"r", first.rank},
                           {"lora_alpha", toJSON(first.alpha)},
                           {"lora_dropout", 0.0},
                           {"bias", "none"},
                           {"fan_in_fan_out", false},
                           {"init_lora_weights", true},
                           {"target_modules", std::move(modules)},
                           {"modules_to_save", std::move(toSave)},
                           {"rank_pattern", std::move(ranks)},
                           {"alpha_pattern", std::move(alphas)}}))
      .str();
}

Status mpc::tools::writeAdapters(const std::string &file,
                                 std::vector<Array> trained,
                                 const std::vector<Adapter> &adapters) {
  const StringRef extension = llvm::sys::path::extension(file);
  const bool isRuntimes = extension == kRuntimeAdapterExtension;
  std::vector<std::string> saved;
  for (Array &array : trained) {
    StringRef name = onnx_frontend::getONNXName(array.name);
    if (!name.ends_with(kAdapterASuffix) && !name.ends_with(kAdapterBSuffix))
      saved.push_back(name.str());
    array.name = (StringRef(isRuntimes ? "" : kPEFTPrefix.data()) + name).str();
  }
  if (isRuntimes)
    return writeRuntimeAdapter(file, trained);
  if (Status status = runtime::train::writeArrays(file, trained); !status.ok())
    return status;
  if (extension != ".safetensors")
    return Status();
  return runtime::train::replaceFile(configBeside(file),
                                     {describeConfig(adapters, saved)});
}

//===----------------------------------------------------------------------===//
// Values of --weights
//===----------------------------------------------------------------------===//

llvm::Expected<onnx_frontend::TensorMap>
mpc::tools::takeAdapterValues(const onnx_frontend::Model &model,
                              onnx_frontend::ImportOptions &options,
                              bool hasAdapters) {
  llvm::StringSet<> taken;
  for (StringRef name : onnx_frontend::getTakenNames(model))
    taken.insert(name);
  auto isPart = [&](StringRef name) {
    return (name.ends_with(kAdapterASuffix) ||
            name.ends_with(kAdapterBSuffix)) &&
           !taken.contains(name);
  };
  onnx_frontend::TensorMap values;
  for (auto file = options.weightFiles.begin();
       file != options.weightFiles.end();) {
    std::vector<std::string> &names = file->second;
    for (const std::string &name : names) {
      // Several files may have the adapter. `options` has the last value.
      if (!isPart(name) || values.contains(name))
        continue;
      const onnx_frontend::HostTensor value = options.weights.lookup(name);
      if (!hasAdapters)
        return onnx_frontend::makeError(
            onnx_frontend::ErrorKind::Usage,
            "--weights " + file->first + " has adapters, such as '" + name +
                "'; add --lora RANK:ALPHA, with the numbers they were trained "
                "with");
      if (!value.isFloat())
        return onnx_frontend::makeError(
            onnx_frontend::ErrorKind::InvalidInput,
            "--weights " + file->first + ": expected floats as '" + name + "'");
      values[name] = value;
      options.weights.erase(name);
    }
    llvm::erase_if(names, isPart);
    // A file that has only adapters names nothing in the model.
    file = names.empty() ? options.weightFiles.erase(file) : std::next(file);
  }
  return values;
}

// Returns the alpha of a module in PEFT's configuration; nullopt if it has
// none. A key of alpha_pattern is an expression for the end of a module's name.
static std::optional<double> findAlpha(const json::Object &config,
                                       StringRef module) {
  if (const json::Object *patterns = config.getObject("alpha_pattern"))
    for (const auto &[key, value] : *patterns)
      if (NamePattern("^(.*\\.)?(" + key.str() + ")$").match(module))
        return value.getAsNumber();
  return config.getNumber("lora_alpha");
}

namespace {
/// A file of adapters, and PEFT's configuration beside.
struct ConfiguredFile {
  std::vector<Array> arrays; ///< names, types and shapes
  std::string path;          ///< of the configuration
  json::Object config;
};
} // namespace

// Reads the configuration beside a file of --weights; nullopt if there is none.
static llvm::Expected<std::optional<ConfiguredFile>>
readConfig(const std::string &file) {
  ConfiguredFile read;
  read.path = configBeside(file);
  StatusOr<bool> isThere = runtime::train::exists(read.path);
  if (!StringRef(file).ends_with(".safetensors") || !isThere.ok() || !*isThere)
    return std::nullopt;
  auto text = llvm::MemoryBuffer::getFile(read.path, /*IsText=*/true);
  StatusOr<std::vector<Array>> arrays = runtime::train::readPackedArrays(file);
  if (!text || !arrays.ok())
    return onnx_frontend::makeError(
        onnx_frontend::ErrorKind::IO,
        text ? arrays.status().message()
             : read.path + ": cannot read: " + text.getError().message());
  const nlohmann::json parsed = runtime::parseBoundedJSON((*text)->getBuffer());
  llvm::Expected<json::Value> value = json::parse(runtime::textOf(parsed));
  if (!value || !value->getAsObject()) {
    llvm::consumeError(value.takeError());
    return onnx_frontend::makeError(onnx_frontend::ErrorKind::InvalidInput,
                                    read.path + ": expected a JSON object");
  }
  read.arrays = std::move(*arrays);
  read.config = std::move(*value->getAsObject());
  return read;
}

// Returns the setting that makes an adapter another than W + scale * B A, as
// "KEY": VALUE; empty for plain LoRA.
static std::string findOtherKind(const json::Object &config) {
  auto isSet = [&](StringRef key) {
    const json::Value *value = config.get(key);
    if (!value || value->kind() == json::Value::Null)
      return false;
    if (key == "peft_type")
      return value->getAsString() != "LORA";
    if (key == "bias")
      return value->getAsString() != "none";
    return value->getAsBoolean().value_or(true);
  };
  for (StringRef key :
       {"peft_type", "bias", "use_dora", "lora_bias", "use_qalora",
        "use_bdlora", "layer_replication", "trainable_token_indices",
        "target_parameters", "alora_invocation_tokens"})
    if (isSet(key))
      return llvm::formatv("\"{0}\": {1}", key, *config.get(key)).str();
  return "";
}

llvm::Error mpc::tools::checkAdapterKind(const std::string &file) {
  auto read = readConfig(file);
  if (!read)
    return read.takeError();
  // The file may be of another kind than the configuration beside.
  if (!*read || llvm::none_of((*read)->arrays, [](const Array &array) {
        return StringRef(array.name).starts_with(kPEFTPrefix);
      }))
    return llvm::Error::success();
  const std::string kind = findOtherKind((*read)->config);
  if (kind.empty())
    return llvm::Error::success();
  return onnx_frontend::makeError(
      onnx_frontend::ErrorKind::Unsupported,
      "--weights " + file + ": expected plain LoRA, found " + kind + " in " +
          (*read)->path +
          "; merge the adapter in PEFT, with merge_and_unload(), and give the "
          "merged weights");
}

static llvm::Error checkConfig(const std::string &file,
                               ArrayRef<Adapter> adapters) {
  auto read = readConfig(file);
  if (!read)
    return read.takeError();
  if (!*read)
    return llvm::Error::success();
  const json::Object &config = (*read)->config;
  const std::string &path = (*read)->path;
  for (const Adapter &adapter : adapters) {
    const StringRef part = onnx_frontend::getONNXName(adapter.a);
    if (llvm::none_of((*read)->arrays, [&](const Array &array) {
          return StringRef(array.name).ends_with(part);
        }))
      continue;
    std::optional<double> alpha =
        findAlpha(config, onnx_frontend::getONNXName(adapter.module));
    if (!alpha)
      continue;
    // With use_rslora, PEFT divides by the root of the rank.
    const auto rank = static_cast<double>(adapter.rank);
    const bool isRooted = config.getBoolean("use_rslora").value_or(false);
    const double expected = isRooted ? *alpha * std::sqrt(rank) : *alpha;
    if (std::abs(expected - adapter.alpha) <= 1e-6 * std::abs(expected))
      continue;
    return onnx_frontend::makeError(
        onnx_frontend::ErrorKind::Usage,
        llvm::formatv("--weights {0}: '{1}' has lora_alpha {2}{3} in {4}, "
                      "found --lora with ALPHA {5}; use --lora {6}:{7}, or "
                      "remove the file if it belongs to another adapter",
                      file, part, toJSON(*alpha),
                      isRooted ? " with use_rslora" : "", path,
                      toJSON(adapter.alpha), adapter.rank, toJSON(expected))
            .str());
  }
  return llvm::Error::success();
}

llvm::Error mpc::tools::checkAdapterConfigs(ArrayRef<std::string> files,
                                            ArrayRef<Adapter> adapters) {
  for (const std::string &file : files)
    if (!adapters.empty())
      if (llvm::Error error = checkConfig(file, adapters))
        return error;
  return llvm::Error::success();
}

void mpc::tools::declareAdapterValues(ModuleOp module,
                                      const onnx_frontend::TensorMap &values) {
  Builder builder(module.getContext());
  VariableTable variables(module);
  std::vector<StringRef> names;
  for (StringRef name : values.keys())
    names.push_back(name);
  llvm::sort(names);
  for (StringRef name : names) {
    const onnx_frontend::HostTensor value = values.lookup(name);
    VariableOp variable = variables.declare(name, value.type, Role::Parameter);
    variable.setInitAttr(
        DenseElementsAttr::getFromRawBuffer(value.type, value.data));
    variable->setAttr(kAdapterAttr, builder.getUnitAttr());
  }
}
