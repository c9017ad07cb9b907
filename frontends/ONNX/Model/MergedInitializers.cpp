// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/MergedInitializers.h"

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

// What copies may take all together: those of a program are vectors.
static constexpr size_t kMostCopiedBytes = size_t(64) << 20;

static constexpr llvm::StringLiteral kOriginalName =
    "pkg.torch.onnx.original_node_name";

//===----------------------------------------------------------------------===//
// What PyTorch's exporter says of a node
//===----------------------------------------------------------------------===//

// Whether an argument of a call is a parameter, a buffer or a constant.
static bool isProgramSource(StringRef argument) {
  return argument.starts_with("%p_") || argument.starts_with("%b_") ||
         argument.starts_with("%c_");
}

static bool isBatchNorm(const proto::NodeProto &node) {
  return node.op_type() == "BatchNormalization" && node.domain().empty();
}

//===----------------------------------------------------------------------===//
// Separation
//===----------------------------------------------------------------------===//

namespace {
/// Where a node reads an initializer, and what of the program that may be:
/// nothing where the file does not say.
struct Read {
  proto::NodeProto *node;
  int index;
  SmallVector<StringRef, 2> sources;

  bool isStatistic() const { return isBatchNorm(*node) && index >= 3; }
};

class Separator {
public:
  explicit Separator(Model &model)
      : model(model), graph(*model.getProto().mutable_graph()) {}

  std::string run();

private:
  void collect();
  SmallVector<StringRef, 2> findSources(const proto::NodeProto &node, int index,
                                        size_t count);
  bool isFloat(const proto::TensorProto &tensor);
  bool isSplat(const proto::TensorProto &tensor);
  void separateSources(StringRef name, ArrayRef<Read> reads);
  void separateStatistics();
  std::string findName(const Read &read);
  std::string makeUnique(std::string name);
  std::string copy(StringRef name, std::string wanted, StringRef source);

  Model &model;
  proto::GraphProto &graph;
  llvm::StringMap<proto::TensorProto *> tensors;
  /// Of initializers, what the exporter calls them in the program.
  llvm::StringMap<StringRef> originalNames;
  llvm::StringSet<> names;
  /// Those behind names that were made unique.
  llvm::StringMap<int> lastNumbers;
  llvm::MapVector<StringRef, std::vector<Read>> reads;
  size_t bytes = 0;
  std::vector<std::string> done;
};
} // namespace

// A call has the operands of a BatchNormalization in ONNX's order. Of another
// node any of the call's may be meant, if it has as many as the node reads.
SmallVector<StringRef, 2> Separator::findSources(const proto::NodeProto &node,
                                                 int index, size_t count) {
  SmallVector<StringRef> arguments = readCallArguments(node);
  SmallVector<StringRef, 2> sources;
  if (isBatchNorm(node)) {
    if (index < static_cast<int>(arguments.size()) &&
        isProgramSource(arguments[index]))
      sources.push_back(arguments[index].drop_front());
    return sources;
  }
  for (StringRef argument : arguments)
    if (isProgramSource(argument))
      sources.push_back(argument.drop_front());
  if (sources.size() < count)
    sources.clear();
  return sources;
}

// The float initializers and who reads them.
void Separator::collect() {
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    if (names.insert(tensor.name()).second && isFloat(tensor))
      tensors.try_emplace(tensor.name(), &tensor);
  for (const proto::ValueInfoProto &value : graph.value_info())
    originalNames.try_emplace(value.name(), findMetadata(value, kOriginalName));
  for (const proto::ValueInfoProto &value : graph.input())
    names.insert(value.name());
  for (proto::NodeProto &node : *graph.mutable_node()) {
    for (const std::string &output : node.output())
      names.insert(output);
    size_t count = llvm::count_if(node.input(), [&](const std::string &input) {
      return tensors.contains(input);
    });
    for (int i = 0; i < node.input_size(); ++i)
      if (auto it = tensors.find(node.input(i)); it != tensors.end())
        reads[it->first()].push_back({&node, i, findSources(node, i, count)});
  }
}

bool Separator::isFloat(const proto::TensorProto &tensor) {
  llvm::Expected<mlir::Type> element =
      model.getElementType(tensor.data_type(), "initializer");
  if (element)
    return llvm::isa<mlir::FloatType>(*element);
  // The import says what is wrong with it.
  llvm::consumeError(element.takeError());
  return false;
}

bool Separator::isSplat(const proto::TensorProto &tensor) {
  llvm::Expected<HostTensor> values = model.decode(tensor, "initializer");
  if (values)
    return values->isSplat();
  llvm::consumeError(values.takeError());
  return false;
}

// The name of what `read` reads in the program, such as "layers.1.weight" of
// "p_layers_1_weight" in the scope "layers.1"; empty where it is not known.
std::string Separator::findName(const Read &read) {
  StringRef source;
  if (read.sources.size() == 1) {
    source = read.sources[0];
  } else {
    // As many as the node reads: in the same order.
    SmallVector<int> indices;
    for (int i = 0; i < read.node->input_size(); ++i)
      if (tensors.contains(read.node->input(i)))
        indices.push_back(i);
    if (indices.size() == read.sources.size())
      source = read.sources[llvm::find(indices, read.index) - indices.begin()];
  }
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
                            StringRef source) {
  const proto::TensorProto &tensor = *tensors.lookup(name);
  constexpr size_t tooMany = kMostCopiedBytes + 1;
  size_t size = 8;
  for (int64_t extent : tensor.dims())
    size = std::min(size * std::clamp<int64_t>(extent, 0, tooMany), tooMany);
  bytes += std::min(std::max(size, tensor.ByteSizeLong()), tooMany);
  if (bytes > kMostCopiedBytes)
    return {};
  std::string unique =
      makeUnique(wanted.empty() ? name.str() : std::move(wanted));
  proto::TensorProto &added = *graph.add_initializer();
  added = tensor;
  added.set_name(unique);
  tensors.try_emplace(unique, &added);
  if (!source.empty()) {
    // As the exporter says it of those that it left.
    proto::ValueInfoProto &value = *graph.add_value_info();
    value.set_name(unique);
    auto add = [&](StringRef key, StringRef text) {
      auto *entry = value.add_metadata_props();
      entry->set_key(key.str());
      entry->set_value(text.str());
    };
    add(kInputKindKey, source.starts_with("p_") ? "PARAMETER" : "BUFFER");
    add(kOriginalName, source);
  }
  done.push_back("'" + unique + "' of '" + name.str() + "'");
  return unique;
}

// Nodes whose calls have no parameter or buffer in common read different ones.
void Separator::separateSources(StringRef name, ArrayRef<Read> reads) {
  llvm::EquivalenceClasses<StringRef> sources;
  for (const Read &read : reads)
    for (StringRef source : read.sources)
      sources.unionSets(read.sources[0], source);
  llvm::MapVector<StringRef, SmallVector<const Read *>> groups;
  for (const Read &read : reads)
    if (!read.sources.empty())
      groups[sources.getLeaderValue(read.sources[0])].push_back(&read);
  if (groups.size() < 2 || !isSplat(*tensors.lookup(name)))
    return;
  // One keeps the initializer: that which the exporter calls it by.
  StringRef original = originalNames.lookup(name);
  StringRef keeper = sources.contains(original)
                         ? sources.getLeaderValue(original)
                         : groups.front().first;
  for (const auto &[leader, members] : groups) {
    if (leader == keeper)
      continue;
    const Read &first = *members.front();
    std::string own = copy(name, findName(first), first.sources[0]);
    if (own.empty())
      return;
    for (const Read *read : members)
      read->node->set_input(read->index, own);
  }
}

// Two calls of one module have its scale, bias and statistics in common.
void Separator::separateStatistics() {
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
  for (const auto &entry : reads)
    for (const Read &read : entry.second) {
      if (!read.isStatistic())
        continue;
      StringRef name = read.node->input(read.index);
      if (roles[name].size() == 1)
        statistics.try_emplace(keyOf(read), name);
      else
        shared.push_back(read);
    }
  for (const Read &read : shared) {
    std::string &own = statistics[keyOf(read)];
    StringRef layer =
        read.node->name().empty() ? read.node->output(0) : read.node->name();
    if (own.empty())
      own = copy(
          read.node->input(read.index),
          (layer + (read.index == 3 ? ".running_mean" : ".running_var")).str(),
          {});
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
  constexpr size_t shown = 2;
  std::string text = "the exporter made one of values that start equal, which "
                     "are taken apart again: ";
  for (size_t i = 0; i < done.size() && i < shown; ++i)
    text += (i > 0 ? ", " : "") + done[i];
  if (done.size() > shown)
    text += " and " + std::to_string(done.size() - shown) + " more";
  return text;
}

std::string mpc::onnx_frontend::separateInitializers(Model &model) {
  return Separator(model).run();
}
