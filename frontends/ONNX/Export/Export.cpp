// Writing of trained models.
//
// The file that was read is read again and its tensors are replaced, so that
// whatever this version does not know of the format survives as it is.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Export.h"

#include "frontends/ONNX/Export/InferenceMode.h"
#include "frontends/ONNX/File.h"
#include "frontends/ONNX/Graph.h"
#include "frontends/ONNX/Names.h"

#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <climits>
#include <google/protobuf/io/zero_copy_stream_impl.h>

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

// Smaller tensors stay in the file even where a model is too large for one.
static constexpr size_t kSmallestExternal = 1024;
// Pages, so that tensors can be mapped.
static constexpr uint64_t kAlignment = 4096;

namespace {
/// One export.
class Exporter {
public:
  Exporter(Model &model, StringRef destination)
      : model(model), destination(destination),
        dataPath((destination + ".data").str()) {}

  Error replaceValues(const TensorMap &values);
  Error write();

private:
  void indexTensors(proto::GraphProto &graph);
  void detach(StringRef name);
  Error replace(StringRef name, proto::TensorProto &tensor,
                const HostTensor &value);
  Expected<std::vector<proto::TensorProto *>> findExternal();
  Error writeData(ArrayRef<proto::TensorProto *> tensors);

  Model &model;
  StringRef destination;
  std::string dataPath;
  /// Initializers and values of Constant nodes, by name.
  llvm::StringMap<proto::TensorProto *> tensors;
  /// value_floats of Constant nodes.
  llvm::StringMap<proto::AttributeProto *> lists;
  /// Identity nodes, by output.
  llvm::StringMap<proto::NodeProto *> identities;
  /// Tensors that were external and whose new value is in raw_data.
  llvm::SmallPtrSet<proto::TensorProto *, 8> replacedExternal;
};
} // namespace

//===----------------------------------------------------------------------===//
// New values
//===----------------------------------------------------------------------===//

void Exporter::indexTensors(proto::GraphProto &graph) {
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    tensors.try_emplace(tensor.name(), &tensor);
  for (proto::NodeProto &node : *graph.mutable_node()) {
    if (node.op_type() == "Identity" && node.output_size() == 1)
      identities.try_emplace(node.output(0), &node);
    if (node.op_type() != "Constant" || node.output_size() != 1)
      continue;
    for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.name() == "value" && attribute.has_t())
        tensors.try_emplace(node.output(0), attribute.mutable_t());
      if (attribute.name() == "value_floats")
        lists.try_emplace(node.output(0), &attribute);
    }
  }
}

static void clearData(proto::TensorProto &tensor) {
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_double_data();
  tensor.clear_uint64_data();
  tensor.clear_raw_data();
}

Error Exporter::replace(StringRef name, proto::TensorProto &tensor,
                        const HostTensor &value) {
  std::string what = "tensor '" + name.str() + "'";
  Expected<Type> element = model.getElementType(tensor.data_type(), what);
  if (!element)
    return element.takeError();
  ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  std::optional<HostTensor> converted = convertFloats(value, *element);
  if (!converted || value.getShape() != dims) {
    std::string found;
    llvm::raw_string_ostream(found)
        << Type(value.type) << " does not fit "
        << Type(RankedTensorType::get(dims, *element));
    return model.error(ErrorKind::Invalid,
                       what + ": a new value of type " + found);
  }
  if (tensor.data_location() == proto::TensorProto::EXTERNAL)
    replacedExternal.insert(&tensor);
  clearData(tensor);
  tensor.set_raw_data(converted->data.data(), converted->data.size());
  return Error::success();
}

// A statistic that the file has as an Identity of another: now that it has a
// value of its own, the node is a Constant.
void Exporter::detach(StringRef name) {
  proto::NodeProto *node = identities.lookup(name);
  if (!node || node->input_size() != 1)
    return;
  // Through chains of Identity, each node at most once.
  StringRef source = node->input(0);
  for (size_t i = 0; i < identities.size() && !tensors.contains(source); ++i)
    if (proto::NodeProto *before = identities.lookup(source))
      source = before->input(0);
  const proto::TensorProto *tensor = tensors.lookup(source);
  if (!tensor)
    return;
  node->set_op_type("Constant");
  node->clear_input();
  proto::AttributeProto *value = node->add_attribute();
  value->set_name("value");
  value->set_type(proto::AttributeProto::TENSOR);
  value->mutable_t()->set_data_type(tensor->data_type());
  value->mutable_t()->mutable_dims()->CopyFrom(tensor->dims());
  tensors.try_emplace(name, value->mutable_t());
}

Error Exporter::replaceValues(const TensorMap &values) {
  proto::ModelProto &file = model.getProto();
  indexTensors(*file.mutable_graph());
  for (proto::TrainingInfoProto &info : *file.mutable_training_info())
    if (info.has_algorithm())
      indexTensors(*info.mutable_algorithm());
  for (const auto &entry : values) {
    StringRef name = entry.first();
    if (!tensors.contains(name) && !lists.contains(name))
      name = getONNXName(name);
    if (!tensors.contains(name) && !lists.contains(name))
      detach(name);
    if (proto::TensorProto *tensor = tensors.lookup(name)) {
      if (Error error = replace(name, *tensor, entry.second))
        return error;
      continue;
    }
    proto::AttributeProto *list = lists.lookup(name);
    bool fits =
        list && entry.second.isFloat() &&
        entry.second.getShape() == ArrayRef<int64_t>(list->floats_size());
    if (!fits)
      return model.error(ErrorKind::Invalid,
                         "the model has no tensor '" + name +
                             "' of the shape of its new value");
    for (int i = 0; i < list->floats_size(); ++i)
      list->set_floats(i, static_cast<float>(entry.second.getDouble(i)));
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

// All tensors of the model, those of subgraphs included.
static std::vector<proto::TensorProto *>
collectTensors(proto::ModelProto &model) {
  std::vector<proto::TensorProto *> result;
  std::vector<proto::GraphProto *> graphs = {model.mutable_graph()};
  for (proto::TrainingInfoProto &info : *model.mutable_training_info()) {
    if (info.has_initialization())
      graphs.push_back(info.mutable_initialization());
    if (info.has_algorithm())
      graphs.push_back(info.mutable_algorithm());
  }
  auto addNode = [&](proto::NodeProto &node) {
    for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        result.push_back(attribute.mutable_t());
      for (proto::TensorProto &tensor : *attribute.mutable_tensors())
        result.push_back(&tensor);
      if (attribute.has_g())
        graphs.push_back(attribute.mutable_g());
      for (proto::GraphProto &graph : *attribute.mutable_graphs())
        graphs.push_back(&graph);
    }
  };
  for (proto::FunctionProto &function : *model.mutable_functions())
    for (proto::NodeProto &node : *function.mutable_node())
      addNode(node);
  while (!graphs.empty()) {
    proto::GraphProto *graph = graphs.back();
    graphs.pop_back();
    for (proto::TensorProto &tensor : *graph->mutable_initializer())
      result.push_back(&tensor);
    for (proto::NodeProto &node : *graph->mutable_node())
      addNode(node);
  }
  return result;
}

// The tensors that go to the data file, their bytes in raw_data: those that
// were external, and large ones where one file cannot hold the model.
Expected<std::vector<proto::TensorProto *>> Exporter::findExternal() {
  std::vector<proto::TensorProto *> all = collectTensors(model.getProto());
  std::vector<proto::TensorProto *> external;
  bool isTooLarge = model.getProto().ByteSizeLong() > INT_MAX;
  for (proto::TensorProto *tensor : all) {
    bool wasExternal = tensor->data_location() == proto::TensorProto::EXTERNAL;
    bool isLarge = isTooLarge && tensor->raw_data().size() >= kSmallestExternal;
    if (!wasExternal && !isLarge)
      continue;
    external.push_back(tensor);
    if (!wasExternal || replacedExternal.contains(tensor))
      continue;
    auto bytes = model.decode(*tensor, "tensor '" + tensor->name() + "'");
    if (!bytes)
      return bytes.takeError();
    tensor->set_raw_data(bytes->data.data(), bytes->data.size());
  }
  return external;
}

static void setExternal(proto::TensorProto &tensor, StringRef file,
                        uint64_t offset, uint64_t length) {
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(proto::TensorProto::EXTERNAL);
  for (auto [key, value] :
       {std::pair<StringRef, std::string>("location", file.str()),
        {"offset", std::to_string(offset)},
        {"length", std::to_string(length)}}) {
    auto *entry = tensor.add_external_data();
    entry->set_key(key.str());
    entry->set_value(value);
  }
}

Error Exporter::writeData(ArrayRef<proto::TensorProto *> tensors) {
  Expected<AtomicFile> file = AtomicFile::create(dataPath);
  if (!file)
    return file.takeError();
  uint64_t offset = 0;
  for (proto::TensorProto *tensor : tensors) {
    uint64_t start = llvm::alignTo(offset, kAlignment);
    const std::string &bytes = tensor->raw_data();
    if (Error error = file->write(std::string(start - offset, '\0')))
      return error;
    if (Error error = file->write(bytes))
      return error;
    offset = start + bytes.size();
    setExternal(*tensor, llvm::sys::path::filename(dataPath), start,
                bytes.size());
  }
  return file->commit();
}

Error Exporter::write() {
  auto external = findExternal();
  if (!external)
    return external.takeError();
  if (!external->empty())
    if (Error error = writeData(*external))
      return error;
  Expected<AtomicFile> file = AtomicFile::create(destination);
  if (!file)
    return file.takeError();
  google::protobuf::io::FileOutputStream stream(file->getDescriptor());
  bool written =
      model.getProto().SerializeToZeroCopyStream(&stream) && stream.Flush();
  if (!written)
    return makeError(ErrorKind::IO, destination + ": cannot write: " +
                                        std::strerror(stream.GetErrno()));
  return file->commit();
}

Error mpc::onnx_frontend::exportModel(StringRef source, StringRef destination,
                                      const TensorMap &values,
                                      MLIRContext *context) {
  auto model = Model::read(source, context);
  if (!model)
    return model.takeError();
  Exporter exporter(**model, destination);
  if (Error error = exporter.replaceValues(values))
    return error;
  setInferenceMode((*model)->getProto());
  return exporter.write();
}
