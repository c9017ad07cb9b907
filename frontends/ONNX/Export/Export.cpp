// Writes trained models.
//
// Only the tensors are replaced; everything else in the file is written as it
// was read. So parts of the format that mpc does not know survive.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Export.h"

#include "frontends/ONNX/Export/AdapterNodes.h"
#include "frontends/ONNX/Export/ExportImpl.h"
#include "frontends/ONNX/Export/InferenceMode.h"
#include "frontends/ONNX/Export/Serialize.h"
#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Names.h"
#include "frontends/ONNX/Model/TrainingRecord.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Path.h"

#include <climits>
#include <cmath>
#include <google/protobuf/io/zero_copy_stream_impl.h>
#include <set>
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

void mpc::onnx_frontend::dropData(proto::TensorProto &tensor) {
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

std::optional<int64_t> mpc::onnx_frontend::findOverflow(const HostTensor &value,
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
// External data
//===----------------------------------------------------------------------===//

std::vector<proto::TensorProto *>
mpc::onnx_frontend::collectTensors(proto::ModelProto &model) {
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

static void replaceRecord(proto::ModelProto &model,
                          const std::map<std::string, std::string> &entries) {
  auto &metadata = *model.mutable_metadata_props();
  for (int i = metadata.size() - 1; i >= 0; --i)
    if (isRecordKey(metadata.Get(i).key()))
      metadata.DeleteSubrange(i, 1);
  for (const auto &[key, value] : entries) {
    auto *entry = metadata.Add();
    entry->set_key(key);
    entry->set_value(value);
  }
}

Expected<ModelTemplate>
ExportModel::makeTemplate(std::shared_ptr<Model> model, const ShapeMap &shapes,
                          const std::map<std::string, std::string> &record) {
  model->restoreCalls();
  replaceRecord(model->getProto(), record);
  return Impl(std::move(model)).makeTemplate(shapes);
}

std::vector<std::string> mpc::onnx_frontend::listDataFiles(Model &model) {
  llvm::SmallString<128> real;
  if (llvm::sys::fs::real_path(model.getPath(), real))
    real = model.getPath();
  std::set<std::string> files;
  for (const proto::TensorProto *tensor : collectTensors(model.getProto()))
    for (const auto &entry : tensor->external_data())
      for (StringRef path : {model.getPath(), StringRef(real)}) {
        llvm::SmallString<128> file(llvm::sys::path::parent_path(path));
        llvm::sys::path::append(file, entry.value());
        if (entry.key() == "location")
          files.insert(file.str().str());
      }
  return {files.begin(), files.end()};
}

void ExportModel::setRecord(const std::map<std::string, std::string> &entries) {
  replaceRecord(impl->getProto(), entries);
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
