// Writes a model without its trained weights, into which the runtime puts the
// weights.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/ExportImpl.h"
#include "frontends/ONNX/Export/InferenceMode.h"
#include "frontends/ONNX/Export/Serialize.h"

#include <climits>
#include <deque>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

namespace {
/// Takes the elements out of a tensor, and puts them back when destroyed. The
/// elements do not move in memory.
class HeldElements {
public:
  explicit HeldElements(proto::TensorProto &tensor) : tensor(tensor) { swap(); }
  HeldElements(const HeldElements &) = delete;
  ~HeldElements() { swap(); }

private:
  void swap() {
    std::string *bytes =
        tensor.has_raw_data() ? tensor.release_raw_data() : nullptr;
    if (rawData)
      tensor.set_allocated_raw_data(rawData);
    rawData = bytes;
    tensor.mutable_float_data()->Swap(&floats);
    tensor.mutable_int32_data()->Swap(&integers);
    tensor.mutable_double_data()->Swap(&doubles);
  }

  proto::TensorProto &tensor;
  std::string *rawData = nullptr;
  google::protobuf::RepeatedField<float> floats;
  google::protobuf::RepeatedField<int32_t> integers;
  google::protobuf::RepeatedField<double> doubles;
};
} // namespace

// Makes initializers of the Constant nodes that receive values: only the
// elements of an initializer can be left out.
Error ExportModel::Impl::moveConstants() {
  proto::GraphProto &graph = *model->getProto().mutable_graph();
  llvm::SmallPtrSet<const proto::TensorProto *, 32> initializers, moved;
  for (const proto::TensorProto &tensor : graph.initializer())
    initializers.insert(&tensor);
  for (const auto &[variable, place] : places)
    if (!initializers.contains(place))
      moved.insert(place);
  auto &nodes = *graph.mutable_node();
  for (int i = nodes.size() - 1; i >= 0 && !moved.empty(); --i) {
    if (nodes.Get(i).op_type() != "Constant")
      continue;
    for (proto::AttributeProto &value : *nodes.Mutable(i)->mutable_attribute())
      if (value.has_t() && moved.erase(&value.t())) {
        proto::TensorProto *tensor = value.release_t();
        tensor->set_name(nodes.Get(i).output(0));
        graph.mutable_initializer()->AddAllocated(tensor);
        nodes.DeleteSubrange(i, 1);
        break;
      }
  }
  if (moved.empty())
    return Error::success();
  return model->error(ErrorKind::Unsupported,
                      Twine(moved.size()) +
                          " trained tensors are not in the main graph");
}

Expected<ModelTemplate> ExportModel::Impl::writeTemplate() {
  llvm::DenseMap<const proto::TensorProto *, StringRef> variables;
  std::deque<HeldElements> held;
  for (const auto &[variable, place] : places) {
    variables[place] = variable;
    held.emplace_back(*place);
  }
  auto getType = [&](const proto::TensorProto &tensor) {
    return cantFail(model->getElementType(tensor.data_type(), tensor.name()));
  };
  auto countBytes =
      [&](const proto::TensorProto &tensor) -> std::optional<uint64_t> {
    if (!variables.contains(&tensor))
      return std::nullopt;
    uint64_t bytes = getElementBytes(getType(tensor));
    for (int64_t extent : tensor.dims())
      bytes *= extent;
    return bytes;
  };
  uint64_t size = getProto().ByteSizeLong();
  for (const auto &[variable, place] : places)
    size += *countBytes(*place);
  if (size > INT_MAX)
    return model->error(ErrorKind::Unsupported,
                        "the model does not fit into one file of 2 GiB");
  ModelTemplate result;
  auto leaveOut = [&](const proto::TensorProto &tensor, uint64_t position) {
    result.holes.push_back(
        {variables.lookup(&tensor).str(), getType(tensor), position});
  };
  google::protobuf::io::StringOutputStream stream(&result.bytes);
  [[maybe_unused]] bool isWritten = onnx_frontend::serialize(
      getProto(), {countBytes, nullptr, leaveOut}, stream);
  assert(isWritten && "a string takes any bytes");
  return result;
}

Expected<ModelTemplate>
ExportModel::Impl::makeTemplate(const ShapeMap &shapes) {
  if (Error error = check(shapes))
    return error;
  for (const auto &[variable, shape] : shapes) {
    StringRef name = findName(variable);
    if (!tensors.contains(name))
      detach(name);
    places[variable] = tensors.lookup(name);
  }
  if (Error error = moveConstants())
    return error;
  if (Error error = loadExternal())
    return error;
  setInferenceMode(getProto());
  for (proto::TensorProto *tensor : collectTensors(getProto())) {
    tensor->clear_external_data();
    tensor->clear_data_location();
  }
  return writeTemplate();
}
