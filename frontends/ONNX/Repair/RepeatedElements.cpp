// Merges copies of parameter elements made by PyTorch's exporter.
//
// The exporter folds table[indices] if the indices are constant. Swin's biases,
// for example, are table[relative_position]: the file has the 49 x 49 results,
// in which each of the 169 parameters appears many times. Writes the distinct
// elements as initializer `NAME_elements`, and a Gather that computes `NAME`
// from them, so that all copies of an element train as one parameter. Skips
// parameters with an element 0, 1 or -1, and parameters whose elements may be
// equal by chance, because of many elements or few bits.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// # pkg.torch.export.ExportedProgram.graph_signature:
//     p_table: PARAMETER target='table'
// g (float[2,3] x) => (float[2,3] y)
// <
//   # pkg.onnxscript.optimizer.folded_from: ['table']
//   float[2,3] index = {0.1, 0.2, 0.3, 0.2, 0.3, 0.1}
// >
// {
//   y = Add (x, index)
// }
// ```
//
// After:
//
// ```
// <
//   ...
//   float[3] index_elements = {0.1, 0.2, 0.3},
//   int64[2,3] index_index = {0, 1, 2, 1, 2, 0}
// >
// {
//   [elements_of_index] index = Gather (index_elements, index_index)
//   y = Add (x, index)
// }
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/RepeatedElements.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/bit.h"

#include <map>

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::StringRef;

/// Below this limit, random float32 elements are hardly ever equal by chance.
/// In larger tensors only whole rows are compared.
static constexpr int64_t kMostElements = 1024;
/// Limits the elements of an examined tensor, because the file is untrusted.
static constexpr int64_t kMostPlaces = int64_t(1) << 24;
/// The shortest row that is compared if all elements have 16 bits: shorter rows
/// may be equal by chance.
static constexpr int64_t kLeastHalfRow = 4;

// Counts distinct values. Compares bits, because NaN would break the sorting.
static size_t countDifferent(ArrayRef<double> values) {
  std::vector<uint64_t> bits(values.size());
  for (auto [bit, value] : llvm::zip(bits, values))
    bit = llvm::bit_cast<uint64_t>(value + 0.0); // -0 is 0
  llvm::sort(bits);
  return std::unique(bits.begin(), bits.end()) - bits.begin();
}

bool mpc::onnx_frontend::hasRepeats(ArrayRef<double> values) {
  return countDifferent(values) < values.size() - values.size() / 10;
}

// True if all values fit in 16 bits, as weights stored as float16 or bfloat16
// do. 16-bit weights have only a few hundred distinct values in the usual
// range, so values repeat by chance.
static bool areHalves(ArrayRef<double> values) {
  return llvm::all_of(values, [](double value) {
    constexpr uint32_t onlyOfFloats = (1 << 13) - 1;
    const auto bits = llvm::bit_cast<uint32_t>(static_cast<float>(value));
    return (bits & onlyOfFloats) == 0;
  });
}

/// For each element of a tensor, the index of its distinct value; and the count
/// of distinct values.
using Places = std::pair<std::vector<int64_t>, int64_t>;

// Numbers the distinct rows of a tensor. A row runs along an axis of `extent`
// elements with stride `inner`. Equal rows get equal numbers r; element i of
// row r is element r * extent + i of the table of distinct values.
static Places numberRows(ArrayRef<double> values, int64_t extent,
                         int64_t inner) {
  std::map<std::vector<double>, int64_t> rows;
  std::vector<int64_t> numbers(values.size());
  const int64_t count = values.size(), block = extent * inner;
  for (int64_t begin = 0; begin < count; begin += block)
    for (int64_t at = begin; at < begin + inner; ++at) {
      std::vector<double> row;
      for (int64_t i = 0; i < extent; ++i)
        row.push_back(values[at + i * inner]);
      int64_t number =
          rows.try_emplace(std::move(row), rows.size()).first->second;
      for (int64_t i = 0; i < extent; ++i)
        numbers[at + i * inner] = number * extent + i;
    }
  return {std::move(numbers), rows.size() * extent};
}

// Finds the distinct elements. Compares single elements, or rows along the axis
// with the fewest distinct elements. Empty if elements may be equal by chance.
static Places findElements(ArrayRef<double> values, ArrayRef<int64_t> shape) {
  // 16-bit numbers repeat by chance, so compare only longer rows.
  const bool hasHalves = areHalves(values);
  const int64_t leastRow = hasHalves ? kLeastHalfRow : 2;
  Places best;
  best.second = values.size();
  // Go from the last axis to the first.
  int64_t inner = 1;
  for (int64_t extent : llvm::reverse(shape)) {
    if (extent >= leastRow)
      if (Places places = numberRows(values, extent, inner);
          places.second < best.second)
        best = std::move(places);
    inner *= extent;
  }
  // Do not compare single 16-bit elements, which repeat by chance.
  if (hasHalves)
    return best;
  // Prefer single elements to rows if over 1 % fewer distinct elements remain.
  const int64_t count = countDifferent(values);
  if (count >= best.second - best.second / 100 && !best.first.empty())
    return best;
  if (count > kMostElements)
    return {};
  return numberRows(values, /*extent=*/1, /*inner=*/values.size());
}

namespace {
class RepeatJoiner {
public:
  explicit RepeatJoiner(RepairContext &context)
      : model(context.getModel()), graph(context.getGraph()),
        taken(context.findNames()) {}

  std::string run();

private:
  std::optional<StringRef> findSource(const proto::ValueInfoProto &value);
  bool join(proto::TensorProto &tensor, StringRef source);
  void addGather(StringRef name, ArrayRef<int64_t> shape,
                 ArrayRef<int64_t> numbers);

  Model &model;
  proto::GraphProto &graph;
  /// The name of each parameter in calls ("p_table"), by the name in PyTorch
  /// ("table").
  llvm::StringMap<StringRef> parameters;
  llvm::StringSet<> unitMultiples;
  llvm::StringSet<> taken;
  std::vector<proto::NodeProto *> gathers;
};
} // namespace

// Finds the only parameter of which `value` may repeat elements; nullopt if
// there are none or several.
std::optional<StringRef>
RepeatJoiner::findSource(const proto::ValueInfoProto &value) {
  if (!isMoved(value, model.getProgram(), unitMultiples) || !mayRepeat(value))
    return std::nullopt;
  std::optional<StringRef> source;
  for (StringRef name : readFoldedParameters(value))
    if (auto found = parameters.find(name); found != parameters.end()) {
      if (source)
        return std::nullopt;
      source = found->second;
    }
  return source;
}

// Adds a Gather that computes the value `name` from the distinct elements:
// element i is `NAME_elements[numbers[i]]`.
void RepeatJoiner::addGather(StringRef name, ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> numbers) {
  const std::string index = (name + "_index").str();
  proto::TensorProto &places = *graph.add_initializer();
  places.set_name(index);
  places.set_data_type(proto::TensorProto::INT64);
  for (int64_t extent : shape)
    places.add_dims(extent);
  places.set_raw_data(
      std::string(reinterpret_cast<const char *>(numbers.data()),
                  numbers.size() * sizeof(int64_t)));
  auto *node = new proto::NodeProto();
  node->set_name(("elements_of_" + name).str());
  node->set_op_type("Gather");
  node->add_input((name + "_elements").str());
  node->add_input(index);
  node->add_output(name.str());
  gathers.push_back(node);
}

bool RepeatJoiner::join(proto::TensorProto &tensor, StringRef source) {
  const std::string name = tensor.name();
  if (taken.contains(name + "_elements") || taken.contains(name + "_index"))
    return false;
  llvm::Expected<HostTensor> decoded = model.decode(tensor, "initializer");
  if (!decoded) {
    // Drop the error: the import reports undecodable tensors.
    llvm::consumeError(decoded.takeError());
    return false;
  }
  // Skip 0, 1 and -1: initial values of parameters repeat these numbers without
  // any lookup.
  std::vector<double> values(decoded->getNumElements());
  for (auto [i, value] : llvm::enumerate(values)) {
    value = decoded->getDouble(i);
    if (value == 0 || value == 1 || value == -1 || value != value)
      return false;
  }
  if (!hasRepeats(values))
    return false;
  const llvm::SmallVector<int64_t> shape(decoded->getShape());
  auto [numbers, count] = findElements(values, shape);
  if (numbers.empty())
    return false;
  // Replace the initializer by an initializer with the distinct elements, and a
  // Gather.
  std::vector<float> elements(count);
  for (auto [number, value] : llvm::zip(numbers, values))
    elements[number] = static_cast<float>(value);
  tensor.Clear();
  tensor.set_name(name + "_elements");
  tensor.set_data_type(proto::TensorProto::FLOAT);
  tensor.add_dims(count);
  tensor.set_raw_data(
      std::string(reinterpret_cast<const char *>(elements.data()),
                  elements.size() * sizeof(float)));
  addGather(name, shape, numbers);
  describeInitializer(graph, name + "_elements", source);
  return true;
}

std::string RepeatJoiner::run() {
  for (auto [source, target] : model.getProgram().signature)
    if (isParameter(source))
      parameters[target] = source;
  unitMultiples = findUnitMultiples(graph);
  // Initializers with fixed names: inputs, outputs and names in bodies.
  llvm::StringSet<> kept = findBodyNames(graph);
  for (const auto *values : {&graph.input(), &graph.output()})
    for (const proto::ValueInfoProto &value : *values)
      kept.insert(value.name());
  llvm::StringMap<proto::TensorProto *> tensors;
  for (proto::TensorProto &tensor : *graph.mutable_initializer()) {
    int64_t count = 1;
    for (int64_t extent : tensor.dims())
      count = extent > 0 && count < kMostPlaces ? count * extent : kMostPlaces;
    if (tensor.data_type() == proto::TensorProto::FLOAT && count > 1 &&
        count < kMostPlaces && !kept.contains(tensor.name()))
      tensors[tensor.name()] = &tensor;
  }
  // Find initializers that may repeat elements of a single parameter.
  std::vector<std::pair<std::string, StringRef>> found;
  llvm::StringSet<> seen;
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (std::optional<StringRef> source = findSource(value);
        source && tensors.contains(value.name()) &&
        seen.insert(value.name()).second)
      found.emplace_back(value.name(), *source);
  std::vector<std::string> done;
  for (const auto &[name, source] : found)
    if (join(*tensors.lookup(name), source))
      done.push_back("'" + name + "'");
  if (done.empty())
    return {};
  // Insert the new nodes first: any node may read their results.
  std::vector<proto::NodeProto *> nodes(graph.node_size());
  graph.mutable_node()->ExtractSubrange(0, graph.node_size(), nodes.data());
  for (proto::NodeProto *node :
       llvm::concat<proto::NodeProto *>(gathers, nodes))
    graph.mutable_node()->AddAllocated(node);
  return "the exporter wrote elements of parameters wherever they are read, "
         "which are trained as one: " +
         listFirst(done, 1);
}

llvm::Error mpc::onnx_frontend::joinRepeats(RepairContext &context) {
  context.note(RepeatJoiner(context).run());
  return llvm::Error::success();
}
