// Joins initializers that an exporter has made of the same parameter.
//
// PyTorch's exporter folds the transposition of a parameter once per product,
// so a parameter becomes several initializers. Training would then separate the
// head of a language model from the tied embedding, or two calls of a layer.
// Replaces each copy by the parameter, or by a Transpose of the parameter. The
// trained model is written in the new form.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// g (int64[2] ids) => (float[2,3] y)
// <
//   float[3,2] table = {1, 2, 3, 4, 5, 6},
//   # pkg.onnxscript.optimizer.folded_from: ['table']
//   float[2,3] val_0 = {1, 3, 5, 2, 4, 6}
// >
// {
//   h = Gather (table, ids)
//   y = MatMul (h, val_0)
// }
// ```
//
// After:
//
// ```
// <
//   float[3,2] table = {1, 2, 3, 4, 5, 6}
// >
// {
//   h = Gather (table, ids)
//   [transpose_of_val_0] val_0 = Transpose <perm: ints = [1, 0]> (table)
//   y = MatMul (h, val_0)
// }
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/TransposedWeights.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <algorithm>

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
/// The initializers made of one parameter. If the parameter is an initializer,
/// too, it is the first.
using Group = std::vector<const proto::TensorProto *>;

/// The relation of a second initializer to the first: equal, or transposed.
enum class Relation { None, Same, Transposed };

class Joiner {
public:
  explicit Joiner(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  llvm::MapVector<StringRef, Group> findGroups();
  void findPinned();
  Relation relate(const proto::TensorProto &first,
                  const proto::TensorProto &other);
  void finish();

  Model &model;
  proto::GraphProto &graph;
  /// Initializers that become the result of a Transpose: (parameter,
  /// initializer).
  std::vector<std::pair<std::string, std::string>> transposes;
  /// `pinned`: names that must stay: inputs, outputs and names in bodies.
  /// `bodyNames`: names defined in bodies, which hide values of the outer graph
  /// there.
  llvm::StringSet<> pinned, bodyNames;
  /// The initializers to remove, and the initializer that readers read instead.
  llvm::StringSet<> removed;
  llvm::StringMap<std::string> replaced;
  std::vector<std::string> done;
};
} // namespace

// Groups float initializers by parameter. An initializer folded from a single
// parameter belongs to the parameter's group.
llvm::MapVector<StringRef, Group> Joiner::findGroups() {
  llvm::StringMap<StringRef> foldedFrom;
  for (const proto::ValueInfoProto &value : graph.value_info()) {
    auto sources = readFoldedParameters(value);
    if (sources.size() == 1)
      foldedFrom.try_emplace(value.name(), sources[0]);
  }
  // The parameter, if present, comes first in the group.
  llvm::MapVector<StringRef, Group> groups;
  for (const proto::TensorProto &tensor : graph.initializer()) {
    if (!holdsFloats(tensor))
      continue;
    auto folded = foldedFrom.find(tensor.name());
    if (folded != foldedFrom.end()) {
      groups[folded->second].push_back(&tensor);
    } else {
      Group &group = groups[tensor.name()];
      group.insert(group.begin(), &tensor);
    }
  }
  // Drop groups of a single initializer: there is nothing to join.
  groups.remove_if([](const auto &entry) { return entry.second.size() < 2; });
  return groups;
}

void Joiner::findPinned() {
  pinned = bodyNames = findBodyNames(graph);
  for (const auto *values : {&graph.input(), &graph.output()})
    for (const proto::ValueInfoProto &value : *values)
      pinned.insert(value.name());
}

// Compares shape and elements of two initializers of a group. Elements differ
// if the file was edited since the export.
Relation Joiner::relate(const proto::TensorProto &first,
                        const proto::TensorProto &other) {
  // Compare types and shapes first: reading elements is slow.
  if (first.data_type() != other.data_type())
    return Relation::None;
  const bool isSame = std::equal(first.dims().begin(), first.dims().end(),
                                 other.dims().begin(), other.dims().end());
  const bool isReversed = first.dims_size() == 2 && other.dims_size() == 2 &&
                          first.dims(0) == other.dims(1) &&
                          first.dims(1) == other.dims(0);
  if (!isSame && !isReversed)
    return Relation::None;
  llvm::Expected<HostTensor> values = model.decode(first, "initializer");
  llvm::Expected<HostTensor> others = model.decode(other, "initializer");
  if (!values || !others) {
    // Drop the errors: the import reports undecodable tensors.
    llvm::consumeError(values.takeError());
    llvm::consumeError(others.takeError());
    return Relation::None;
  }
  // All float types convert exactly to double.
  const int64_t count = values->getNumElements();
  auto agree = [&](auto place) {
    for (int64_t i = 0; i < count; ++i)
      if (values->getDouble(i) != others->getDouble(place(i)))
        return false;
    return true;
  };
  if (isSame && agree([](int64_t i) { return i; }))
    return Relation::Same;
  if (!isReversed)
    return Relation::None;
  // Element (r, c) of a matrix is element (c, r) of the transposed matrix.
  const int64_t rows = first.dims(0), columns = first.dims(1);
  return agree([&](int64_t i) { return i % columns * rows + i / columns; })
             ? Relation::Transposed
             : Relation::None;
}

// Makes all nodes read the replacements, adds the Transposes and removes the
// replaced initializers.
void Joiner::finish() {
  for (proto::GraphProto *part : findGraphs(graph))
    for (proto::NodeProto &node : *part->mutable_node())
      for (std::string &input : *node.mutable_input())
        if (auto it = replaced.find(input); it != replaced.end())
          input = it->second;
  addTransposes(graph, transposes);
  auto &tensors = *graph.mutable_initializer();
  const auto end =
      std::stable_partition(tensors.pointer_begin(), tensors.pointer_end(),
                            [&](const proto::TensorProto *tensor) {
                              return !removed.contains(tensor->name());
                            });
  const int kept = static_cast<int>(end - tensors.pointer_begin());
  tensors.DeleteSubrange(kept, tensors.size() - kept);
}

std::string Joiner::run() {
  findPinned();
  for (const auto &[name, group] : findGroups()) {
    // Compare each initializer of a group with the first, which replaces it.
    const proto::TensorProto &first = *group.front();
    for (const proto::TensorProto *other : llvm::drop_begin(group)) {
      const Relation relation = relate(first, *other);
      // Skip cases broken by the replacement: a body cannot read the first
      // initializer if the body defines its name, and inputs and outputs keep
      // the initializer.
      if (relation == Relation::None ||
          (relation == Relation::Same && bodyNames.contains(first.name())) ||
          pinned.contains(other->name()) ||
          !removed.insert(other->name()).second)
        continue;
      if (relation == Relation::Same)
        replaced[other->name()] = first.name();
      else
        transposes.emplace_back(first.name(), other->name());
      done.push_back("'" + other->name() + "' of '" + first.name() + "'");
    }
  }
  if (done.empty())
    return {};
  finish();
  return "the exporter made several of one parameter, which are trained as "
         "one: " +
         listFirst(done, 1);
}

llvm::Error mpc::onnx_frontend::joinInitializers(RepairContext &context) {
  context.note(Joiner(context.getModel()).run());
  return llvm::Error::success();
}
