// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Origins.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/RepeatedElements.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// Finds the names of values that depend on data: inputs of the model and
// results of nodes. Results also have names in the program's calls.
static llvm::StringSet<> findData(const proto::GraphProto &file) {
  llvm::StringSet<> data;
  for (const proto::NodeProto &node : file.node()) {
    for (const std::string &output : node.output())
      data.insert(output);
    // "%index : [num_users=1] = call_function[...]"
    StringRef call = findMetadata(node, kProgramCall);
    if (call.consume_front("%"))
      data.insert(call.split(" :").first);
  }
  for (const proto::ValueInfoProto &input : file.input())
    data.insert(input.name());
  return data;
}

// True if the exporter folded the value from constants alone, like a
// normalization's scale of ones. The metadata list the values from which it was
// folded, as in "['val_0', 'val_7']"; a parameter would have the program's
// name. Data may also occur, as in "['conv1d', 'val_0']": folding can use only
// the type or shape of data.
static bool isFoldedFromConstants(const proto::ValueInfoProto &value,
                                  const llvm::StringSet<> &data) {
  auto names = readMetadataList(value, kFoldedFrom);
  return !names.empty() && llvm::all_of(names, [&](StringRef name) {
    return isExportersName(name) || data.contains(name);
  });
}

// True if the exporter folded the value from a single parameter, and made up a
// name like "val_7".
static bool isRenamed(const proto::ValueInfoProto &value,
                      const llvm::StringSet<> &parameters) {
  auto names = readMetadataList(value, kFoldedFrom);
  return isExportersName(value.name()) &&
         llvm::count_if(names, [&](StringRef name) {
           return parameters.contains(name);
         }) == 1;
}

bool mpc::onnx_frontend::isMovedParameter(
    const Graph &graph, const proto::ValueInfoProto &value,
    const llvm::StringSet<> &unitMultiples) {
  if (!isMoved(value, graph.getModel().getProgram(), unitMultiples))
    return false;
  const proto::TensorProto *tensor = graph.getInitializer(value.name());
  if (!tensor || !holdsFloats(*tensor))
    return false;
  if (!mayRepeat(value))
    return true;
  llvm::Expected<HostTensor> values =
      graph.getModel().decode(*tensor, "initializer '" + tensor->name() + "'");
  if (values) {
    std::vector<double> numbers(values->getNumElements());
    for (auto [i, number] : llvm::enumerate(numbers))
      number = values->getDouble(i);
    return values->isSplat() || !hasRepeats(numbers);
  }
  // Drop the error: the import reports undecodable tensors.
  llvm::consumeError(values.takeError());
  return false;
}

static bool isOneNumber(const proto::TensorProto &tensor) {
  return llvm::all_of(tensor.dims(),
                      [](int64_t extent) { return extent == 1; });
}

// Marks constants made up by the exporter, like the zeros of an initial state:
// initializers without metadata and with a made-up name like "val_7", in a file
// with metadata of parameters.
static void addConstants(const proto::GraphProto &file,
                         llvm::StringMap<std::string> &origins) {
  const bool isKnown = llvm::any_of(origins, [](const auto &entry) {
    return entry.second == kParameterOrigin;
  });
  llvm::StringSet<> folded;
  for (const proto::ValueInfoProto &value : file.value_info())
    if (!findMetadata(value, kFoldedFrom).empty())
      folded.insert(value.name());
  for (const proto::TensorProto &tensor : file.initializer()) {
    if (isKnown && (isOneNumber(tensor) || !folded.empty()) &&
        isExportersName(tensor.name()) && !folded.contains(tensor.name()))
      origins.try_emplace(tensor.name(), kFoldedOrigin);
  }
}

llvm::StringMap<std::string>
mpc::onnx_frontend::findOrigins(const Graph &graph) {
  llvm::StringMap<std::string> origins;
  const proto::GraphProto &file = graph.getModel().getProto().graph();
  const llvm::StringSet<> unitMultiples = findUnitMultiples(file);
  const llvm::StringSet<> data = findData(file);
  for (const auto *values : {&file.value_info(), &file.input()})
    for (const proto::ValueInfoProto &value : *values) {
      // The metadata have the kinds PARAMETER, BUFFER, CONSTANT_TENSOR, ...
      StringRef kind = findMetadata(value, kInputKindKey);
      if (!kind.empty())
        origins[value.name()] = kind.str();
      else if (isFoldedFromConstants(value, data))
        origins[value.name()] = kFoldedOrigin;
      else if (isRenamed(value, graph.getModel().getProgram().parameters) ||
               isMovedParameter(graph, value, unitMultiples))
        origins[value.name()] = kParameterOrigin;
    }
  addConstants(file, origins);
  return origins;
}

llvm::StringSet<> mpc::onnx_frontend::findComputedNumbers(
    const Graph &graph, const llvm::StringMap<std::string> &origins) {
  llvm::StringSet<> numbers;
  for (const auto &[name, origin] : origins) {
    const proto::TensorProto *tensor = graph.getInitializer(name);
    if (origin == kFoldedOrigin && tensor && isOneNumber(*tensor))
      numbers.insert(name);
  }
  return numbers;
}
