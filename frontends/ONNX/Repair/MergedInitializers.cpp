// Splits initializers merged by an exporter because of equal values.
//
// Gives the readers of a merged initializer separate copies, if the file shows
// that the program reads different values. PyTorch's exporter names, for each
// node, the parameters and buffers read by the call. Two nodes whose calls have
// no name in common read different values. A parameter and a constant are
// different values, too. A running statistic is never an operand of another op.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// # pkg.torch.export.ExportedProgram.graph_signature:
//     p_a_weight: PARAMETER target='a.weight'\np_b_weight: PARAMETER
//     target='b.weight'
// g (float[2,2] x) => (float[2,2] y)
// <
//   # pkg.torch.onnx.original_node_name: p_a_weight
//   float[2] "a.weight" = {1, 1}
// >
// {
//   # pkg.torch.onnx.fx_node: %a : call_function[target=
//       torch.ops.aten.layer_norm.default](args = (%x, [2], %p_a_weight),
//       kwargs = {})
//   a = LayerNormalization (x, "a.weight")
//   # pkg.torch.onnx.fx_node: %b : call_function[target=
//       torch.ops.aten.layer_norm.default](args = (%a, [2], %p_b_weight),
//       kwargs = {})
//   y = LayerNormalization (a, "a.weight")
// }
// ```
//
// After:
//
// ```
// <
//   # pkg.torch.onnx.original_node_name: p_a_weight
//   float[2] "a.weight" = {1, 1},
//   # pkg.torch.export.graph_signature.InputSpec.kind: PARAMETER
//   # pkg.torch.onnx.original_node_name: p_b_weight
//   float[2] "b.weight" = {1, 1}
// >
// ...
// y = LayerNormalization (a, "b.weight")
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <tuple>

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using llvm::Twine;

// Limits the bytes of all copies. Merged parameters are usually vectors, so 64
// MiB suffice.
static constexpr size_t kMostCopiedBytes = size_t(64) << 20;

// Limits the parameters and buffers of a call, because the file is untrusted.
static constexpr size_t kMostSources = 32;

static bool isBatchNorm(const proto::NodeProto &node) {
  return node.op_type() == "BatchNormalization" && node.domain().empty();
}

//===----------------------------------------------------------------------===//
// Separation
//===----------------------------------------------------------------------===//

namespace {
/// Input `index` of a node, which reads an initializer. `sources` names the
/// parameters and buffers of the program, like "p_a_weight", that the input may
/// stand for. Empty if the file does not say; {""} for a constant.
struct Read {
  proto::NodeProto *node;
  int index;
  SmallVector<StringRef, 2> sources;
  /// True if the call tells exactly which parameter the input is. False if the
  /// call only lists the parameters of the node.
  bool isExact;

  bool isStatistic() const { return isBatchNorm(*node) && index >= 3; }
};

class Separator {
public:
  explicit Separator(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  void collect();
  void collectReads(proto::NodeProto &node);
  Read makeRead(proto::NodeProto &node, const ProgramCall &call, int index,
                size_t count);
  std::optional<StringRef> findStatistic(const proto::NodeProto &node,
                                         int index, StringRef given);
  bool isConstant(StringRef name);
  bool isSplat(const proto::TensorProto &tensor);
  void separateSources(StringRef name, ArrayRef<Read> reads);
  void separateStatistics();
  StringRef findSource(const Read &read);
  std::string findName(const Read &read);
  std::string makeUnique(std::string name);
  std::string copy(StringRef name, std::string wanted,
                   std::optional<StringRef> source);

  Model &model;
  proto::GraphProto &graph;
  llvm::StringMap<proto::TensorProto *> tensors;
  /// The name of each initializer in the program, like "p_a_weight".
  llvm::StringMap<StringRef> originalNames;
  /// For each folded initializer, the names of the values from which it was
  /// folded.
  llvm::StringMap<SmallVector<StringRef>> foldedFrom;
  const llvm::MapVector<StringRef, StringRef> &signature =
      model.getProgram().signature;
  llvm::StringSet<> names;
  /// For each name: the last number that makeUnique appended to it.
  llvm::StringMap<int> lastNumbers;
  llvm::MapVector<StringRef, std::vector<Read>> reads;
  /// The running mean (input 3) or variance (input 4) of each module; empty if
  /// two calls of the module read different buffers.
  std::map<std::pair<StringRef, int>, StringRef> moduleStatistics;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

// Finds the parameters and buffers that input `index` of `node` may stand for,
// by the node's call. The table of calls usually gives a single one
// (findArgument). Otherwise every parameter and buffer of the call is possible.
// None if the input is a constant, or if the call names fewer parameters and
// buffers than the node reads initializers (`count`).
Read Separator::makeRead(proto::NodeProto &node, const ProgramCall &call,
                         int index, size_t count) {
  Read read = {&node, index, {}, false};
  if (node.domain().empty())
    if (std::optional<int> argument =
            findArgument(call, node.op_type(), index)) {
      read.isExact = true;
      std::optional<StringRef> source = call.findSource(*argument);
      if (read.isStatistic())
        source = findStatistic(node, index, source.value_or(StringRef()));
      if (source)
        read.sources.push_back(*source);
      return read;
    }
  if (call.sources.size() >= count && call.sources.size() <= kMostSources &&
      !isConstant(node.input(index)))
    read.sources = call.sources;
  return read;
}

// Finds the program's running statistic that input `index` of a
// BatchNormalization reads. `given` is the buffer in the node's call, or empty
// if the call reads a computed statistic, as a second call of the module does.
// Then returns the buffer of the module's first call. nullopt if the buffer is
// unknown or ambiguous.
std::optional<StringRef> Separator::findStatistic(const proto::NodeProto &node,
                                                  int index, StringRef given) {
  const std::optional<StringRef> module = findModule(node);
  if (!module)
    return given.empty() ? std::nullopt : std::optional(given);
  auto own = moduleStatistics.try_emplace({*module, index}, given).first;
  if (given.empty())
    return own->second.empty() ? std::nullopt : std::optional(own->second);
  if (own->second != given)
    own->second = {};
  return given;
}

// True if the exporter folded the initializer `name` from constants alone.
bool Separator::isConstant(StringRef name) {
  if (!originalNames.lookup(name).empty())
    return false;
  auto it = foldedFrom.find(name);
  if (it == foldedFrom.end())
    return isExportersName(name);
  return llvm::all_of(it->second, isExportersName);
}

// Collects the float initializers, and for each the inputs of nodes that read
// it, also in bodies.
void Separator::collect() {
  names = findBodyNames(graph);
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    if (names.insert(tensor.name()).second && holdsFloats(tensor))
      tensors.try_emplace(tensor.name(), &tensor);
  for (const proto::ValueInfoProto &value : graph.value_info()) {
    originalNames.try_emplace(value.name(), findMetadata(value, kOriginalName));
    if (auto sources = readMetadataList(value, kFoldedFrom); !sources.empty())
      foldedFrom.try_emplace(value.name(), std::move(sources));
  }
  for (const proto::ValueInfoProto &value : graph.input())
    names.insert(value.name());
  for (proto::NodeProto &node : *graph.mutable_node())
    names.insert(node.output().begin(), node.output().end());
  for (proto::GraphProto *part : findGraphs(graph))
    for (proto::NodeProto &node : *part->mutable_node())
      collectReads(node);
}

void Separator::collectReads(proto::NodeProto &node) {
  size_t count = llvm::count_if(node.input(), [&](const std::string &input) {
    return tensors.contains(input);
  });
  if (count == 0)
    return;
  const ProgramCall call = readCall(node);
  for (int i = 0; i < node.input_size(); ++i)
    if (auto it = tensors.find(node.input(i)); it != tensors.end())
      reads[it->first()].push_back(makeRead(node, call, i, count));
}

bool Separator::isSplat(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> values = model.decode(tensor, "initializer");
  if (values)
    return values->isSplat();
  // Drop the error: the import reports undecodable tensors.
  llvm::consumeError(values.takeError());
  return false;
}

// Finds the program's name, like "p_layers_1_weight", of the value that `read`
// reads. A single possible name is taken. If the call names as many values as
// the node reads initializers, matches the two lists in order. Empty otherwise.
StringRef Separator::findSource(const Read &read) {
  if (read.sources.size() == 1)
    return read.sources[0];
  SmallVector<int> indices;
  for (int i = 0; i < read.node->input_size(); ++i)
    if (tensors.contains(read.node->input(i)))
      indices.push_back(i);
  if (indices.size() != read.sources.size())
    return {};
  return read.sources[llvm::find(indices, read.index) - indices.begin()];
}

// Finds the name for a copy, like "layers.1.weight" for "p_layers_1_weight": by
// the signature, or else by the node's module "layers.1". Otherwise drops the
// prefix: "layers_1_weight". Empty if the program's name is unknown.
std::string Separator::findName(const Read &read) {
  StringRef source = findSource(read);
  if (StringRef name = signature.lookup(source); !name.empty())
    return name.str();
  StringRef rest = source.substr(2);
  auto scopes = readMetadataList(*read.node, kNameScopes);
  for (StringRef scope : llvm::reverse(scopes)) {
    std::string prefix = scope.str() + "_";
    std::replace(prefix.begin(), prefix.end(), '.', '_');
    if (!scope.empty() && rest.starts_with(prefix))
      return (scope + "." + rest.substr(prefix.size())).str();
  }
  return rest.str();
}

std::string Separator::makeUnique(std::string name) {
  std::string unique = name;
  int &last = lastNumbers.try_emplace(name, 1).first->second;
  while (!names.insert(unique).second)
    unique = name + "_" + std::to_string(++last);
  return unique;
}

// Adds a copy of the initializer `name`, with the name `wanted` if possible,
// and with metadata for the program's value `source`. Returns the name of the
// copy; empty once the copies exceed the limit.
std::string Separator::copy(StringRef name, std::string wanted,
                            std::optional<StringRef> source) {
  const proto::TensorProto &tensor = *tensors.lookup(name);
  constexpr size_t tooMany = kMostCopiedBytes + 1;
  size_t size = 8;
  for (int64_t extent : tensor.dims())
    size = std::min(size * std::clamp<int64_t>(extent, 0, tooMany), tooMany);
  bytes += std::min(std::max(size, tensor.ByteSizeLong()), tooMany);
  if (bytes > kMostCopiedBytes)
    return {};
  // If the exporter folded the value, the layout differs from the parameter's,
  // so the copy must not get the parameter's name.
  const bool isFolded = foldedFrom.contains(name);
  std::string unique =
      makeUnique(wanted.empty() || isFolded ? name.str() : wanted);
  proto::TensorProto &added = *graph.add_initializer();
  added = tensor;
  added.set_name(unique);
  tensors.try_emplace(unique, &added);
  if (isFolded && !wanted.empty())
    describeFolded(graph, unique, wanted);
  else if (source)
    describeInitializer(graph, unique, *source);
  done.push_back("'" + unique + "' of '" + name.str() + "'");
  return unique;
}

// Splits the initializer `name` if its readers read different values of the
// program.
void Separator::separateSources(StringRef name, ArrayRef<Read> reads) {
  llvm::EquivalenceClasses<StringRef> sources;
  // Readers that may read the same value of the program belong to one group.
  for (const Read &read : reads)
    for (StringRef source : read.sources)
      sources.unionSets(read.sources[0], source);
  // With a single group, the exporter has merged nothing.
  llvm::MapVector<StringRef, SmallVector<const Read *>> groups;
  for (const Read &read : reads)
    if (!read.sources.empty())
      groups[sources.getLeaderValue(read.sources[0])].push_back(&read);
  if (groups.size() < 2)
    return;
  // Tensors of equal elements, like biases of zeros, are often equal by chance,
  // so a likely name in the program suffices. Other tensors may be a parameter
  // shared by modules. So split other tensors only if the call of each reader
  // tells exactly which parameter is read.
  if (!isSplat(*tensors.lookup(name)) &&
      !llvm::all_of(reads, [](const Read &read) { return read.isExact; }))
    return;
  // The initializer stays with the group that reads the parameter whose name
  // the initializer has.
  StringRef original = originalNames.lookup(name);
  std::optional<StringRef> keeper;
  if (sources.contains(original) && !original.empty())
    keeper = sources.getLeaderValue(original);
  else if (original.empty())
    keeper = groups.front().first;
  // Each other group gets a copy, named after the parameter of the first
  // reader.
  for (const auto &[leader, members] : groups) {
    if (leader == keeper)
      continue;
    const Read &first = *members.front();
    StringRef source = findSource(first);
    std::string own =
        copy(name, findName(first), source.empty() ? first.sources[0] : source);
    if (own.empty())
      return;
    for (const Read *read : members)
      read->node->set_input(read->index, own);
  }
}

// Gives each layer separate running statistics. Calls of a module share scale,
// bias and statistics, so scale and bias identify the layer. Copies only
// tensors of equal elements, which are equal by chance. Other tensors may be
// shared on purpose: PyTorch's convolutions for quantisation-aware training
// really read a variance twice, to divide weights by sqrt(running_var + eps).
void Separator::separateStatistics() {
  // The key of a statistic: the layer's scale and bias, and the index of the
  // input, 3 for the mean and 4 for the variance.
  using Key = std::tuple<StringRef, StringRef, int>;
  auto keyOf = [](const Read &read) {
    return Key(read.node->input(1), read.node->input(2), read.index);
  };
  std::map<Key, std::string> statistics;
  SmallVector<Read> shared;
  // The roles in which nodes read each initializer: 3 for a mean, 4 for a
  // variance, 0 for anything else.
  llvm::StringMap<llvm::SmallSet<int, 3>> roles;
  // Skip Identity: the result has another name, so the readers are separate
  // already.
  for (const auto &entry : reads)
    for (const Read &read : entry.second)
      if (read.node->op_type() != "Identity")
        roles[read.node->input(read.index)].insert(
            read.isStatistic() ? read.index : 0);
  // An initializer read only as a mean, or only as a variance, stays.
  for (const auto &entry : reads)
    for (const Read &read : entry.second) {
      if (!read.isStatistic())
        continue;
      StringRef name = read.node->input(read.index);
      const proto::TensorProto *tensor = tensors.lookup(name);
      if (roles[name].size() == 1 || (tensor && !isSplat(*tensor)))
        statistics.try_emplace(keyOf(read), name);
      else
        shared.push_back(read);
    }
  // Copy an initializer read, for example, as the variance of a layer and as
  // the scale of another layer.
  for (const Read &read : shared) {
    std::string &own = statistics[keyOf(read)];
    StringRef layer = read.node->name();
    if (layer.empty() && read.node->output_size() > 0)
      layer = read.node->output(0);
    if (own.empty())
      own = copy(
          read.node->input(read.index),
          (layer + (read.index == 3 ? ".running_mean" : ".running_var")).str(),
          std::nullopt);
    if (!own.empty())
      read.node->set_input(read.index, own);
  }
}

std::string Separator::run() {
  collect();
  for (const auto &entry : reads)
    if (entry.second.size() > 1)
      separateSources(entry.first, entry.second);
  separateStatistics();
  if (done.empty())
    return {};
  return "the exporter made one of values that start equal, which are taken "
         "apart again: " +
         listFirst(done, 2);
}

llvm::Error mpc::onnx_frontend::separateInitializers(RepairContext &context) {
  context.note(Separator(context.getModel()).run());
  return llvm::Error::success();
}
