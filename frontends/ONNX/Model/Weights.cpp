// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Weights.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

// "f32[2,3]"
static std::string printTensorType(RankedTensorType type) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << type.getElementType() << '[';
  llvm::interleave(type.getShape(), os, ",");
  os << ']';
  return text;
}

Expected<HostTensor> mpc::onnx_frontend::fitWeight(const Model &model,
                                                   const Twine &what,
                                                   const HostTensor &given,
                                                   RankedTensorType type) {
  if (given.type == type)
    return given;
  if (given.getShape() == type.getShape())
    if (auto converted = convertFloats(given, type.getElementType()))
      return *converted;
  return model.error(ErrorKind::InvalidInput,
                     "the value given for " + what + " is " +
                         printTensorType(given.type) + ", expected " +
                         printTensorType(type));
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

// Everything of the model that a value can be given for, in its order.
static SmallVector<StringRef> getTakenNames(const Model &model) {
  const proto::ModelProto &file = model.getProto();
  SmallVector<StringRef> names;
  for (const proto::TensorProto &tensor : file.graph().initializer())
    names.push_back(tensor.name());
  for (const proto::ValueInfoProto &input : file.graph().input())
    names.push_back(input.name());
  for (const proto::TrainingInfoProto &info : file.training_info())
    for (const proto::TensorProto &tensor : info.algorithm().initializer())
      names.push_back(tensor.name());
  return names;
}

// "'a', 'b', 'c', ..."
static std::string listNames(ArrayRef<StringRef> names) {
  constexpr size_t most = 3;
  std::string text = "'" + llvm::join(names.take_front(most), "', '") + "'";
  return names.size() > most ? text + ", ..." : text;
}

Error mpc::onnx_frontend::checkWeights(const Model &model,
                                       const ImportOptions &options) {
  SmallVector<StringRef> taken = getTakenNames(model);
  llvm::StringSet<> isTaken;
  isTaken.insert(taken.begin(), taken.end());
  Error errors = Error::success();
  for (const auto &[file, names] : options.weightFiles) {
    if (llvm::any_of(names, [&](const std::string &name) {
          return isTaken.contains(name);
        }))
      continue;
    SmallVector<StringRef> found(names.begin(), names.end());
    errors = llvm::joinErrors(
        std::move(errors),
        model.error(ErrorKind::InvalidInput,
                    file + " gives no value for the model: it has " +
                        listNames(found) + "; the model has " +
                        listNames(taken) + "; rename the arrays"));
  }
  return errors;
}
