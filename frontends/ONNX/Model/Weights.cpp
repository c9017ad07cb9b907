// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Weights.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/StringExtras.h"

#include <tuple>

using namespace mlir;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

Expected<HostTensor> mpc::onnx_frontend::fitWeight(const Model &model,
                                                   const Twine &kind,
                                                   StringRef name,
                                                   const HostTensor &given,
                                                   RankedTensorType type) {
  if (given.type == type)
    return given;
  if (given.getShape() == type.getShape())
    if (auto converted = convertFloats(given, type.getElementType()))
      return *converted;
  // To keep the model's own values, the user can rename the layer's values in
  // the file. Suggest the prefix of all parameters of the layer.
  std::string layer =
      (name.contains('.') ? name.rsplit('.').first : name).str();
  return model.error(
      ErrorKind::InvalidInput,
      "the value given for " + kind + " '" + name + "' is " +
          printTensorType(given.type) + ", expected " + printTensorType(type) +
          (given.getShape() == type.getShape()
               ? ""
               : "; to keep the model's own, as of a head for "
                 "other classes, leave it out of the file, or "
                 "give it another name: --weights-prefix " +
                     layer + (layer == name ? "" : ".") + "=unused."));
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

SmallVector<StringRef> mpc::onnx_frontend::getTakenNames(const Model &model) {
  const proto::ModelProto &file = model.getProto();
  SmallVector<StringRef> names;
  for (const proto::TensorProto &tensor : file.graph().initializer())
    names.push_back(tensor.name());
  for (const proto::ValueInfoProto &input : file.graph().input())
    names.push_back(input.name());
  for (const proto::NodeProto &node : file.graph().node())
    if (findConstantTensor(node))
      names.push_back(node.output(0));
  for (const proto::TrainingInfoProto &info : file.training_info())
    for (const proto::TensorProto &tensor : info.algorithm().initializer())
      names.push_back(tensor.name());
  return names;
}

std::vector<std::string>
mpc::onnx_frontend::listKeptWeights(const Model &model,
                                    const TensorMap &values) {
  std::vector<std::string> names;
  for (const proto::TensorProto &tensor :
       model.getProto().graph().initializer()) {
    Expected<Type> type =
        model.getElementType(tensor.data_type(), tensor.name());
    if (!type) {
      llvm::consumeError(type.takeError());
      continue;
    }
    const bool isSingle =
        llvm::all_of(tensor.dims(), [](int64_t extent) { return extent == 1; });
    if (isa<FloatType>(*type) && !isSingle && !values.contains(tensor.name()))
      names.push_back(tensor.name());
  }
  return names;
}

// Lists the first three names: "'a', 'b', 'c', ...".
static std::string listNames(ArrayRef<StringRef> names) {
  constexpr size_t most = 3;
  std::string text = "'" + llvm::join(names.take_front(most), "', '") + "'";
  return names.size() > most ? text + ", ..." : text;
}

// Groups names by each ending that starts after a dot: "a.b.c" belongs to the
// groups "a.b.c", "b.c" and "c".
static llvm::StringMap<SmallVector<StringRef, 1>>
groupByEnding(ArrayRef<StringRef> taken) {
  // Limit the names of a group: an ending like "weight", which many names
  // share, is no evidence for a prefix.
  constexpr size_t most = 8;
  llvm::StringMap<SmallVector<StringRef, 1>> groups;
  for (StringRef name : taken)
    for (StringRef ending = name;; ending = ending.split('.').second) {
      SmallVector<StringRef, 1> &group = groups[ending];
      if (group.size() < most)
        group.push_back(name);
      if (!ending.contains('.'))
        break;
    }
  return groups;
}

// Returns advice for a weights file whose names `found` are all unknown to the
// model, which has the names `taken`. Suggests the change of prefix that makes
// most names fit: `module.=` removes "module.".
static std::string adviseOnNames(ArrayRef<StringRef> found,
                                 ArrayRef<StringRef> taken) {
  auto groups = groupByEnding(taken);
  llvm::StringMap<int64_t> counts;
  for (StringRef name : found)
    for (StringRef ending = name; !ending.empty();
         ending = ending.split('.').second) {
      auto group = groups.find(ending);
      if (group == groups.end())
        continue;
      for (StringRef other : group->second)
        ++counts[(name.drop_back(ending.size()) + "=" +
                  other.drop_back(ending.size()))
                     .str()];
      break;
    }
  // If two changes fit equally many names, take the shorter.
  auto rank = [](const llvm::StringMapEntry<int64_t> &entry) {
    return std::tuple(-entry.second, entry.first().size(), entry.first());
  };
  const llvm::StringMapEntry<int64_t> *best = nullptr;
  for (const auto &entry : counts)
    if (!best || rank(entry) < rank(*best))
      best = &entry;
  if (!best || best->second * 2 < int64_t(found.size()))
    return "; rename the arrays, or their beginnings with --weights-prefix "
           "FROM=TO";
  return ("; with --weights-prefix " + best->first() + ", " +
          Twine(best->second) +
          (best->second == 1 ? " name matches" : " names match"))
      .str();
}

Error mpc::onnx_frontend::checkWeights(const Model &model,
                                       const ImportOptions &options) {
  SmallVector<StringRef> taken = getTakenNames(model);
  llvm::StringSet<> isTaken;
  isTaken.insert(taken.begin(), taken.end());
  Error errors = Error::success();
  // Report a file from which the model uses no value: the user has made a
  // mistake.
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
                        listNames(taken) + adviseOnNames(found, taken)));
  }
  return errors;
}

void mpc::onnx_frontend::replaceIntegers(Model &model,
                                         const TensorMap &weights) {
  for (proto::TensorProto &tensor :
       *model.getProto().mutable_graph()->mutable_initializer()) {
    auto given = weights.find(tensor.name());
    if (given == weights.end() || given->second.isFloat())
      continue;
    // Ignore an initializer that cannot be decoded, and a value of another
    // type: the import has checked only the initializers that nodes read.
    auto present = model.decode(tensor, "initializer '" + tensor.name() + "'");
    if (!present) {
      llvm::consumeError(present.takeError());
      continue;
    }
    if (present->type != given->second.type ||
        present->data == given->second.data)
      continue;
    proto::TensorProto replaced;
    replaced.set_name(tensor.name());
    replaced.set_data_type(tensor.data_type());
    *replaced.mutable_dims() = tensor.dims();
    replaced.set_raw_data(given->second.data.data(), given->second.data.size());
    tensor = std::move(replaced);
  }
}
