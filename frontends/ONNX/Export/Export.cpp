// Writes trained models.
//
// Only the tensors are replaced; everything else in the file is written as it
// was read. So parts of the format that mpc does not know survive.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Export.h"

#include "frontends/ONNX/Export/AdapterNodes.h"
#include "frontends/ONNX/Export/InferenceMode.h"
#include "frontends/ONNX/Export/LowWeights.h"
#include "frontends/ONNX/Export/Serialize.h"
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <climits>
#include <cmath>
#include <deque>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <unistd.h>

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

// A tensor of fewer bytes stays in the model file, even if the model needs a
// data file.
static constexpr size_t kSmallestExternal = 1024;
// The alignment of tensors in the data file: one page, so that readers can map
// each tensor into memory.
static constexpr uint64_t kAlignment = 4096;

class ExportModel::Impl {
public:
  explicit Impl(std::shared_ptr<Model> model) : model(std::move(model)) {}

  Error check(const ShapeMap &shapes);
  Error bind(const ShapeMap &shapes);
  Error setValues(const TensorMap &values);
  Expected<StoredWeights> storeWeights(StoredType type);
  Error write(StringRef destination);
  Expected<ModelTemplate> makeTemplate(const ShapeMap &shapes);
  proto::ModelProto &getProto() { return model->getProto(); }

private:
  void indexTensors(proto::GraphProto &graph);
  StringRef findName(StringRef variable) const;
  proto::TensorProto *findSource(StringRef name) const;
  void detach(StringRef name);
  std::string misfit(StringRef name, const proto::TensorProto *place,
                     ArrayRef<int64_t> shape) const;
  Error loadExternal();
  Error checkValue(StringRef name, const proto::TensorProto &tensor,
                   const HostTensor &value);
  HostTensor convert(const proto::TensorProto &tensor) const;
  Expected<HostTensor> getValue(const proto::TensorProto &tensor) const;
  void storeInline(proto::TensorProto &tensor);
  void storeConstants();
  bool serialize(google::protobuf::io::FileOutputStream &stream);
  uint64_t bytesOf(const proto::TensorProto &tensor) const;
  std::vector<proto::TensorProto *> findExternal();
  Error writeStream();
  Error moveConstants();
  Expected<ModelTemplate> writeTemplate();
  Error writeData(ArrayRef<proto::TensorProto *> tensors, StringRef path);

  std::shared_ptr<Model> model;
  /// Initializers and values of Constant nodes, by name.
  llvm::StringMap<proto::TensorProto *> tensors;
  /// Identity nodes by the name of the output.
  llvm::StringMap<proto::NodeProto *> identities;
  /// The tensor of the file that receives each trained value, by the name of
  /// the variable.
  llvm::StringMap<proto::TensorProto *> places;
  /// The new value of each tensor, set only while writing. Values are converted
  /// and copied as late as possible, because all values together may exceed the
  /// remaining memory.
  llvm::DenseMap<const proto::TensorProto *, const HostTensor *> values;
};

//===----------------------------------------------------------------------===//
// Tensors that receive values
//===----------------------------------------------------------------------===//

void ExportModel::Impl::indexTensors(proto::GraphProto &graph) {
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    tensors.try_emplace(tensor.name(), &tensor);
  for (proto::NodeProto &node : *graph.mutable_node()) {
    if (node.op_type() == "Identity" && node.output_size() == 1)
      identities.try_emplace(node.output(0), &node);
    if (node.op_type() != "Constant" || node.output_size() != 1)
      continue;
    for (proto::AttributeProto &attribute : *node.mutable_attribute())
      if (attribute.name() == "value" && attribute.has_t())
        tensors.try_emplace(node.output(0), attribute.mutable_t());
  }
}

// Finds the stored tensor that the value `name` copies through Identity nodes;
// null if there is none. The number of steps is limited, because the nodes of a
// broken file may form a cycle.
proto::TensorProto *ExportModel::Impl::findSource(StringRef name) const {
  for (size_t i = 0; i < identities.size() && !tensors.contains(name); ++i)
    if (const proto::NodeProto *node = identities.lookup(name);
        node && node->input_size() == 1)
      name = node->input(0);
  return tensors.lookup(name);
}

// Replaces the Identity `name` by a Constant. Two statistics may share a tensor
// in the file, one as Identity of the other, but differ after training.
void ExportModel::Impl::detach(StringRef name) {
  proto::NodeProto *node = identities.lookup(name);
  const proto::TensorProto *tensor = node ? findSource(name) : nullptr;
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

// Explains why a trained value of `shape` cannot replace the tensor `place` of
// the file; empty if it can.
std::string ExportModel::Impl::misfit(StringRef name,
                                      const proto::TensorProto *place,
                                      ArrayRef<int64_t> shape) const {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (!place) {
    bool isInput = llvm::any_of(model->getProto().graph().input(),
                                [&](const proto::ValueInfoProto &input) {
                                  return input.name() == name;
                                });
    os << "'" << name
       << (isInput ? "' is an input without a value" : "' is missing");
    return text;
  }
  SmallVector<int64_t> dims(place->dims().begin(), place->dims().end());
  auto print = [&](ArrayRef<int64_t> shape) {
    os << "[";
    llvm::interleave(shape, os, ", ");
    os << "]";
  };
  if (dims != shape) {
    os << "'" << name << "' has the shape ";
    print(dims);
    os << ", its new value ";
    print(shape);
    return text;
  }
  // The shapes agree. Trained values are floats, so the tensor must hold
  // floats, too.
  Expected<Type> element = model->getElementType(place->data_type(), "tensor");
  if (element && isa<FloatType>(*element))
    return text;
  if (!element)
    llvm::consumeError(element.takeError());
  os << "'" << name << "' is no tensor of floats";
  return text;
}

// Frees the memory of a repeated field. Clear() would keep the memory
// allocated.
template <typename T>
static void drop(google::protobuf::RepeatedField<T> &field) {
  google::protobuf::RepeatedField<T>().Swap(&field);
}

static void dropData(proto::TensorProto &tensor) {
  drop(*tensor.mutable_float_data());
  drop(*tensor.mutable_int32_data());
  drop(*tensor.mutable_int64_data());
  drop(*tensor.mutable_double_data());
  drop(*tensor.mutable_uint64_data());
  delete tensor.release_raw_data();
}

// Returns the name in the file of the mpc variable `variable`.
StringRef ExportModel::Impl::findName(StringRef variable) const {
  return tensors.contains(variable) ? variable : getONNXName(variable);
}

// Checks that every value has a tensor to replace.
Error ExportModel::Impl::check(const ShapeMap &shapes) {
  proto::ModelProto &file = model->getProto();
  indexTensors(*file.mutable_graph());
  for (proto::TrainingInfoProto &info : *file.mutable_training_info())
    if (info.has_algorithm())
      indexTensors(*info.mutable_algorithm());
  // Name only the first tensors that cannot be replaced, and count the others.
  constexpr size_t shown = 5;
  std::string misfits;
  size_t count = 0;
  // The name of a variable may differ from the tensor's name in the file.
  for (const auto &[variable, shape] : shapes) {
    StringRef name = findName(variable);
    std::string problem = misfit(name, findSource(name), shape);
    if (!problem.empty() && ++count <= shown)
      misfits += (count > 1 ? "; " : "") + problem;
  }
  // If the values belong to another model, none of them fits: a few names
  // suffice.
  if (count > shown)
    misfits += "; " + std::to_string(count - shown) + " more";
  if (count > 0)
    return model->error(ErrorKind::InvalidInput,
                        "cannot receive " + Twine(count) + " of " +
                            Twine(shapes.size()) +
                            " trained tensors: " + misfits);
  return Error::success();
}

// Records the tensor that each trained value will replace, and frees the data
// that the tensor has now.
Error ExportModel::Impl::bind(const ShapeMap &shapes) {
  if (Error error = check(shapes))
    return error;
  for (const auto &[variable, shape] : shapes) {
    StringRef name = findName(variable);
    if (!tensors.contains(name))
      detach(name);
    proto::TensorProto *place = tensors.lookup(name);
    places[variable] = place;
    if (place)
      dropData(*place);
  }
  return loadExternal();
}

//===----------------------------------------------------------------------===//
// New values
//===----------------------------------------------------------------------===//

// Finds the first finite element that overflows in the file's type; nullopt if
// there is none. A weight trained in float32 may be too large for float16.
static std::optional<int64_t> findOverflow(const HostTensor &value,
                                           Type element) {
  if (getElementBytes(element) >= getElementBytes(value.type.getElementType()))
    return std::nullopt;
  HostTensor converted = *convertFloats(value, element);
  if (!converted.findNonFinite())
    return std::nullopt;
  for (int64_t i = 0, n = value.getNumElements(); i < n; ++i)
    if (!std::isfinite(converted.getDouble(i)) &&
        std::isfinite(value.getDouble(i)))
      return i;
  return std::nullopt;
}

Error ExportModel::Impl::checkValue(StringRef name,
                                    const proto::TensorProto &tensor,
                                    const HostTensor &value) {
  std::string what = "tensor '" + name.str() + "'";
  Expected<Type> element = model->getElementType(tensor.data_type(), what);
  if (!element)
    return element.takeError();
  ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  std::string found;
  // The precision may differ: f32 values can go into a file of f16, if they
  // fit.
  if (isa<FloatType>(*element) && value.isFloat() && value.getShape() == dims) {
    std::optional<int64_t> large = findOverflow(value, *element);
    if (!large)
      return Error::success();
    llvm::raw_string_ostream(found)
        << llvm::format("%.6g", value.getDouble(*large))
        << ", which does not fit " << *element;
    return model->error(ErrorKind::Numeric,
                        what + ": a new value is " + found +
                            ", the type in the file; try --weight-decay or a "
                            "smaller --lr, or write .safetensors");
  }
  // Only a defect of mpc or of the file leads here: the value and the tensor
  // differ in shape or kind of element.
  llvm::raw_string_ostream(found)
      << Type(value.type) << " does not fit "
      << Type(RankedTensorType::get(dims, *element));
  return model->error(ErrorKind::InvalidInput,
                      what + ": a new value of type " + found);
}

// Returns the new value of a tensor in the file's type. A new value must exist.
HostTensor ExportModel::Impl::convert(const proto::TensorProto &tensor) const {
  return *convertFloats(
      *values.at(&tensor),
      cantFail(model->getElementType(tensor.data_type(), tensor.name())));
}

void ExportModel::Impl::storeInline(proto::TensorProto &tensor) {
  HostTensor converted = convert(tensor);
  tensor.set_raw_data(converted.data.data(), converted.data.size());
  values.erase(&tensor);
}

Error ExportModel::Impl::setValues(const TensorMap &given) {
  values.clear();
  for (const auto &[variable, place] : places) {
    auto value = given.find(variable);
    if (value == given.end())
      return model->error(ErrorKind::Internal,
                          "the trained tensors lack '" + variable + "'");
    if (Error error = checkValue(variable, *place, value->second))
      return error;
    values[place] = &value->second;
  }
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Weights of a low type
//===----------------------------------------------------------------------===//

static Type getStoredElement(StoredType type, MLIRContext *context) {
  assert(type != StoredType::AsInFile && "a low type");
  return type == StoredType::F16 ? Type(Float16Type::get(context))
                                 : Type(BFloat16Type::get(context));
}

HostTensor mpc::onnx_frontend::storeWeight(StringRef name,
                                           const HostTensor &value,
                                           StoredType type,
                                           StoredWeights &stored) {
  Type element = getStoredElement(type, value.type.getContext());
  if (!isWorthLowType(value.getShape()) ||
      getElementBytes(value.type.getElementType()) <= getElementBytes(element))
    return value;
  if (std::optional<int64_t> large = findOverflow(value, element)) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "'" << name << "' (" << llvm::format("%.6g", value.getDouble(*large))
        << ")";
    stored.overflowing.push_back(std::move(text));
    return value;
  }
  HostTensor converted = *convertFloats(value, element);
  for (int64_t i = 0, n = value.getNumElements(); i < n; ++i)
    stored.flushed += converted.getDouble(i) == 0 && value.getDouble(i) != 0;
  ++stored.lowered;
  return converted;
}

// Returns the elements that a float32 tensor of the file will have.
Expected<HostTensor>
ExportModel::Impl::getValue(const proto::TensorProto &tensor) const {
  if (auto value = values.find(&tensor); value != values.end())
    return convert(tensor);
  if (tensor.data_location() != proto::TensorProto::EXTERNAL)
    return model->decode(tensor, "tensor '" + tensor.name() + "'");
  // An external tensor would be read from its file again, although loadExternal
  // has put the elements into the message.
  ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  auto type = RankedTensorType::get(
      dims, cantFail(model->getElementType(tensor.data_type(), "tensor")));
  return HostTensor{
      type, {tensor.raw_data().data(), tensor.raw_data().size()}, nullptr};
}

Expected<StoredWeights> ExportModel::Impl::storeWeights(StoredType type) {
  proto::ModelProto &file = model->getProto();
  if (file.training_info_size() > 0)
    return model->error(ErrorKind::Unsupported,
                        "weights of a model with training_info keep their "
                        "type, because its algorithm updates them");
  constexpr int64_t bf16Opset = 13;
  if (int64_t opset = model->getOpset("");
      type == StoredType::BF16 && opset < bf16Opset)
    return model->error(ErrorKind::Unsupported,
                        "opset " + Twine(opset) +
                            " has no Cast of bfloat16, which opset " +
                            Twine(bf16Opset) + " has; store float16");
  StoredWeights stored;
  std::vector<proto::TensorProto *> lowered;
  for (proto::TensorProto *tensor : findLowWeights(file)) {
    Expected<HostTensor> value = getValue(*tensor);
    if (!value)
      return value.takeError();
    HostTensor low = storeWeight(tensor->name(), *value, type, stored);
    if (low.type == value->type)
      continue;
    lowered.push_back(tensor);
    tensor->set_data_type(type == StoredType::F16
                              ? proto::TensorProto::FLOAT16
                              : proto::TensorProto::BFLOAT16);
    // A new value is converted when it is written.
    if (values.contains(tensor))
      continue;
    std::string bytes(low.data.data(), low.data.size());
    dropData(*tensor);
    tensor->set_raw_data(std::move(bytes));
  }
  castReaders(*file.mutable_graph(), lowered);
  return stored;
}

//===----------------------------------------------------------------------===//
// External data
//===----------------------------------------------------------------------===//

// Collects all tensors of the model, including tensors in bodies and functions.
static std::vector<proto::TensorProto *>
collectTensors(proto::ModelProto &model) {
  std::vector<proto::TensorProto *> result;
  auto addNode = [&](proto::NodeProto &node) {
    for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
      if (attribute.has_t())
        result.push_back(attribute.mutable_t());
      for (proto::TensorProto &tensor : *attribute.mutable_tensors())
        result.push_back(&tensor);
    }
  };
  // A function has nodes, but it has no initializers.
  for (proto::FunctionProto &function : *model.mutable_functions())
    for (proto::NodeProto &node : *function.mutable_node())
      addNode(node);
  for (proto::GraphProto *graph : findGraphs(model)) {
    for (proto::TensorProto &tensor : *graph->mutable_initializer())
      result.push_back(&tensor);
    for (proto::NodeProto &node : *graph->mutable_node())
      addNode(node);
  }
  return result;
}

// Loads the external tensors with unchanged values.
Error ExportModel::Impl::loadExternal() {
  llvm::SmallPtrSet<proto::TensorProto *, 32> replaced;
  for (const auto &[variable, place] : places)
    replaced.insert(place);
  for (proto::TensorProto *tensor : collectTensors(model->getProto())) {
    if (tensor->data_location() != proto::TensorProto::EXTERNAL ||
        replaced.contains(tensor))
      continue;
    auto bytes = model->decode(*tensor, "tensor '" + tensor->name() + "'");
    if (!bytes)
      return bytes.takeError();
    tensor->set_raw_data(bytes->data.data(), bytes->data.size());
  }
  return Error::success();
}

// Returns the size of a tensor's elements in the file, in bytes. A new value
// counts in place of the old.
uint64_t ExportModel::Impl::bytesOf(const proto::TensorProto &tensor) const {
  if (!values.contains(&tensor))
    return tensor.raw_data().size();
  Type element =
      cantFail(model->getElementType(tensor.data_type(), tensor.name()));
  return values.at(&tensor)->getNumElements() * getElementBytes(element);
}

// Selects the tensors for the data file: all tensors that were external, and
// all large tensors if the model exceeds protobuf's 2 GiB.
std::vector<proto::TensorProto *> ExportModel::Impl::findExternal() {
  std::vector<proto::TensorProto *> external;
  uint64_t size = model->getProto().ByteSizeLong();
  for (const auto &[tensor, value] : values)
    if (tensor->data_location() != proto::TensorProto::EXTERNAL)
      size += bytesOf(*tensor);
  bool isTooLarge = size > INT_MAX;
  for (proto::TensorProto *tensor : collectTensors(model->getProto())) {
    bool wasExternal = tensor->data_location() == proto::TensorProto::EXTERNAL;
    bool isLarge = isTooLarge && bytesOf(*tensor) >= kSmallestExternal;
    if (wasExternal || isLarge)
      external.push_back(tensor);
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

Error ExportModel::Impl::writeData(ArrayRef<proto::TensorProto *> tensors,
                                   StringRef path) {
  Expected<AtomicFile> file = AtomicFile::create(path);
  if (!file)
    return file.takeError();
  // Align every tensor, so that readers can map tensors into memory.
  uint64_t offset = 0;
  for (proto::TensorProto *tensor : tensors) {
    uint64_t start = llvm::alignTo(offset, kAlignment);
    ArrayRef<char> bytes(tensor->raw_data().data(), tensor->raw_data().size());
    std::optional<HostTensor> converted;
    // A trained tensor gets the new value, in the file's type.
    if (values.contains(tensor))
      bytes = converted.emplace(convert(*tensor)).data;
    if (Error error = file->write(std::string(start - offset, '\0')))
      return error;
    if (Error error = file->write(bytes))
      return error;
    offset = start + bytes.size();
    // The data file holds the value now. The model keeps only the position and
    // length in that file.
    setExternal(*tensor, llvm::sys::path::filename(path), start, bytes.size());
    values.erase(tensor);
  }
  return file->commit();
}

// Stores new values of tensors that are not initializers of the main graph,
// such as values of Constant nodes. These tensors are few.
void ExportModel::Impl::storeConstants() {
  proto::ModelProto &file = model->getProto();
  llvm::SmallPtrSet<const proto::TensorProto *, 32> initializers;
  for (const proto::TensorProto &tensor : file.graph().initializer())
    initializers.insert(&tensor);
  for (proto::TensorProto *tensor : collectTensors(file))
    if (values.contains(tensor) && !initializers.contains(tensor))
      storeInline(*tensor);
}

// Writes the model. Each initializer is converted when it is written, so that
// only one new value is in memory at a time.
bool ExportModel::Impl::serialize(
    google::protobuf::io::FileOutputStream &stream) {
  storeConstants();
  auto countBytes = [&](const proto::TensorProto &tensor) {
    return values.contains(&tensor) ? std::optional(bytesOf(tensor))
                                    : std::nullopt;
  };
  auto get = [&](const proto::TensorProto &tensor) { return convert(tensor); };
  return onnx_frontend::serialize(model->getProto(), {countBytes, get},
                                  stream) &&
         stream.Flush();
}

// Writes to stdout. A stream has no second file, so all data goes into the
// model.
Error ExportModel::Impl::writeStream() {
  proto::ModelProto &file = model->getProto();
  uint64_t size = file.ByteSizeLong();
  for (proto::TensorProto *tensor : collectTensors(file)) {
    size += values.contains(tensor) ? bytesOf(*tensor) : 0;
    tensor->clear_external_data();
    tensor->clear_data_location();
  }
  if (size > INT_MAX)
    return makeError(ErrorKind::Unsupported,
                     "the model does not fit into one file of 2 GiB, and a "
                     "stream cannot hold a second file; name a file to write "
                     "it to");
  google::protobuf::io::FileOutputStream stream(STDOUT_FILENO);
  if (serialize(stream))
    return Error::success();
  return makeError(ErrorKind::IO, Twine("cannot write to stdout: ") +
                                      std::strerror(stream.GetErrno()));
}

Error ExportModel::Impl::write(StringRef destination) {
  if (destination == kStandardOutput)
    return writeStream();
  std::vector<proto::TensorProto *> external = findExternal();
  if (!external.empty())
    if (Error error = writeData(external, (destination + ".data").str()))
      return error;
  Expected<AtomicFile> file = AtomicFile::create(destination);
  if (!file)
    return file.takeError();
  google::protobuf::io::FileOutputStream stream(file->getDescriptor());
  if (!serialize(stream))
    return makeError(ErrorKind::IO, destination + ": cannot write: " +
                                        std::strerror(stream.GetErrno()));
  return file->commit();
}

//===----------------------------------------------------------------------===//
// Templates
//===----------------------------------------------------------------------===//

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

//===----------------------------------------------------------------------===//
// Public interface
//===----------------------------------------------------------------------===//

ExportModel::ExportModel(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
ExportModel::~ExportModel() = default;

Expected<std::unique_ptr<ExportModel>>
ExportModel::create(std::shared_ptr<Model> model, const ShapeMap &shapes,
                    MLIRContext *context, ArrayRef<AdapterNodes> adapters) {
  assert(model.use_count() == 1 && "tensors share the bytes that bind drops");
  model->setContext(context);
  model->restoreCalls();
  if (Error error = addAdapterNodes(*model, adapters))
    return error;
  auto impl = std::make_unique<Impl>(std::move(model));
  if (Error error = impl->bind(shapes))
    return error;
  return std::unique_ptr<ExportModel>(new ExportModel(std::move(impl)));
}

Error ExportModel::check(std::shared_ptr<Model> model, const ShapeMap &shapes) {
  return Impl(std::move(model)).check(shapes);
}

Expected<std::unique_ptr<ExportModel>>
ExportModel::read(StringRef source, const ShapeMap &shapes,
                  MLIRContext *context, ArrayRef<std::string> skippedRepairs,
                  ArrayRef<AdapterNodes> adapters) {
  auto model = readRepaired(source, context, skippedRepairs);
  if (!model)
    return model.takeError();
  return create(std::move(*model), shapes, context, adapters);
}

Expected<ModelTemplate> ExportModel::makeTemplate(std::shared_ptr<Model> model,
                                                  const ShapeMap &shapes) {
  model->restoreCalls();
  return Impl(std::move(model)).makeTemplate(shapes);
}

void ExportModel::setRecord(const std::map<std::string, std::string> &entries) {
  auto &metadata = *impl->getProto().mutable_metadata_props();
  for (int i = metadata.size() - 1; i >= 0; --i)
    if (isRecordKey(metadata.Get(i).key()))
      metadata.DeleteSubrange(i, 1);
  for (const auto &[key, value] : entries) {
    auto *entry = metadata.Add();
    entry->set_key(key);
    entry->set_value(value);
  }
}

std::vector<std::string> ExportModel::listOutputs() const {
  std::vector<std::string> names;
  for (const proto::ValueInfoProto &output : impl->getProto().graph().output())
    names.push_back(output.name());
  return names;
}

Expected<StoredWeights> ExportModel::storeWeights(StoredType type,
                                                  const TensorMap &values) {
  if (Error error = impl->setValues(values))
    return error;
  return impl->storeWeights(type);
}

Error ExportModel::write(StringRef destination, const TensorMap &values) {
  if (Error error = impl->setValues(values))
    return error;
  setInferenceMode(impl->getProto());
  return impl->write(destination);
}

Error mpc::onnx_frontend::exportModel(StringRef source, StringRef destination,
                                      const TensorMap &values,
                                      MLIRContext *context) {
  ShapeMap shapes;
  for (const auto &entry : values)
    shapes[entry.first().str()] =
        llvm::SmallVector<int64_t>(entry.second.getShape());
  auto model = ExportModel::read(source, shapes, context);
  if (!model)
    return model.takeError();
  return (*model)->write(destination, values);
}
