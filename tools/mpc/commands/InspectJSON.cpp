// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/InspectJSON.h"

#include "runtime/BoundedJSON.h"
#include "tools/mpc/flags/DeclaredShapes.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using JSONValue = nlohmann::json;

std::string mpc::tools::elementWord(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  // MLIR prints ui8; mpc writes u8 everywhere else.
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

// Describes an input or output of a model. An open dimension appears by name:
// the shape of f32[N,3] is ["N", 3]. The shape of a scalar is []; if the rank
// is open, there is no shape.
static JSONValue describeDeclared(const std::string &name,
                                  const std::string &type) {
  const DeclaredShape declared = parseDeclaredShape(name, type);
  JSONValue value = {{"name", name}, {"type", declared.type}};
  if (declared.dimensions || type == declared.type)
    value["shape"] = JSONValue::array();
  for (size_t axis = 0;
       declared.dimensions && axis < declared.dimensions->size(); ++axis)
    if (std::optional<int64_t> extent = declared.extent(axis))
      value["shape"].push_back(*extent);
    else
      value["shape"].push_back((*declared.dimensions)[axis]);
  return value;
}

static JSONValue
describeDeclared(const std::vector<std::pair<std::string, std::string>> &all) {
  JSONValue values = JSONValue::array();
  for (const auto &[name, type] : all)
    values.push_back(describeDeclared(name, type));
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
  object["inputs"] = describeDeclared(summary.inputs);
  object["outputs"] = describeDeclared(summary.outputs);
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
      object["output"] = describeDeclared(layer.output, layer.type);
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
                    {"type", train::typeNameOf(array)},
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
