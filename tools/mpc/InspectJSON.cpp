// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/InspectJSON.h"

#include "runtime/BoundedJSON.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using JSONValue = nlohmann::json;

std::string mpc::tools::elementWord(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // Unsigned integers as everywhere but in the IR: u8, not ui8.
  if (type.isUnsignedInteger())
    os << 'u' << type.getIntOrFloatBitWidth();
  else
    os << type;
  return text;
}

void mpc::tools::printJSON(const JSONValue &object) {
  llvm::outs() << textOf(object) << "\n";
}

JSONValue mpc::tools::describeFile(const std::string &file, const char *kind) {
  return {{"file", file}, {"kind", kind}};
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

// Extents are numbers, open ones have their names: "N,3" is ["N", 3].
static JSONValue describeDimensions(llvm::StringRef list) {
  JSONValue shape = JSONValue::array();
  llvm::SmallVector<llvm::StringRef> parts;
  list.split(parts, ',', /*MaxSplit=*/-1, /*KeepEmpty=*/false);
  for (llvm::StringRef part : parts) {
    int64_t extent;
    if (part.getAsInteger(10, extent))
      shape.push_back(part.str());
    else
      shape.push_back(extent);
  }
  return shape;
}

JSONValue mpc::tools::describeValue(llvm::StringRef text) {
  auto [name, type] = text.rsplit(": ");
  JSONValue value = {{"name", name.str()},
                     {"type", type.split('[').first.str()}};
  llvm::StringRef list = type.drop_front(type.split('[').first.size());
  if (list != "[...]" && list.consume_front("[") && list.consume_back("]"))
    value["shape"] = describeDimensions(list);
  // A scalar has neither extents nor brackets.
  else if (list.empty())
    value["shape"] = JSONValue::array();
  return value;
}

static JSONValue describeTexts(const std::vector<std::string> &texts) {
  JSONValue values = JSONValue::array();
  for (const std::string &text : texts)
    values.push_back(describeValue(text));
  return values;
}

JSONValue mpc::tools::describe(const std::string &file,
                               const onnx_frontend::ModelSummary &summary) {
  JSONValue object = describeFile(file, "model");
  object["producer"] = summary.producer;
  object["ir_version"] = summary.irVersion;
  object["opsets"] = JSONValue::object();
  for (const auto &[domain, version] : summary.opsets)
    object["opsets"][domain] = version;
  object["inputs"] = describeTexts(summary.inputs);
  object["outputs"] = describeTexts(summary.outputs);
  object["ops"] = summary.ops;
  object["initializers"] = summary.initializers;
  object["float_elements"] = summary.parameters;
  object["has_training_info"] = summary.hasTrainingInfo;
  return object;
}

JSONValue mpc::tools::describe(
    const std::vector<onnx_frontend::ParameterSummary> &parameters) {
  JSONValue list = JSONValue::array();
  for (const onnx_frontend::ParameterSummary &parameter : parameters) {
    JSONValue object = {{"name", parameter.name},
                        {"type", elementWord(parameter.type.getElementType())},
                        {"shape", parameter.type.getShape().vec()},
                        {"elements", parameter.type.getNumElements()},
                        {"trained", parameter.isTrained}};
    if (!parameter.isTrained)
      object["why"] = parameter.why;
    list.push_back(std::move(object));
  }
  return list;
}

JSONValue
mpc::tools::describe(const std::vector<onnx_frontend::LayerSummary> &layers) {
  JSONValue list = JSONValue::array();
  for (const onnx_frontend::LayerSummary &layer : layers) {
    JSONValue object = {{"node", layer.name},
                        {"op", layer.op},
                        {"elements", layer.elements},
                        {"parameters", layer.parameters}};
    if (!layer.type.empty())
      object["output"] = describeValue(layer.output + ": " + layer.type);
    else
      object["output"] = {{"name", layer.output}};
    list.push_back(std::move(object));
  }
  return list;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

static JSONValue describePorts(const Function &function,
                               const std::vector<FunctionValue> &values) {
  JSONValue list = JSONValue::array();
  for (const FunctionValue &value : values) {
    const Buffer &buffer = function.buffers[value.buffer];
    list.push_back({{"name", value.name},
                    {"type", nameOf(buffer.type)},
                    {"shape", buffer.shape},
                    {"role", stringify(value.role)}});
  }
  return list;
}

JSONValue mpc::tools::describe(const std::string &file, const Plan &plan,
                               bool hasVariables) {
  JSONValue object = describeFile(file, "artifact");
  object["producer"] = plan.producer;
  object["model"] = {{"name", plan.modelName}, {"hash", plan.modelHash}};
  object["target"] = {{"cpu", plan.target.cpu},
                      {"features", plan.target.features}};
  object["precision"] = plan.precision;
  object["recipe"] = parseBoundedJSON(plan.recipe);
  object["state_bytes"] = plan.stateBytes();
  object["activation_bytes"] = plan.activationBytes();
  object["functions"] = JSONValue::object();
  for (const auto &[name, function] : plan.functions)
    object["functions"][name] = {
        {"steps", function.steps.size()},
        {"inputs", describePorts(function, function.inputs)},
        {"outputs", describePorts(function, function.outputs)}};
  if (!hasVariables)
    return object;
  object["variables"] = JSONValue::array();
  for (const StateVariable &variable : plan.state)
    object["variables"].push_back({{"name", variable.name},
                                   {"type", nameOf(variable.type)},
                                   {"shape", variable.shape},
                                   {"role", stringify(variable.role)}});
  return object;
}

//===----------------------------------------------------------------------===//
// Data
//===----------------------------------------------------------------------===//

JSONValue mpc::tools::describe(const std::vector<train::Array> &arrays) {
  JSONValue list = JSONValue::array();
  for (const train::Array &array : arrays)
    list.push_back({{"name", array.name},
                    {"type", train::nameOf(array.type)},
                    {"shape", array.shape}});
  return list;
}

JSONValue mpc::tools::describeTable(const std::string &file, int64_t rows,
                                    const std::vector<train::Array> &columns) {
  JSONValue object = describeFile(file, "table");
  object["rows"] = rows;
  object["columns"] = JSONValue::array();
  for (const train::Array &column : columns) {
    JSONValue entry = {{"name", column.name},
                       {"numbers", column.fault.empty()}};
    if (!column.fault.empty())
      entry["why"] = column.fault;
    object["columns"].push_back(std::move(entry));
  }
  return object;
}
