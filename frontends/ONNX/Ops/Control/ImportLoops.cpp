// Imports Loop.
//
// The number of iterations must be known at import. The loop becomes one
// mpc.scan. If the iteration number or a carried value determines a shape, as
// in x[i : i + 2], the loop is unrolled instead. A stacked output of a Loop has
// a new axis 0 with one part per iteration.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/LoopBody.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// The most iterations of a scan. With more, the iteration numbers alone would
/// fill memory.
static constexpr int64_t kMostIterations = 1 << 24;
/// The most iterations of an unrolled loop, and the most nodes of all
/// iterations together.
static constexpr int64_t kMostUnrolled = 4096;
static constexpr int64_t kMostUnrolledNodes = 100000;
/// The number of inputs allowed in the op table, more than any Loop has. With
/// kAnyNumber, no input may be absent, but inputs 0 and 1 of a Loop may.
static constexpr unsigned kMostLoopInputs = 1 << 16;

//===----------------------------------------------------------------------===//
// Loop
//===----------------------------------------------------------------------===//

// Reads the single element of an integer or boolean input that must be known.
static FailureOr<int64_t> readKnown(NodeImporter &node, unsigned index,
                                    StringRef what) {
  FailureOr<SmallVector<int64_t>> values = node.integers(index, what);
  if (failed(values))
    return failure();
  if (values->size() != 1)
    return node.invalid("expected " + what + " to have one element, found " +
                        Twine(values->size()));
  return values->front();
}

// Returns the number of iterations that inputs 0 (a number) and 1 (a condition)
// allow before the first iteration; INT64_MAX if there is no limit.
static FailureOr<int64_t> readLength(NodeImporter &node) {
  int64_t length = INT64_MAX;
  if (node.hasInput(0)) {
    FailureOr<int64_t> given = readKnown(node, 0, "the number of iterations");
    if (failed(given))
      return failure();
    length = std::max<int64_t>(0, *given);
  }
  if (!node.hasInput(1))
    return length;
  FailureOr<int64_t> condition = readKnown(node, 1, "the condition");
  if (failed(condition))
    return failure();
  return *condition ? length : 0;
}

// Limits `length` to 1 if output 0 of the body, the condition for another
// iteration, is false. The condition must be known at import.
static FailureOr<int64_t> limitLength(NodeImporter &node, LoopBody &body,
                                      int64_t length) {
  const ImportedValue &next = body.getImporter().lookup(body.getOutput(0));
  if (!next.constant || next.constant->getNumElements() != 1 ||
      next.constant->isFloat())
    return node.unsupported("expected the loop condition '" +
                            body.getOutput(0) +
                            "' to be known at import, because it decides the "
                            "number of iterations; it depends on data");
  if (next.constant->getInteger(0) == 0)
    length = std::min<int64_t>(length, 1);
  if (length > kMostIterations)
    return node.unsupported(
        "expected " + Twine(kMostIterations) + " iterations at most, found " +
        (length == INT64_MAX ? Twine("no limit") : Twine(length)));
  return length;
}

static HostTensor createTrue(NodeImporter &node) {
  auto type = RankedTensorType::get({}, node.attributes().getI1Type());
  auto [tensor, bytes] = HostTensor::allocate(type);
  *bytes = 1;
  return tensor;
}

// Creates the stacked output of a loop without iterations: a tensor whose axis
// 0 has no elements.
static Value createEmpty(NodeImporter &node, Type part) {
  RankedTensorType type = ScanOp::getStackType(part, 0);
  Attribute elements = DenseElementsAttr::get(type, ArrayRef<Attribute>());
  return node.emit<ConstantOp>({}, {node.attribute("value", elements)}, type);
}

namespace {
/// Imports one Loop as a scan. The inputs of the node are the number of
/// iterations, a condition and the initial values. The body takes the iteration
/// number, the condition and the current values. It yields the condition, the
/// next values, and one part of each stacked output.
class LoopImporter {
public:
  LoopImporter(NodeImporter &node, const Graph &graph)
      : node(node), body(node, graph),
        numValues(node.getNumInputs() < 2 ? 0 : node.getNumInputs() - 2),
        numParts(graph.getOutputs().size() - 1 - numValues) {}

  LogicalResult import(int64_t atMost);

private:
  bool isCarried(unsigned value) { return !body.handsOn(2 + value, 1 + value); }
  void bindInputs();
  LogicalResult addScan(int64_t length);
  LogicalResult addNothing();

  NodeImporter &node;
  LoopBody body;
  unsigned numValues, numParts;
};
} // namespace

// Binds the body's inputs. If the body returns a value unchanged, the scan does
// not carry the value: a constant then stays known inside the body.
void LoopImporter::bindInputs() {
  for (unsigned i = 0; i < numValues; ++i)
    if (isCarried(i))
      body.addCarried(2 + i, node.operand(2 + i));
  body.addNumber(0);
  for (unsigned i = 0; i < numValues; ++i)
    if (!isCarried(i))
      body.getImporter().bindOuter(body.getInput(2 + i),
                                   node.getInputName(2 + i));
}

// Defines the outputs of a loop without iterations: values keep their initial
// value, and stacked outputs are empty.
LogicalResult LoopImporter::addNothing() {
  LogicalResult result = success();
  for (unsigned i = 0; i < numValues; ++i)
    if (failed(node.define(i, node.operand(2 + i))))
      result = failure();
  for (unsigned i = 0; i < numParts; ++i) {
    Value part = body.yield(1 + numValues + i);
    if (!part ||
        failed(node.define(numValues + i, createEmpty(node, part.getType()))))
      result = failure();
  }
  return result;
}

LogicalResult LoopImporter::addScan(int64_t length) {
  // mpc.scan takes the next carried values and then the parts of stacked
  // outputs. Nothing reads the condition.
  SmallVector<Value> yielded;
  for (unsigned i = 0; i < numValues + numParts; ++i)
    if (i >= numValues || isCarried(i))
      yielded.push_back(body.yield(1 + i));
  if (llvm::is_contained(yielded, Value()))
    return failure();
  ScanOp scan =
      body.finish(length, yielded, SmallVector<bool>(numParts, false));
  if (!scan)
    return failure();
  // A value that the body returns unchanged keeps its initial value.
  unsigned next = 0;
  LogicalResult result = success();
  for (unsigned i = 0; i < numValues + numParts; ++i) {
    bool handedOn = i < numValues && !isCarried(i);
    if (failed(node.define(i, handedOn ? node.operand(2 + i)
                                       : scan->getResult(next++))))
      result = failure();
  }
  return result;
}

LogicalResult LoopImporter::import(int64_t atMost) {
  bindInputs();
  body.getImporter().bindConstant(body.getInput(1), createTrue(node));
  if (failed(body.importNodes()))
    return failure();
  FailureOr<int64_t> length = limitLength(node, body, atMost);
  if (failed(length) || node.hasFailed())
    return failure();
  return *length == 0 ? addNothing() : addScan(*length);
}

namespace {
/// Imports one Loop by unrolling all iterations.
class LoopUnroller {
public:
  LoopUnroller(NodeImporter &node, const Graph &graph)
      : node(node), graph(graph), nodes(findNodes(graph)),
        numValues(std::max(node.getNumInputs(), 2u) - 2),
        parts(graph.getOutputs().size() - 1 - numValues) {}

  LogicalResult import(int64_t atMost);

private:
  StringRef getInput(unsigned index) {
    return graph.getInputs()[index]->name();
  }
  StringRef getOutput(unsigned index) {
    return graph.getOutputs()[index]->name();
  }
  std::unique_ptr<FunctionImporter> createIteration(int64_t number);
  FailureOr<bool> goesOn();
  LogicalResult addIteration(int64_t number);
  LogicalResult defineOutputs();

  NodeImporter &node;
  const Graph &graph;
  std::vector<const proto::NodeProto *> nodes;
  unsigned numValues;
  /// The previous iteration; null before the first.
  std::unique_ptr<FunctionImporter> last;
  /// For each stacked output, the parts of all iterations so far.
  std::vector<SmallVector<Value>> parts;
};
} // namespace

// Creates the body of iteration `number`, with its inputs bound.
std::unique_ptr<FunctionImporter>
LoopUnroller::createIteration(int64_t number) {
  auto iteration =
      std::make_unique<FunctionImporter>(node.getFunction(), graph);
  iteration->defaultPhase = node.getPhase();
  iteration->scope = (findOutput(node) + "#" + Twine(number)).str();
  iteration->bindConstant(
      getInput(0), HostTensor::fromIntegers(node.getContext(), {}, {number}));
  iteration->bindConstant(getInput(1), createTrue(node));
  for (unsigned i = 0; i < numValues; ++i) {
    if (last)
      iteration->bindAs(getInput(2 + i), *last, getOutput(1 + i));
    else
      iteration->bindOuter(getInput(2 + i), node.getInputName(2 + i));
  }
  return iteration;
}

// True if the previous iteration yielded a true condition. The condition must
// be known at import.
FailureOr<bool> LoopUnroller::goesOn() {
  const ImportedValue &next = last->lookup(getOutput(0));
  if (!next.constant || next.constant->getNumElements() != 1 ||
      next.constant->isFloat())
    return node.unsupported("expected the loop condition '" + getOutput(0) +
                            "' to be known at import; it depends on data");
  return next.constant->getInteger(0) != 0;
}

LogicalResult LoopUnroller::addIteration(int64_t number) {
  std::unique_ptr<FunctionImporter> iteration = createIteration(number);
  iteration->importNodes(nodes);
  if (node.getFunction().getModule().hasFailed())
    return failure();
  for (auto [index, list] : llvm::enumerate(parts)) {
    Value part = iteration->materialize(getOutput(1 + numValues + index), "");
    if (!part)
      return failure();
    SmallVector<int64_t> shape = {1};
    llvm::append_range(shape, shapeOf(part));
    list.push_back(node.reshape(part, shape));
  }
  last = std::move(iteration);
  return success();
}

LogicalResult LoopUnroller::defineOutputs() {
  LogicalResult result = success();
  for (unsigned i = 0; i < numValues; ++i) {
    const ImportedValue &value = last->lookup(getOutput(1 + i));
    if (value.sequence) {
      (void)node.define(i, *value.sequence);
      continue;
    }
    bool isConstant = value.constant && !value.value && !value.stateRole;
    if (failed(isConstant
                   ? node.define(i, *value.constant)
                   : node.define(i, last->materialize(getOutput(1 + i), ""))))
      result = failure();
  }
  for (auto [index, list] : llvm::enumerate(parts)) {
    Value stack =
        list.size() == 1
            ? list.front()
            : node.emit<ConcatOp>(list, {node.attribute("axis", int64_t(0))});
    if (failed(node.define(numValues + index, stack)))
      result = failure();
  }
  return result;
}

LogicalResult LoopUnroller::import(int64_t atMost) {
  // Unrolling multiplies nodes, so limit their number.
  int64_t most = std::min<int64_t>(
      kMostUnrolled, kMostUnrolledNodes / std::max<size_t>(nodes.size(), 1));
  // The condition must be known at import.
  bool more = true;
  for (int64_t number = 0; more && number < atMost; ++number) {
    if (number == most)
      return node.unsupported("expected " + Twine(most) +
                              " iterations at most of a loop whose shapes or "
                              "condition depend on the iteration, found more; "
                              "loops without such a dependence may have " +
                              Twine(kMostIterations));
    if (failed(addIteration(number)))
      return failure();
    FailureOr<bool> next = goesOn();
    if (failed(next))
      return failure();
    more = *next;
  }
  return defineOutputs();
}

static LogicalResult importLoop(NodeImporter &node) {
  for (unsigned i = 2; i < node.getNumInputs(); ++i)
    if (!node.hasInput(i))
      return node.invalid(
          "expected the initial value of a carried value as input " + Twine(i) +
          ", found none");
  FailureOr<int64_t> length = readLength(node);
  std::optional<Graph> graph = readBody(node, "body");
  if (failed(length) || !graph)
    return failure();
  unsigned values = std::max(node.getNumInputs(), 2u) - 2;
  size_t outputs = std::max<size_t>(1 + values, graph->getOutputs().size());
  if (failed(checkCounts(node, *graph, 2 + values, outputs)))
    return failure();
  if (static_cast<size_t>(node.getNode().output_size()) + 1 > outputs)
    return node.invalid("expected at most " + Twine(outputs - 1) +
                        " outputs, found " +
                        Twine(node.getNode().output_size()));
  // First import the loop as a scan, on trial. `result` may be a failure
  // without a new error: the body reads a value whose import has already
  // failed.
  LogicalResult result = failure();
  bool isScan = node.getFunction().getModule().succeeds([&] {
    NodeImporter trial(node.getFunction(), node.getNode());
    result = LoopImporter(trial, *graph).import(*length);
  });
  if (isScan)
    return result;
  if (*length == 0)
    return LoopImporter(node, *graph).import(0);
  return LoopUnroller(node, *graph).import(*length);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLoopOps() {
  static const OpEntry entries[] = {
      {"", "Loop", 1, kNoEnd, 0, kMostLoopInputs, kAnyNumber, importLoop},
  };
  return entries;
}
