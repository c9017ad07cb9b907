// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/KernelBody.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/Loops/Places.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

bool Node::isReduction() const { return op && isa<ReductionOpInterface>(op); }
bool Node::isContraction() const {
  return op && hasRole(op, RegionRole::Contraction);
}

bool Node::isScatter() const { return isa_and_nonnull<ScatterOpInterface>(op); }

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

namespace {
/// At which places each value is needed, in the order they were asked for.
class Demand {
public:
  void add(Value value, const Place &place) {
    SmallVector<Place> &list = places[value];
    if (!llvm::is_contained(list, place))
      list.push_back(place);
  }
  ArrayRef<Place> get(Value value) const {
    auto entry = places.find(value);
    return entry == places.end() ? ArrayRef<Place>() : entry->second;
  }
  /// Places at which any result of `op` is needed.
  SmallVector<Place> getAny(Operation *op) const {
    SmallVector<Place> all;
    for (Value result : op->getResults())
      for (const Place &place : get(result))
        if (!llvm::is_contained(all, place))
          all.push_back(place);
    return all;
  }

private:
  llvm::MapVector<Value, SmallVector<Place>> places;
};
} // namespace

namespace {
/// The nodes of each argument and op: one for each place it is needed at.
class NodeIndex {
public:
  void add(Value argument, unsigned number) {
    numbers[argument.getAsOpaquePointer()].push_back(number);
  }
  void add(Operation *op, unsigned number) { numbers[op].push_back(number); }

  /// The node that computes `value` at `place`.
  NodeResult find(ArrayRef<Node> nodes, Value value, const Place &place) const {
    Operation *op = value.getDefiningOp();
    auto entry = numbers.find(op ? op : value.getAsOpaquePointer());
    assert(entry != numbers.end() && "every operand was demanded");
    for (unsigned number : entry->second)
      if (nodes[number].place == place)
        return {number, op ? cast<OpResult>(value).getResultNumber() : 0};
    llvm_unreachable("every operand was demanded there");
  }

private:
  DenseMap<const void *, SmallVector<unsigned, 2>> numbers;
};
} // namespace

/// Whether the op reads the operand itself: all of a contraction's, the table
/// of a gather, what a scatter starts from.
static bool isReadByOp(OpOperand &operand) {
  auto scatter = dyn_cast<ScatterOpInterface>(operand.getOwner());
  return isTable(operand) || (scatter && &operand == &scatter.getDataOperand());
}

/// Demands the operands of what is demanded, users first. A contraction's
/// operands are its own affair, and a part of an argument is loaded by itself.
static LogicalResult demandOperands(Block &block, ArrayRef<int64_t> space,
                                    Demand &demand) {
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (hasRole(&op, RegionRole::Contraction) || isLoadedPart(&op))
      continue;
    for (const Place &place : demand.getAny(&op))
      for (OpOperand &operand : op.getOpOperands()) {
        if (isReadByOp(operand))
          continue;
        FailureOr<Place> source = operandPlace(operand, place, space);
        if (failed(source))
          return failure();
        demand.add(operand.get(), *source);
      }
  }
  return success();
}

/// A slice of an argument, read at `place`.
static Node createPart(SliceOp slice, const Place &place) {
  Node node;
  node.argument = cast<BlockArgument>(slice.getInput()).getArgNumber();
  node.place = place;
  int64_t stride = 1;
  for (auto [start, extent] : llvm::reverse(
           llvm::zip_equal(slice.getOffsets(), shapeOf(slice.getInput())))) {
    node.offset += start * stride;
    stride *= extent;
  }
  return node;
}

/// `op` at `place`; the nodes of its operands are among `nodes`.
static Node createNode(Operation &op, const Place &place, ArrayRef<Node> nodes,
                       const NodeIndex &index, ArrayRef<int64_t> space) {
  Node node;
  node.op = &op;
  node.place = place;
  if (!node.isContraction())
    for (OpOperand &operand : op.getOpOperands())
      if (!isReadByOp(operand))
        node.operands.push_back(index.find(
            nodes, operand.get(), *operandPlace(operand, place, space)));
  return node;
}

unsigned KernelBody::getNode(Operation *op) const {
  auto isOfOp = [&](const Node &node) { return node.op == op; };
  const auto *found = llvm::find_if(nodes, isOfOp);
  assert(found != nodes.end() && "an op of another kernel");
  return found - nodes.begin();
}

SmallVector<unsigned> KernelBody::getOutputNodes() const {
  return llvm::map_to_vector(
      outputs, [](const Output &output) { return output.value.node; });
}

/// What a kernel stores, as operands of its terminator, of a join or of what
/// places it in a larger tensor.
static SmallVector<OpOperand *> findStored(func::FuncOp kernel) {
  SmallVector<OpOperand *> stored;
  Operation *terminator = kernel.getBody().front().getTerminator();
  for (OpOperand &returned : terminator->getOpOperands()) {
    Operation *maker = returned.get().getDefiningOp();
    if (!maker || !(isStoredJoin(maker) || isStoredPlaced(maker)))
      stored.push_back(&returned);
    else
      for (OpOperand &part : maker->getOpOperands())
        stored.push_back(&part);
  }
  return stored;
}

/// The result that `stored` goes to, and the first element there.
static std::pair<unsigned, int64_t> findDestination(OpOperand &stored) {
  Operation *placed = stored.getOwner();
  if (placed->hasTrait<OpTrait::IsTerminator>())
    return {stored.getOperandNumber(), 0};
  if (auto place = dyn_cast<plan::PlaceOp>(placed))
    return {place.getOutput().use_begin()->getOperandNumber(),
            place.getFirstElement()};
  auto join = cast<ConcatOp>(placed);
  int64_t partElements = ShapedType::getNumElements(
      shapeOf(stored.get()).drop_front(join.getAxis()));
  return {join.getOutput().use_begin()->getOperandNumber(),
          stored.getOperandNumber() * partElements};
}

LogicalResult KernelBody::addNodes(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  // Backwards: which places each value is wanted at, from the outputs on.
  Demand demand;
  SmallVector<OpOperand *> stored = findStored(kernel);
  for (OpOperand *operand : stored) {
    FailureOr<Place> place = outputPlace(*operand, space);
    if (failed(place))
      return failure();
    demand.add(operand->get(), *place);
    Output output;
    output.place = *place;
    auto [result, offset] = findDestination(*operand);
    output.argument = kernel.getNumArguments() + result;
    output.offset = offset;
    outputs.push_back(output);
  }
  if (failed(demandOperands(block, space, demand)))
    return failure();

  // Forwards: a node for each value and place, arguments first.
  NodeIndex index;
  for (BlockArgument argument : block.getArguments())
    for (const Place &place : demand.get(argument)) {
      index.add(argument, nodes.size());
      Node node;
      node.argument = argument.getArgNumber();
      node.place = place;
      nodes.push_back(node);
    }
  for (Operation &op : block.without_terminator())
    for (const Place &place : demand.getAny(&op)) {
      index.add(&op, nodes.size());
      nodes.push_back(isLoadedPart(&op)
                          ? createPart(cast<SliceOp>(op), place)
                          : createNode(op, place, nodes, index, space));
    }
  // What outputs store are nodes now.
  for (auto [operand, output] : llvm::zip_equal(stored, outputs))
    output.value = index.find(nodes, operand->get(), output.place);
  return success();
}

//===----------------------------------------------------------------------===//
// Strides and dimensions
//===----------------------------------------------------------------------===//

/// The index an op depends on, as strides along the axes of the space, if any:
/// the row-major number of its place along the axes that the op names. That of
/// a scalar, which has no axes, is 0.
static std::optional<Strides> indexStrides(const Node &node, size_t rank) {
  auto indexed = dyn_cast<IndexedOpInterface>(node.op);
  if (!indexed || (indexed.getIndexedAxes().empty() && !node.place.empty()))
    return std::nullopt;
  Place place;
  for (int64_t axis : indexed.getIndexedAxes())
    place.push_back(node.place[axis]);
  return stridesAlongAxes(indexed.getIndexedShape(), place, rank);
}

/// If the node's op reads a table (a gather), notes the argument that is the
/// table and the strides of its place.
static LogicalResult addTable(Node &node, size_t rank) {
  OpOperand *operand = findTable(node.op);
  if (!operand)
    return success();
  auto argument = dyn_cast<BlockArgument>(operand->get());
  if (!argument)
    return node.op->emitOpError("reads a table that is no input of the kernel");
  ArrayRef<int64_t> shape = shapeOf(operand->get());
  SmallVector<int64_t> axes = getOperandAxes(*operand);
  size_t own = llvm::find(axes, kOwnAxis) - axes.begin();
  node.table = {argument.getArgNumber(), shape[own],
                ShapedType::getNumElements(shape.drop_front(own + 1))};
  node.strides =
      stridesAlongAxes(shape, alongAxes(shape, axes, node.place), rank);
  return success();
}

void KernelBody::splitAxis(SplitAxis split) {
  // (8, 6) in 2 parts of axis 0 is (2, 4, 6): a part is `length` indices long.
  int64_t length = space[split.axis] / split.parts;
  space[split.axis] = length;
  space.insert(space.begin() + split.axis, split.parts);
  auto divide = [&](Strides &strides) {
    auto place = strides.begin() + split.axis;
    strides.insert(place, *place * length);
  };
  // Operands and results lie where they did; sums of parts lie side by side.
  for (Node &node : nodes)
    if (node.strides)
      divide(*node.strides);
  for (Output &output : outputs) {
    auto reduction =
        dyn_cast_or_null<ReductionOpInterface>(nodes[output.value.node].op);
    if (reduction && reduction.getReductionParts() > 1)
      output.strides.insert(output.strides.begin() + split.axis + 1, 0);
    else
      divide(output.strides);
  }
}

void KernelBody::collapse(ArrayRef<int64_t> groupSizes) {
  // All strides that two axes must agree in before they are one.
  SmallVector<Strides *> all;
  for (Node &node : nodes)
    if (node.strides)
      all.push_back(&*node.strides);
  for (Output &output : outputs)
    all.push_back(&output.strides);

  // Per dimension, the last axis in it: its strides are the dimension's.
  SmallVector<size_t> lastAxes;
  size_t axis = 0;
  for (auto [group, count] : llvm::enumerate(groupSizes)) {
    size_t first = dimensions.size();
    std::optional<size_t> previous;
    // An axis of size 1 is in no index.
    for (size_t end = axis + count; axis < end; ++axis) {
      if (space[axis] == 1)
        continue;
      // Axes [4, 6] with strides [6, 1] are one of 24 elements; with [12, 1]
      // they are not.
      bool merges =
          previous && llvm::all_of(all, [&](Strides *strides) {
            return strides->empty() ||
                   (*strides)[*previous] == (*strides)[axis] * space[axis];
          });
      if (merges) {
        dimensions.back().size *= space[axis];
        lastAxes.back() = axis;
      } else {
        dimensions.push_back({space[axis], static_cast<unsigned>(group)});
        lastAxes.push_back(axis);
      }
      previous = axis;
    }
    // A group without axes has one dimension of size 1, so that loops find it.
    if (dimensions.size() == first) {
      dimensions.push_back({1, static_cast<unsigned>(group)});
      lastAxes.push_back(space.size());
    }
  }
  // Strides by dimension instead of by axis.
  for (Strides *strides : all) {
    Strides merged;
    for (size_t last : lastAxes)
      merged.push_back(last == space.size() ? 0 : (*strides)[last]);
    *strides = merged;
  }
}

static uint64_t nonZero(ArrayRef<int64_t> strides) {
  uint64_t mask = 0;
  for (auto [dimension, stride] : llvm::enumerate(strides))
    if (stride != 0)
      mask |= uint64_t(1) << dimension;
  return mask;
}

void KernelBody::findDependencies(bool hasTile) {
  for (Node &node : nodes) {
    if (node.strides)
      node.dimensions = nonZero(*node.strides);
    if (node.isContraction() || (hasTile && !node.op && node.argument == 0))
      node.dimensions = (uint64_t(1) << dimensions.size()) - 1;
    for (NodeResult operand : node.operands) {
      node.dimensions |= nodes[operand.node].dimensions;
      node.level = std::max(node.level, nodes[operand.node].level);
    }
    if (!node.isReduction())
      continue;
    ++node.level;
    // Groups are (outer, reduced) or (outer, reduced, inner); the last of three
    // is reduced by a kernel over rows that adds up columns too.
    node.dimensions &=
        ~getGroupMask(reducesRows(node.op) ? dimensions.back().group : 1);
  }
  for (Output &output : outputs)
    output.dimensions = nonZero(output.strides);
}

/// Notes which reductions add up columns beside rows. They are of no level:
/// their values are known when all rows of a part have been gone through.
LogicalResult KernelBody::findColumnSums(func::FuncOp kernel) {
  for (Operation *op : mpc::findColumnSums(kernel.getBody().front())) {
    if (!llvm::all_of(op->getUsers(), [](Operation *user) {
          return user->hasTrait<OpTrait::IsTerminator>();
        }))
      return op->emitOpError("adds up columns in a kernel over rows, where "
                             "nothing may depend on it");
    columnSums.push_back(getNode(op));
    nodes[columnSums.back()].level = 0;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The body
//===----------------------------------------------------------------------===//

FailureOr<KernelBody> KernelBody::create(func::FuncOp kernel,
                                         ArrayRef<int64_t> space,
                                         ArrayRef<int64_t> groupSizes,
                                         std::optional<SplitAxis> split,
                                         bool hasTile) {
  KernelBody body;
  body.space.assign(space.begin(), space.end());
  if (failed(body.addNodes(kernel)))
    return failure();
  size_t rank = space.size();
  // A node's strides say how its index follows from those of the space.
  for (Node &node : body.nodes) {
    node.strides =
        node.op ? indexStrides(node, rank)
                : stridesAlongAxes(shapeOf(kernel.getArgument(node.argument)),
                                   node.place, rank);
    if (node.op && failed(addTable(node, rank)))
      return failure();
  }
  for (Output &output : body.outputs) {
    Type type =
        kernel.getResultTypes()[output.argument - kernel.getNumArguments()];
    output.strides = stridesAlongAxes(cast<RankedTensorType>(type).getShape(),
                                      output.place, rank);
  }
  // The dimensions of loops are what is left once axes that go together are
  // one.
  if (split)
    body.splitAxis(*split);
  body.collapse(groupSizes);
  body.findDependencies(hasTile);
  if (failed(body.findColumnSums(kernel)))
    return failure();
  return body;
}

std::pair<unsigned, unsigned> KernelBody::getGroup(unsigned group) const {
  unsigned first = 0;
  while (dimensions[first].group != group)
    ++first;
  unsigned last = first;
  while (last < dimensions.size() && dimensions[last].group == group)
    ++last;
  return {first, last};
}

uint64_t KernelBody::getGroupMask(unsigned group) const {
  auto [first, last] = getGroup(group);
  return ((uint64_t(1) << last) - 1) & ~((uint64_t(1) << first) - 1);
}

int64_t KernelBody::getSizeAfter(unsigned dimension, unsigned group) const {
  int64_t size = 1;
  for (unsigned end = getGroup(group).second; ++dimension < end;)
    size *= dimensions[dimension].size;
  return size;
}

unsigned KernelBody::getLargest(unsigned group) const {
  auto [first, end] = getGroup(group);
  unsigned largest = first;
  for (unsigned d = first; d < end; ++d)
    // The last of equals, which lies closest in memory.
    if (dimensions[d].size >= dimensions[largest].size)
      largest = d;
  return largest;
}

unsigned KernelBody::getLevelCount() const {
  unsigned count = 0;
  for (const Node &node : nodes)
    count = std::max(count, node.level);
  return count;
}

SmallVector<unsigned> KernelBody::getReductions(unsigned level) const {
  SmallVector<unsigned> numbers;
  for (auto [number, node] : llvm::enumerate(nodes))
    if (node.isReduction() && node.level == level)
      numbers.push_back(number);
  return numbers;
}
