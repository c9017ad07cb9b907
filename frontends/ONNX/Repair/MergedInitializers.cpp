// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/MergedInitializers.h"

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

// What all copies together may take. A program that merges parameters merges
// vectors, so that this is plenty.
static constexpr size_t kMostCopiedBytes = size_t(64) << 20;

// The most parameters that a call has which its nodes may read: the file is a
// stranger's.
static constexpr size_t kMostSources = 32;

static bool isBatchNorm(const proto::NodeProto &node) {
  return node.op_type() == "BatchNormalization" && node.domain().empty();
}

//===----------------------------------------------------------------------===//
// Separation
//===----------------------------------------------------------------------===//

namespace {
/// Where a node reads an initializer, and what of the program that may be:
/// nothing where the file does not say, and "" for a constant.
struct Read {
  proto::NodeProto *node;
  int index;
  SmallVector<StringRef, 2> sources;
  /// True if the program says which parameter this very input is; false if it
  /// only says which parameters the call reads.
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
  /// Of initializers, what the exporter calls them in the program.
  llvm::StringMap<StringRef> originalNames;
  /// What the exporter computed them from.
  llvm::StringMap<SmallVector<StringRef>> foldedFrom;
  llvm::MapVector<StringRef, StringRef> signature;
  llvm::StringSet<> names;
  /// Those behind names that were made unique.
  llvm::StringMap<int> lastNumbers;
  llvm::MapVector<StringRef, std::vector<Read>> reads;
  /// What modules read as statistic 3 or 4; empty where that differs.
  std::map<std::pair<StringRef, int>, StringRef> moduleStatistics;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

// What the exporter says of the operand; else any source of the call may be
// meant, if it has as many as the node reads and the program has the tensor.
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

// The statistic that a call of a module reads, of which the file says `given`:
// a buffer, or nothing where it is computed, as by the module's call before,
// whose statistic it is then. Nothing where the module has several.
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

// Whether the exporter made the initializer of constants alone.
bool Separator::isConstant(StringRef name) {
  if (!originalNames.lookup(name).empty())
    return false;
  auto it = foldedFrom.find(name);
  if (it == foldedFrom.end())
    return isExportersName(name);
  return llvm::all_of(it->second, isExportersName);
}

// The float initializers and who reads them, in bodies too.
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
  // The import says what is wrong with it.
  llvm::consumeError(values.takeError());
  return false;
}

// What `read` reads in the program, such as "p_layers_1_weight"; of several
// sources, where the node reads as many, in the same order.
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

// The name of a source in the program, such as "layers.1.weight" of
// "p_layers_1_weight", by the signature or else by the scope "layers.1" of the
// node; empty where it is not known.
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

// Adds an initializer with the value of `name`; returns its name, empty where
// copies have become too many.
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
  // What the exporter computed is laid out otherwise than the parameter, and
  // does not have its name.
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

// Nodes whose calls have no parameter or buffer in common read different ones.
void Separator::separateSources(StringRef name, ArrayRef<Read> reads) {
  llvm::EquivalenceClasses<StringRef> sources;
  // Calls that have one parameter in common read the same ones.
  for (const Read &read : reads)
    for (StringRef source : read.sources)
      sources.unionSets(read.sources[0], source);
  // Reads in groups: one group is what an exporter that merges nothing writes.
  llvm::MapVector<StringRef, SmallVector<const Read *>> groups;
  for (const Read &read : reads)
    if (!read.sources.empty())
      groups[sources.getLeaderValue(read.sources[0])].push_back(&read);
  if (groups.size() < 2)
    return;
  // Initializers of one value, such as biases of zeros, are merged by chance,
  // and a likely source is enough to part them. Others may be one parameter
  // that several modules share: the source of every reader must be certain.
  if (!isSplat(*tensors.lookup(name)) &&
      !llvm::all_of(reads, [](const Read &read) { return read.isExact; }))
    return;
  // The parameter whose name the initializer has keeps it.
  StringRef original = originalNames.lookup(name);
  std::optional<StringRef> keeper;
  if (sources.contains(original) && !original.empty())
    keeper = sources.getLeaderValue(original);
  else if (original.empty())
    keeper = groups.front().first;
  // Every other group gets a copy of its own, by the name of its first reader's
  // parameter.
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

// Two calls of one module have its scale, bias and statistics in common. Only
// values of one number are merged by chance: statistics that another op reads
// too are read as such, as PyTorch's convolutions for quantisation-aware
// training divide their weights by sqrt(running_var + eps).
void Separator::separateStatistics() {
  // A layer is known by scale and bias; index 3 is its mean, 4 its variance.
  using Key = std::tuple<StringRef, StringRef, int>;
  auto keyOf = [](const Read &read) {
    return Key(read.node->input(1), read.node->input(2), read.index);
  };
  std::map<Key, std::string> statistics;
  SmallVector<Read> shared;
  // What each initializer is read as: a statistic's index, or 0 for all else.
  llvm::StringMap<llvm::SmallSet<int, 3>> roles;
  // What an Identity gives on is apart by its name.
  for (const auto &entry : reads)
    for (const Read &read : entry.second)
      if (read.node->op_type() != "Identity")
        roles[read.node->input(read.index)].insert(
            read.isStatistic() ? read.index : 0);
  // A statistic that nothing else is read as stays that of its layer.
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
  // A tensor of ones may be the variance of one layer and the scale of another:
  // the statistic gets a copy.
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
  signature = readSignature(graph);
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

std::string mpc::onnx_frontend::separateInitializers(Model &model) {
  return Separator(model).run();
}
