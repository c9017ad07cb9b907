// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/LibraryAttention.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/Target.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Axes
//===----------------------------------------------------------------------===//

static int64_t countIndices(ArrayRef<int64_t> extents) {
  return ShapedType::getNumElements(extents);
}

// Returns the number of leading axes along which the key varies as the query
// does. The key has a single index along all further axes. nullopt if an axis
// behind these varies again.
static std::optional<size_t> countOwnAxes(ArrayRef<int64_t> query,
                                          ArrayRef<int64_t> key) {
  size_t own = key.size();
  while (own > 0 && key[own - 1] == 1)
    --own;
  return query.take_front(own) == key.take_front(own) ? std::optional(own)
                                                      : std::nullopt;
}

std::optional<AttentionAxes> mpc::findAttentionAxes(ArrayRef<int64_t> query,
                                                    ArrayRef<int64_t> key) {
  ArrayRef<int64_t> queries = query.drop_back(2), keys = key.drop_back(2);
  std::optional<size_t> own = countOwnAxes(queries, keys);
  if (!own)
    return std::nullopt;
  // If all samples share the keys, samples are heads of one sample.
  const bool hasBatch = *own > 0;
  const int64_t batch = hasBatch ? queries.front() : 1;
  return AttentionAxes{batch, countIndices(queries.drop_front(hasBatch)),
                       countIndices(keys.drop_front(hasBatch))};
}

std::optional<SmallVector<int64_t>> mpc::findSpreadShape(AttentionOp attention,
                                                         Value spread) {
  const SmallVector<int64_t> scores = attention.getScoresShape();
  SmallVector<int64_t> shape(scores.size() - shapeOf(spread).size(), 1);
  llvm::append_range(shape, shapeOf(spread));
  if (shape.back() != scores.back())
    return std::nullopt;
  std::optional<size_t> own =
      countOwnAxes(shapeOf(attention.getQuery()).drop_back(2),
                   shapeOf(attention.getKey()).drop_back(2));
  const bool hasBatch = own.value_or(0) > 0;
  ArrayRef<int64_t> heads = ArrayRef(shape).drop_back(2).drop_front(hasBatch);
  const bool isShared = countIndices(heads) == 1;
  if (!isShared && heads != ArrayRef(scores).drop_back(2).drop_front(hasBatch))
    return std::nullopt;
  return SmallVector<int64_t>{hasBatch ? shape.front() : 1, countIndices(heads),
                              shape[shape.size() - 2], shape.back()};
}

//===----------------------------------------------------------------------===//
// Obstacles
//===----------------------------------------------------------------------===//

// The library reads rows in vectors of 16 bytes.
static constexpr int64_t kUnit = 8;

// Returns the widest query, key or value whose gradients the library computes.
static int64_t getMaxWidth(const TargetInfo &target) {
  return target.getName() == "sm_90" ? 256 : 128;
}

// True if `argument` is state that no step trains.
static bool isFrozen(BlockArgument argument, FlatSymbolRefAttr state) {
  auto variable = SymbolTable::lookupNearestSymbolFrom<VariableOp>(
      argument.getOwner()->getParentOp(), state);
  return variable && variable.getRole() == Role::Frozen;
}

// True if training may need the gradient of `value`: the value may depend on
// state, such as a table of position biases. Arguments of a loop's body count
// as state.
static bool mayBeTrained(Value value) {
  llvm::SmallSetVector<Value, 16> seen;
  seen.insert(value);
  for (size_t i = 0; i < seen.size(); ++i) {
    if (auto argument = dyn_cast<BlockArgument>(seen[i])) {
      if (!isa<func::FuncOp>(argument.getOwner()->getParentOp()))
        return true;
      FlatSymbolRefAttr state = getArgumentPort(argument).getState();
      if (state && !isFrozen(argument, state))
        return true;
      continue;
    }
    Operation *op = seen[i].getDefiningOp();
    if (op->getNumRegions() != 0)
      return true;
    seen.insert_range(op->getOperands());
  }
  return false;
}

static std::string describe(ArrayRef<int64_t> shape) {
  return llvm::formatv("[{0:$[, ]}]",
                       llvm::make_range(shape.begin(), shape.end()))
      .str();
}

static std::string findTypeObstacle(AttentionOp op) {
  Type element = elementOf(op.getQuery());
  const bool isLow = element.isF16() || element.isBF16();
  if (isLow && elementOf(op.getKey()) == element &&
      elementOf(op.getValue()) == element &&
      elementOf(op.getOutput()) == element)
    return "";
  return llvm::formatv("expected query, key, value and output in f16 or in "
                       "bf16, found {0}, {1}, {2} and {3}",
                       element, elementOf(op.getKey()),
                       elementOf(op.getValue()), elementOf(op.getOutput()))
      .str();
}

static std::string findShapeObstacle(AttentionOp op, const TargetInfo &target) {
  ArrayRef<int64_t> query = shapeOf(op.getQuery()), key = shapeOf(op.getKey());
  if (typeOf(op.getOutput()).getNumElements() == 0 ||
      typeOf(op.getKey()).getNumElements() == 0)
    return "expected at least one query and one key";
  if (query[query.size() - 2] == 1 && key[key.size() - 2] == 1)
    return "a single query sees a single key";
  if (!findAttentionAxes(query, key))
    return llvm::formatv("expected adjacent query heads for each key head, "
                         "found a query {0} and a key {1}",
                         describe(query), describe(key))
        .str();
  const int64_t most = getMaxWidth(target);
  for (Value value : {op.getQuery(), op.getValue()})
    if (int64_t width = shapeOf(value).back();
        width % kUnit != 0 || width > most)
      return llvm::formatv("expected heads of a multiple of {0} elements, at "
                           "most {1}, found {2}",
                           kUnit, most, width)
          .str();
  return "";
}

static std::string findMaskObstacle(AttentionOp op) {
  if (!op.getSoftcap().isZero())
    return "scores have a softcap";
  if (!op.getDropout().isZero())
    return "the softmax has a dropout";
  std::optional<int64_t> offset = op.getCausalOffset();
  const SmallVector<int64_t> scores = op.getScoresShape();
  const int64_t keys = scores.back(), queries = scores[scores.size() - 2];
  if (offset && (*offset < 0 || (*offset != 0 && *offset != keys - queries)))
    return llvm::formatv("expected a causal offset of 0 or {0}, found {1}",
                         keys - queries, *offset)
        .str();
  if (offset.value_or(0) != 0 && (op.getMask() || !op.getBiases().empty()))
    return llvm::formatv("expected no mask and no bias beside a causal offset "
                         "of {0}",
                         *offset)
        .str();
  if (op.getMask() && !(op.getHidden().convertToDouble() <= kHidingBias))
    return llvm::formatv("hidden scores are {0}, not minus infinity",
                         op.getHidden().convertToDouble())
        .str();
  SmallVector<Value> spread(op.getBiases());
  if (op.getMask())
    spread.push_back(op.getMask());
  if (op.getZeroEmptyRows() && !spread.empty() && offset)
    return "queries that see no key, by a mask and a causal order, shall get "
           "zeros";
  for (Value value : spread) {
    if (!findSpreadShape(op, value))
      return llvm::formatv("a bias or mask of shape {0} repeats for some heads "
                           "or all keys",
                           describe(shapeOf(value)))
          .str();
    if (mayBeTrained(value))
      return "a bias depends on trained state, and may need a gradient";
  }
  return "";
}

std::string mpc::findAttentionObstacle(AttentionOp op,
                                       const TargetInfo &target) {
  if (!target.isGPU())
    return llvm::formatv("target {0} has no library for it", target.getName())
        .str();
  for (std::string obstacle :
       {findTypeObstacle(op), findShapeObstacle(op, target)})
    if (!obstacle.empty())
      return obstacle;
  return findMaskObstacle(op);
}

std::string mpc::findAttentionObstacle(AttentionGradOp op) {
  Type element = elementOf(op.getQuery());
  for (Value value :
       {op.getDOutput(), op.getDQuery(), op.getDKey(), op.getDValue()})
    if (elementOf(value) != element)
      return llvm::formatv("expected gradients in {0}, found {1}", element,
                           elementOf(value))
          .str();
  if (llvm::any_of(op.getDBiases(),
                   [](Value gradient) { return !gradient.use_empty(); }))
    return "a bias needs a gradient";
  return "";
}

bool mpc::hasLibraryAttention(ModuleOp module) {
  const TargetInfo target = getTarget(module);
  return module
      .walk([&](AttentionOp op) {
        return findAttentionObstacle(op, target).empty()
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}
