// Stores the weights of a trained model in float16 or bfloat16.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/ExportImpl.h"
#include "frontends/ONNX/Export/LowWeights.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

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
