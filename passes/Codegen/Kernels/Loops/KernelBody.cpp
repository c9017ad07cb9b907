// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/KernelBody.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/Loops/Places.h"

#include "llvm/ADT/MapVector.h"

#include <numeric>

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
/// Collects the places at which each value of a kernel is needed, in the order
/// of `add`. A place maps each axis of a value to an axis of the iteration
/// space.
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
  /// Returns the places at which any result of `op` is needed.
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
/// Finds the nodes of an argument or op. A kernel may need a value at several
/// places, and has one node for each.
class NodeIndex {
public:
  void add(Value argument, unsigned number) {
    numbers[argument.getAsOpaquePointer()].push_back(number);
  }
  void add(Operation *op, unsigned number) { numbers[op].push_back(number); }

  /// Returns the node that computes `value` at `place`.
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

/// True if the loops of an op read the operand from memory at positions of
/// their own, so that the operand has no node: the table of a gather, and the
/// data of a scatter.
static bool isReadByOp(OpOperand &operand) {
  auto scatter = dyn_cast<ScatterOpInterface>(operand.getOwner());
  return isTable(operand) || (scatter && &operand == &scatter.getDataOperand());
}

/// For each value in `demand`, adds the places at which the value's op needs
/// its operands. Visits users before the ops that they use. Skips contractions,
/// whose loops read the operands, and slices that are loaded directly from an
/// argument.
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

/// Creates the node of a slice of an argument, read at `place`.
static Node createPart(SliceOp slice, const Place &place) {
  assert(isLoadedPart(slice) && "a part that a kernel loads");
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

/// Creates the node of `op` at `place`; `nodes` contains the nodes of the
/// operands.
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

/// Returns the stored values of a kernel: operands of the terminator, of a
/// concat that joins parts, or of a plan.place into a larger tensor.
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

/// Returns the number of the kernel's result that `stored` is a part of, and
/// the part's first element in this result.
static std::pair<unsigned, int64_t> findDestination(OpOperand &stored) {
  Operation *placed = stored.getOwner();
  if (placed->hasTrait<OpTrait::IsTerminator>())
    return {stored.getOperandNumber(), 0};
  if (auto place = dyn_cast<plan::PlaceOp>(placed))
    return {place.getOutput().use_begin()->getOperandNumber(),
            place.getFirstElement()};
  auto join = cast<ConcatOp>(placed);
  assert(join.getOutput().hasOneUse() && "a stored join is returned once");
  int64_t partElements = ShapedType::getNumElements(
      shapeOf(stored.get()).drop_front(join.getAxis()));
  return {join.getOutput().use_begin()->getOperandNumber(),
          stored.getOperandNumber() * partElements};
}

LogicalResult KernelBody::addNodes(func::FuncOp kernel) {
  Block &block = kernel.getBody().front();
  // Go backwards from the outputs to find the places at which each value is
  // needed.
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

  // Create nodes in forward order, because a node needs the indices of its
  // operands' nodes.
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
  // All stored values have nodes now, so the outputs can refer to them.
  for (auto [operand, output] : llvm::zip_equal(stored, outputs))
    output.value = index.find(nodes, operand->get(), output.place);
  return success();
}

//===----------------------------------------------------------------------===//
// Strides and dimensions
//===----------------------------------------------------------------------===//

/// Returns the index that an op such as one_hot or dropout depends on, as
/// strides along the axes of the space: the index is the sum of loop index
/// times stride. Only the axes that the op names count, in row-major order. A
/// scalar has index 0. nullopt for other ops.
static std::optional<Strides> indexStrides(const Node &node, size_t rank) {
  auto indexed = dyn_cast<IndexedOpInterface>(node.op);
  if (!indexed || (indexed.getIndexedAxes().empty() && !node.place.empty()))
    return std::nullopt;
  Place place;
  for (int64_t axis : indexed.getIndexedAxes())
    place.push_back(node.place[axis]);
  return stridesAlongAxes(indexed.getIndexedShape(), place, rank);
}

/// If the node's op reads a table (a gather), records the table's argument, and
/// the strides at which the table is read apart from the computed index.
static LogicalResult addTable(Node &node, size_t rank) {
  OpOperand *operand = findTable(node.op);
  if (!operand)
    return success();
  auto argument = dyn_cast<BlockArgument>(operand->get());
  if (!argument)
    return node.op->emitOpError("reads a table that is no input of the kernel, "
                                "found the result of ")
           << operand->get().getDefiningOp()->getName();
  ArrayRef<int64_t> shape = shapeOf(operand->get());
  SmallVector<int64_t> axes = getOperandAxes(*operand);
  size_t own = llvm::find(axes, kOwnAxis) - axes.begin();
  assert(own < shape.size() && "a table has an axis that indices name");
  node.table = {argument.getArgNumber(), shape[own],
                ShapedType::getNumElements(shape.drop_front(own + 1))};
  node.strides =
      stridesAlongAxes(shape, alongAxes(shape, axes, node.place), rank);
  return success();
}

void KernelBody::splitAxis(SplitAxis split) {
  assert(split.axis >= 0 && size_t(split.axis) < space.size() &&
         split.parts > 0 && space[split.axis] % split.parts == 0 &&
         "an axis of the space, in equal parts");
  // A space of (8, 6) whose axis 0 is split in 2 parts becomes (2, 4, 6). A
  // part is `length` indices long.
  int64_t length = space[split.axis] / split.parts;
  space[split.axis] = length;
  space.insert(space.begin() + split.axis, split.parts);
  auto divide = [&](Strides &strides) {
    auto place = strides.begin() + split.axis;
    strides.insert(place, *place * length);
  };
  // A buffer keeps its layout, so the next part begins `length` indices later.
  // The result of a reduction in parts is different: it has one element per
  // part, and stride 0 within a part.
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
  assert(dimensions.empty() && "the axes merge once");
  assert(std::accumulate(groupSizes.begin(), groupSizes.end(), int64_t(0)) ==
             int64_t(space.size()) &&
         "every axis is in one group");
  // Two axes merge into one dimension only if the strides of all these buffers
  // allow it.
  SmallVector<Strides *> all;
  for (Node &node : nodes)
    if (node.strides)
      all.push_back(&*node.strides);
  for (Output &output : outputs)
    all.push_back(&output.strides);

  // For each dimension, the number of its last axis. The strides of this axis
  // become the strides of the dimension.
  SmallVector<size_t> lastAxes;
  size_t axis = 0;
  for (auto [group, count] : llvm::enumerate(groupSizes)) {
    size_t first = dimensions.size();
    std::optional<size_t> previous;
    // Skip axes of size 1, whose index is always 0.
    for (size_t end = axis + count; axis < end; ++axis) {
      if (space[axis] == 1)
        continue;
      // Axes [4, 6] with strides [6, 1] merge to 24 elements; with strides [12,
      // 1] they do not.
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
    // A group without axes gets one dimension of size 1, so that loops find it.
    if (dimensions.size() == first) {
      dimensions.push_back({1, static_cast<unsigned>(group)});
      lastAxes.push_back(space.size());
    }
  }
  for (Strides *strides : all) {
    Strides merged;
    for (size_t last : lastAxes)
      merged.push_back(last == space.size() ? 0 : (*strides)[last]);
    *strides = merged;
  }
}

static uint64_t nonZero(ArrayRef<int64_t> strides) {
  assert(strides.size() < 64 && "a bit per dimension");
  uint64_t mask = 0;
  for (auto [dimension, stride] : llvm::enumerate(strides))
    if (stride != 0)
      mask |= uint64_t(1) << dimension;
  return mask;
}

void KernelBody::findDependencies(bool hasTile) {
  assert(dimensions.size() < 64 && "a bit per dimension");
  for (Node &node : nodes) {
    if (node.strides)
      node.dimensions = nonZero(*node.strides);
    if (node.isContraction() || (hasTile && !node.op && node.argument == 0))
      node.dimensions = (uint64_t(1) << dimensions.size()) - 1;
    for (NodeResult operand : node.operands) {
      assert(&nodes[operand.node] < &node && "nodes are in topological order");
      node.dimensions |= nodes[operand.node].dimensions;
      node.level = std::max(node.level, nodes[operand.node].level);
    }
    if (!node.isReduction())
      continue;
    ++node.level;
    // The result of a reduction does not depend on the reduced axes. These are
    // group 1 of (outer, reduced) or (outer, reduced, inner). In a row kernel
    // with column sums, row reductions reduce the last of three groups instead.
    node.dimensions &=
        ~getGroupMask(reducesRows(node.op) ? dimensions.back().group : 1);
  }
  for (Output &output : outputs)
    output.dimensions = nonZero(output.strides);
}

/// Finds the column sums of a row kernel: reductions that add up its rows.
/// Their level is 0, since no pass over a row needs them: they are complete
/// only after all rows of a part.
LogicalResult KernelBody::findColumnSums(func::FuncOp kernel) {
  for (Operation *op : mpc::findColumnSums(kernel.getBody().front())) {
    if (!llvm::all_of(op->getUsers(), [](Operation *user) {
          return user->hasTrait<OpTrait::IsTerminator>();
        }))
      return op->emitOpError("reduces columns in a row kernel: expected no op "
                             "of the kernel to read the sums");
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
  // Strides turn the loop indices into the offset at which a node reads a
  // buffer, or into the index that an op such as one_hot depends on.
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
  // Merge axes that all buffers traverse together into loop dimensions.
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
    // Among equally large dimensions, prefer the last, whose elements are
    // closest in memory.
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
