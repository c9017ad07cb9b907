// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/CountedIntegers.h"

#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

using Counts = std::shared_ptr<const CountedIntegers>;

Counts mpc::onnx_frontend::findCounts(NodeImporter &node, unsigned index) {
  if (!node.hasInput(index))
    return nullptr;
  ImportedValue &value = node.getFunction().lookup(node.getInputName(index));
  return value.constant ? nullptr : value.counted;
}

KnownCounts::KnownCounts(NodeImporter &node, unsigned index) {
  if (Counts counts = findCounts(node, index)) {
    value = &node.getFunction().lookup(node.getInputName(index));
    value->constant = counts->elements;
  }
}

KnownCounts::~KnownCounts() {
  if (value)
    value->constant.reset();
}

SelectionPtr mpc::onnx_frontend::findCounted(NodeImporter &node,
                                             const CountedIntegers &integers) {
  if (integers.selection)
    return integers.selection;
  assert(integers.mask && "a count counts a selection or a mask");
  return findSelection(node, integers.mask,
                       NodeImporter::shapeOf(integers.mask), integers.source);
}

//===----------------------------------------------------------------------===//
// Movement of counts
//===----------------------------------------------------------------------===//

// Folds the node as if input i had the elements `findElements(i)`, and returns
// the elements of output 0. Restores all facts about the inputs afterwards.
// nullopt if the node does not fold.
static std::optional<HostTensor>
foldWith(NodeImporter &node, const OpEntry &entry,
         llvm::function_ref<std::optional<HostTensor>(unsigned)> findElements) {
  FunctionImporter &function = node.getFunction();
  SmallVector<std::pair<ImportedValue *, ImportedValue>, 0> saved;
  auto replace = [&](StringRef name, std::optional<HostTensor> elements) {
    ImportedValue &value = function.lookup(name);
    saved.emplace_back(&value, value);
    value = {};
    value.constant = std::move(elements);
  };
  SmallVector<std::optional<HostTensor>> elements;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    elements.push_back(node.hasInput(i) ? findElements(i) : std::nullopt);
  for (auto [i, tensor] : llvm::enumerate(elements))
    if (tensor)
      replace(node.getInputName(i), tensor);
  replace(node.getOutputName(0), std::nullopt);
  (void)function.getModule().succeeds([&] {
    NodeImporter trial(function, node.getNode());
    (void)entry.build(trial);
  });
  std::optional<HostTensor> result =
      function.lookup(node.getOutputName(0)).constant;
  // Restore in reverse order: if a node reads one value twice, only the first
  // saved entry holds the original facts.
  for (auto &[value, before] : llvm::reverse(saved))
    *value = std::move(before);
  return result;
}

// True if `op` moves the integers of input `index` unchanged to its result.
static bool movesInput(StringRef op, unsigned index) {
  if (op == "Concat")
    return true;
  if (op == "Where")
    return index > 0;
  static const llvm::StringSet<> ops = {"Cast",     "Flatten",  "Gather",
                                        "Identity", "Reshape",  "Slice",
                                        "Squeeze",  "Unsqueeze"};
  return index == 0 && ops.contains(op);
}

static HostTensor makeZeros(const HostTensor &like) {
  SmallVector<int64_t> zeros(like.getNumElements(), 0);
  return makeIntegers(like.type.getElementType(), like.getShape(), zeros);
}

// Marks the result of a ReduceSum of a mask as a count: the sum is the number
// of rows that the mask selects.
static void noteSum(NodeImporter &node) {
  ImportedValue &result = node.getFunction().lookup(node.getOutputName(0));
  Value x = node.operand(0);
  auto cast = x ? x.getDefiningOp<CastOp>() : CastOp();
  if (!result.value || !cast)
    return;
  auto type = NodeImporter::typeOf(result.value);
  Value mask = cast->getOperand(0);
  if (!type.getElementType().isInteger(64) || type.getNumElements() != 1 ||
      !elementTypeOf(mask).isInteger(1) || NodeImporter::shapeOf(mask).empty())
    return;
  auto counted = std::make_shared<CountedIntegers>();
  counted->mask = mask;
  counted->source = node.getInputName(0).str();
  int64_t rows = NodeImporter::typeOf(mask).getNumElements();
  counted->elements =
      HostTensor::fromIntegers(node.getContext(), type.getShape(), {rows});
  counted->isCount =
      HostTensor::fromIntegers(node.getContext(), type.getShape(), {1});
  result.counted = std::move(counted);
}

// Folds an Equal that compares a count with a negative number to false.
// Programs compare extents with -1, which stands for an unknown extent; a count
// is never negative.
static void compareWithNegative(NodeImporter &node) {
  for (unsigned i : {0u, 1u}) {
    std::optional<HostTensor> other = node.constant(1 - i);
    if (!findCounts(node, i) || !other || other->isFloat() ||
        !llvm::all_of(other->getIntegers(),
                      [](int64_t each) { return each < 0; }))
      continue;
    ImportedValue &result = node.getFunction().lookup(node.getOutputName(0));
    Counts counts = findCounts(node, i);
    if (llvm::any_of(counts->elements.getIntegers(),
                     [](int64_t each) { return each < 0; }))
      return;
    auto type = NodeImporter::typeOf(result.value);
    result.constant =
        makeIntegers(type.getElementType(), type.getShape(),
                     SmallVector<int64_t>(type.getNumElements(), 0));
    return;
  }
}

void mpc::onnx_frontend::passOnCounts(NodeImporter &node,
                                      const OpEntry &entry) {
  const StringRef op = node.getOpType();
  if (!node.hasOutput(0) || node.hasFailed() || !entry.build)
    return;
  FunctionImporter &function = node.getFunction();
  if (function.lookup(node.getOutputName(0)).constant)
    return;
  if (op == "ReduceSum" && node.hasInput(0) &&
      !function.lookup(node.getInputName(0)).selected)
    return noteSum(node);
  if (op == "Equal")
    return compareWithNegative(node);
  Counts first;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    Counts counts = findCounts(node, i);
    if (!counts && node.hasInput(i) && !node.constant(i))
      return;
    if (counts && (!movesInput(op, i) ||
                   (first && (counts->selection != first->selection ||
                              counts->mask != first->mask))))
      return;
    first = first ? first : counts;
  }
  if (!first)
    return;
  auto counted = std::make_shared<CountedIntegers>(*first);
  std::optional<HostTensor> elements =
      foldWith(node, entry, [&](unsigned i) -> std::optional<HostTensor> {
        Counts counts = findCounts(node, i);
        return counts ? std::optional(counts->elements) : node.constant(i);
      });
  std::optional<HostTensor> isCount =
      foldWith(node, entry, [&](unsigned i) -> std::optional<HostTensor> {
        if (Counts counts = findCounts(node, i))
          return counts->isCount;
        std::optional<HostTensor> constant = node.constant(i);
        return movesInput(op, i) ? makeZeros(*constant) : constant;
      });
  if (!elements || !isCount || elements->isFloat())
    return;
  assert(elements->getShape() == isCount->getShape() &&
         "every integer is the count or not");
  ImportedValue &result = function.lookup(node.getOutputName(0));
  // If the count is not among the integers of the result, the result is a
  // constant.
  if (llvm::all_of(isCount->getIntegers(),
                   [](int64_t each) { return each == 0; })) {
    result.constant = std::move(elements);
    return;
  }
  counted->elements = std::move(*elements);
  counted->isCount = std::move(*isCount);
  result.counted = std::move(counted);
}

//===----------------------------------------------------------------------===//
// Ops that make as many rows as a mask selects
//===----------------------------------------------------------------------===//

std::optional<int64_t>
mpc::onnx_frontend::findCountFromEnd(const CountedIntegers &integers) {
  SmallVector<int64_t> isCount = integers.isCount.getIntegers();
  if (llvm::count(isCount, 1) != 1)
    return std::nullopt;
  return isCount.size() - (llvm::find(isCount, 1) - isCount.begin());
}

// Builds a Range from 0 to a count of selected rows. The result has one element
// per row, selected or not; row i holds i.
static LogicalResult importRange(NodeImporter &node, SelectionPtr selection) {
  std::optional<HostTensor> start = node.constant(0), step = node.constant(2);
  if (!start || !step || start->isFloat() || step->isFloat() ||
      start->getNumElements() != 1 || step->getNumElements() != 1 ||
      start->getInteger(0) != 0 || step->getInteger(0) != 1)
    return node.unsupported(
        "expected a range with the constants 0 as start and 1 as step, because "
        "it ends at a number of rows that the data selects; '" +
        node.getInputName(0) + "' and '" + node.getInputName(2) +
        "' are others");
  Value numbers = castTo(node, iota(node, 1, 0, selection->getNumRows()),
                         start->type.getElementType());
  if (failed(node.define(0, numbers)))
    return failure();
  selectOutput(node, 0, selection, 0, SmallVector<int64_t>{kRowNumber});
  return success();
}

FailureOr<bool> mpc::onnx_frontend::importCounted(NodeImporter &node,
                                                  const OpEntry &entry) {
  const StringRef op = node.getOpType();
  const int index = llvm::StringSwitch<int>(op)
                        .Case("ConstantOfShape", 0)
                        .Cases({"Expand", "Range"}, 1)
                        .Default(-1);
  Counts counts = index < 0 ? nullptr : findCounts(node, index);
  if (!counts || !normalizeDomain(node.getNode().domain()).empty())
    return false;
  std::optional<int64_t> fromEnd = findCountFromEnd(*counts);
  SelectionPtr selection = findCounted(node, *counts);
  if (!selection)
    return failure();
  if (op == "Range") {
    if (failed(importRange(node, selection)))
      return failure();
    return true;
  }
  if (!fromEnd)
    return node.unsupported("'" + node.getInputName(index) +
                            "' holds a number of rows that the data in '" +
                            selection->source + "' selects more than once");
  // Expand may repeat a value that has one row, or no axis of rows, but not a
  // value that has several rows.
  if (op == "Expand") {
    ArrayRef<int64_t> shape = node.operandShape(0);
    int64_t rank = shape.size();
    if (rank >= *fromEnd && shape[rank - *fromEnd] != 1)
      return node.unsupported(
          "'" + node.getInputName(0) +
          "' is repeated for as many rows as the data in '" +
          selection->source + "' selects: expected one row, found " +
          Twine(shape[rank - *fromEnd]));
  }
  KnownCounts known(node, index);
  if (failed(entry.build(node)))
    return failure();
  int64_t rank = getOutputShape(node).size();
  selectOutput(node, 0, selection, rank - *fromEnd);
  return true;
}
