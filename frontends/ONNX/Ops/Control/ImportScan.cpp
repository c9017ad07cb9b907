// Imports Scan as one mpc.scan. Opset 8 has a batch axis; each sample becomes a
// separate mpc.scan.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/LoopBody.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// The number of inputs allowed in the op table, more than any Scan has. With
/// kAnyNumber, no input may be absent, but input 0 of opset 8 may.
static constexpr unsigned kMostInputs = 1 << 16;

namespace {
/// The axis and direction of each scanned tensor.
struct Directions {
  SmallVector<int64_t> axes;
  SmallVector<bool> reversed;
};
} // namespace

// Reads `count` axes and directions; `what` is "input" or "output".
static FailureOr<Directions> readDirections(NodeImporter &node, StringRef what,
                                            size_t count) {
  Directions result;
  result.axes.assign(count, 0);
  std::string axes = ("scan_" + what + "_axes").str();
  std::string directions = ("scan_" + what + "_directions").str();
  if (auto given = node.integerList(axes))
    result.axes = *given;
  // Direction 1 runs from the last element to the first.
  for (int64_t direction :
       node.integerList(directions).value_or(SmallVector<int64_t>(count, 0))) {
    if (direction != 0 && direction != 1)
      return node.invalid("expected attribute '" + directions +
                          "' to hold only 0 and 1, found " + Twine(direction));
    result.reversed.push_back(direction);
  }
  if (result.axes.size() != count || result.reversed.size() != count)
    return node.invalid("expected " + Twine(count) +
                        " axes and directions of " + what + "s, found " +
                        Twine(result.axes.size()) + " axes and " +
                        Twine(result.reversed.size()) + " directions");
  return result;
}

// Moves axis `from` of `value` to axis `to`; the other axes keep their order.
static Value moveAxis(NodeImporter &node, Value value, int64_t from,
                      int64_t to) {
  if (!value || from == to)
    return value;
  auto perm = llvm::to_vector(
      llvm::seq<int64_t>(0, NodeImporter::typeOf(value).getRank()));
  perm.erase(perm.begin() + from);
  perm.insert(perm.begin() + to, from);
  return node.emit<TransposeOp>({value}, {node.attribute("perm", perm)});
}

namespace {
/// Imports the loop of one Scan. Inputs and outputs are carried values, then
/// tensors whose axis 0 has one part per iteration.
class ScanImporter {
public:
  ScanImporter(NodeImporter &node, const Graph &graph)
      : node(node), body(node, graph) {}

  FailureOr<SmallVector<Value>> import(ArrayRef<Value> carried,
                                       ArrayRef<Value> scanned,
                                       ArrayRef<bool> reversedInputs,
                                       ArrayRef<bool> reversedOutputs);

private:
  NodeImporter &node;
  LoopBody body;
};
} // namespace

// Returns the number of iterations: the extent of axis 0 of all scanned inputs,
// which must agree.
static FailureOr<int64_t> findLength(NodeImporter &node,
                                     ArrayRef<Value> scanned) {
  std::optional<int64_t> length;
  for (Value whole : scanned) {
    int64_t extent = NodeImporter::shapeOf(whole).front();
    if (length.value_or(extent) != extent)
      return node.invalid("expected scanned inputs of one length, found " +
                          Twine(*length) + " and " + Twine(extent) + " parts");
    length = extent;
  }
  if (*length == 0)
    return node.unsupported(
        "expected scanned inputs of at least 1 part, found 0");
  return *length;
}

FailureOr<SmallVector<Value>>
ScanImporter::import(ArrayRef<Value> carried, ArrayRef<Value> scanned,
                     ArrayRef<bool> reversedInputs,
                     ArrayRef<bool> reversedOutputs) {
  FailureOr<int64_t> length = findLength(node, scanned);
  if (failed(length))
    return failure();
  for (auto [i, value] : llvm::enumerate(carried))
    body.addCarried(i, value);
  for (auto [i, whole] : llvm::enumerate(scanned))
    body.addScanned(carried.size() + i, whole, reversedInputs[i]);
  if (node.hasFailed() || failed(body.importNodes()))
    return failure();
  SmallVector<Value> yielded;
  for (unsigned i = 0; i < carried.size() + reversedOutputs.size(); ++i)
    yielded.push_back(body.yield(i));
  if (llvm::is_contained(yielded, Value()))
    return failure();
  ScanOp scan = body.finish(*length, yielded, reversedOutputs);
  if (!scan)
    return failure();
  return SmallVector<Value>(scan->getResults());
}

namespace {
/// The numbers of carried values, scanned inputs and stacked outputs.
struct ScanCounts {
  unsigned carried = 0, scanned = 0, parts = 0;
};
} // namespace

// Counts the carried values, scanned inputs and stacked outputs of the node.
// Inputs before input `first` do not count: in opset 8, input 0 is the sequence
// lengths.
static FailureOr<ScanCounts>
readScanCounts(NodeImporter &node, const Graph &graph, unsigned first) {
  int64_t scanned = node.integer("num_scan_inputs", 0);
  unsigned inputs = node.getNumInputs() - std::min(first, node.getNumInputs());
  unsigned outputs = node.getNode().output_size();
  if (scanned < 1 || scanned > inputs)
    return node.invalid("expected attribute 'num_scan_inputs' from 1 to " +
                        Twine(inputs) + ", the number of inputs, found " +
                        Twine(scanned));
  if (inputs - scanned > outputs)
    return node.invalid(
        "expected an output for each of the " + Twine(inputs - scanned) +
        " inputs that are not scanned, found " + Twine(outputs) + " outputs");
  if (failed(checkCounts(node, graph, inputs, outputs)))
    return failure();
  unsigned carried = inputs - scanned;
  return ScanCounts{carried, static_cast<unsigned>(scanned), outputs - carried};
}

static LogicalResult importScan(NodeImporter &node) {
  std::optional<Graph> graph = readBody(node, "body");
  if (!graph)
    return failure();
  FailureOr<ScanCounts> counts = readScanCounts(node, *graph, 0);
  if (failed(counts))
    return failure();
  FailureOr<Directions> inputs = readDirections(node, "input", counts->scanned);
  FailureOr<Directions> outputs = readDirections(node, "output", counts->parts);
  if (failed(inputs) || failed(outputs))
    return failure();
  // Move scanned axes to the front, as mpc.scan requires.
  SmallVector<Value> carried, scanned;
  for (unsigned i = 0; i < counts->carried; ++i)
    carried.push_back(node.operand(i));
  for (unsigned i = 0; i < counts->scanned; ++i) {
    unsigned index = counts->carried + i;
    auto axis =
        node.normalizeAxis(inputs->axes[i], node.operandType(index).getRank());
    if (failed(axis))
      return failure();
    scanned.push_back(moveAxis(node, node.operand(index), *axis, 0));
    if (!scanned.back())
      return failure();
  }
  auto results =
      ScanImporter(node, *graph)
          .import(carried, scanned, inputs->reversed, outputs->reversed);
  if (failed(results))
    return failure();
  // Move stacked axes to the positions that the node gives.
  LogicalResult result = success();
  for (auto [i, value] : llvm::enumerate(*results)) {
    if (i >= counts->carried) {
      auto axis = node.normalizeAxis(outputs->axes[i - counts->carried],
                                     NodeImporter::typeOf(value).getRank());
      if (failed(axis))
        return failure();
      value = moveAxis(node, value, 0, *axis);
    }
    if (failed(node.define(i, value)))
      result = failure();
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Scan of opset 8
//===----------------------------------------------------------------------===//

// Reads the batch size of a Scan of opset 8: the extent of axis 0 of every
// input.
static FailureOr<int64_t> readBatch(NodeImporter &node) {
  std::optional<int64_t> batch;
  for (unsigned i = 1; i < node.getNumInputs(); ++i) {
    ArrayRef<int64_t> shape = node.operandShape(i);
    if (shape.empty() || batch.value_or(shape.front()) != shape.front())
      return node.invalid(
          "expected all inputs to have the same batch size on axis 0" +
          node.found({1, i}));
    batch = shape.front();
  }
  constexpr int64_t kMostSamples = 256;
  if (!batch || *batch < 1 || *batch > kMostSamples)
    return node.unsupported("expected a batch of 1 to " + Twine(kMostSamples) +
                            " for a Scan of opset 8, found " +
                            Twine(batch.value_or(0)) +
                            "; export with opset 9 or "
                            "later");
  return *batch;
}

// Checks that all sequences have full length: shorter sequences would leave a
// part of the outputs undefined.
static LogicalResult checkSequenceLengths(NodeImporter &node, int64_t length) {
  if (!node.hasInput(0))
    return success();
  auto lengths = node.integers(0, "the lengths of sequences");
  if (failed(lengths))
    return failure();
  for (int64_t each : *lengths)
    if (each != length)
      return node.unsupported("expected sequences of " + Twine(length) +
                              " elements, found one of " + Twine(each) +
                              "; other lengths are not supported");
  return success();
}

// Returns sample `number` of a batch, without the batch axis. Null if `whole`
// is null.
static Value takeSample(NodeImporter &node, Value whole, int64_t number) {
  if (!whole)
    return {};
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(whole));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  offsets.front() = number, sizes.front() = 1;
  Value part = slice(node, whole, offsets, sizes);
  sizes.erase(sizes.begin());
  return part ? node.reshape(part, sizes) : Value();
}

static LogicalResult importBatchedScan(NodeImporter &node) {
  std::optional<Graph> graph = readBody(node, "body");
  if (!graph)
    return failure();
  FailureOr<ScanCounts> counts = readScanCounts(node, *graph, 1);
  FailureOr<int64_t> batch = readBatch(node);
  if (failed(counts) || failed(batch))
    return failure();
  SmallVector<bool> reversed(counts->scanned, false);
  if (auto directions = node.integerList("directions")) {
    if (directions->size() != reversed.size())
      return node.invalid("expected " + Twine(reversed.size()) +
                          " values in attribute 'directions', found " +
                          Twine(directions->size()));
    // Direction 1 runs from the last element to the first.
    for (auto [i, direction] : llvm::enumerate(*directions)) {
      if (direction != 0 && direction != 1)
        return node.invalid(
            "expected attribute 'directions' to hold only 0 and 1, found " +
            Twine(direction));
      reversed[i] = direction == 1;
    }
  }
  ArrayRef<int64_t> shape = node.operandShape(1 + counts->carried);
  if (shape.size() < 2)
    return node.invalid("expected scanned inputs of [batch, time, ...]" +
                        node.found({1 + counts->carried}));
  if (failed(checkSequenceLengths(node, shape[1])))
    return failure();
  std::vector<SmallVector<Value>> samples(counts->carried + counts->parts);
  SmallVector<bool> forwards(counts->parts, false);
  for (int64_t number = 0; number < *batch; ++number) {
    SmallVector<Value> inputs;
    for (unsigned i = 1; i < node.getNumInputs(); ++i)
      inputs.push_back(takeSample(node, node.operand(i), number));
    if (llvm::is_contained(inputs, Value()))
      return failure();
    ArrayRef<Value> all = inputs;
    auto results =
        ScanImporter(node, *graph)
            .import(all.take_front(counts->carried),
                    all.drop_front(counts->carried), reversed, forwards);
    if (failed(results))
      return failure();
    for (auto [i, value] : llvm::enumerate(*results)) {
      SmallVector<int64_t> shape = {1};
      llvm::append_range(shape, NodeImporter::shapeOf(value));
      samples[i].push_back(node.reshape(value, shape));
    }
  }
  for (auto [i, list] : llvm::enumerate(samples))
    if (failed(node.define(i, concatenate(node, list, 0))))
      return failure();
  return success();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getScanOps() {
  static const OpEntry entries[] = {
      {"", "Scan", 8, 8, 0, kMostInputs, kAnyNumber, importBatchedScan},
      {"", "Scan", 9, kNoEnd, 1, kAnyNumber, kAnyNumber, importScan},
  };
  return entries;
}
