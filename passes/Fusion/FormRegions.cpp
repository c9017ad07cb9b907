// Groups ops into mpc.region ops, a region per kernel, as RegionAnalysis
// decides, and sorts the regions into an executable order.
//
// Splat constants are copied into the regions that use them, at no cost.
// Kernels that copy memory read splat constants from memory, however. Reshapes
// stay outside, since they do not change memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelHero.h"
#include "compiler/Regions/RegionAnalysis.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

#include <queue>

namespace mpc {
#define GEN_PASS_DEF_FORMREGIONSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// A kernel, or an op outside of kernels. Each unit is placed as a whole.
struct Unit {
  const KernelRegion *region = nullptr;
  SmallVector<Operation *> ops;
  unsigned priority = 0;
  SmallVector<unsigned> users;
  unsigned pending = 0;
};

/// The values that pass into and out of a unit.
struct Boundary {
  llvm::SetVector<Value> inputs, constants, results;
};

class Former {
public:
  explicit Former(func::FuncOp function)
      : function(function), block(function.getBody().front()), analysis(block) {
  }
  LogicalResult run();

private:
  void collectUnits();
  SmallVector<unsigned> order();
  void place(const Unit &unit);
  void placeRegion(const Unit &unit);

  func::FuncOp function;
  Block &block;
  RegionAnalysis analysis;
  SmallVector<Unit> units;
  IRMapping mapping;
  unsigned numKernels = 0;
};

struct FormRegionsPass
    : public mpc::impl::FormRegionsPassBase<FormRegionsPass> {
  void runOnOperation() override {
    if (failed(Former(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace

// Returns a symbol for kernel `index` of `function`, named after the hero's
// node. The name becomes a symbol of an object file, so only letters, digits
// and underscores are allowed.
static std::string kernelName(StringRef function, unsigned index,
                              Operation *hero) {
  StringRef node = getNodeName(hero);
  std::string name = (function + "_" + Twine(index) + "_" +
                      (node.empty() ? hero->getName().stripDialect() : node))
                         .str();
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  return name;
}

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

void Former::collectUnits() {
  // A unit is a region, or an op without a region. The hero determines a
  // region's place.
  DenseMap<const KernelRegion *, unsigned> unitOfRegion;
  DenseMap<Operation *, unsigned> unitOf;
  for (auto [index, op] : llvm::enumerate(block.without_terminator())) {
    const KernelRegion *region = analysis.getRegion(&op);
    unsigned unit = units.size();
    if (region)
      unit = unitOfRegion.try_emplace(region, unit).first->second;
    if (unit == units.size()) {
      units.emplace_back();
      units.back().region = region;
    }
    unitOf[&op] = unit;
    units[unit].ops.push_back(&op);
    if (!region || region->hero == &op)
      units[unit].priority = index;
  }
  for (auto [index, unit] : llvm::enumerate(units)) {
    llvm::SmallSetVector<unsigned, 8> producers;
    for (Operation *op : unit.ops)
      for (Value operand : op->getOperands())
        if (Operation *producer = operand.getDefiningOp())
          if (unitOf.lookup(producer) != index)
            producers.insert(unitOf.lookup(producer));
    unit.pending = producers.size();
    for (unsigned producer : producers)
      units[producer].users.push_back(index);
  }
}

// Sorts producers before users, and otherwise by the place of the hero.
SmallVector<unsigned> Former::order() {
  // A heap of the ready units, the first in the block on top.
  auto later = [&](unsigned a, unsigned b) {
    return units[a].priority > units[b].priority;
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(
      later);
  for (unsigned i = 0; i < units.size(); ++i)
    if (units[i].pending == 0)
      ready.push(i);
  // A unit becomes ready when the last producer is placed.
  SmallVector<unsigned> result;
  while (!ready.empty()) {
    unsigned next = ready.top();
    ready.pop();
    result.push_back(next);
    for (unsigned user : units[next].users)
      if (--units[user].pending == 0)
        ready.push(user);
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

// True if the kernel reads an operand from memory, constant or not. Heroes that
// move or multiply memory do, and so do ops with computed indices. All other
// ops have splats in registers.
static bool isFromMemory(OpOperand &operand, const KernelRegion &region) {
  if (KernelHero::get(*region.kind).readsMemory() &&
      operand.getOwner() == region.hero)
    return true;
  return readsMemory(operand);
}

// Finds the values read by a unit, and the results read by others.
static Boundary findBoundary(const Unit &unit) {
  llvm::SmallPtrSet<Operation *, 16> members(unit.ops.begin(), unit.ops.end());
  // Operands read from memory cannot be constants within the kernel.
  llvm::SmallPtrSet<Value, 4> fromMemory;
  for (Operation *op : unit.ops)
    for (OpOperand &operand : op->getOpOperands())
      if (isFromMemory(operand, *unit.region))
        fromMemory.insert(operand.get());
  // Collect inputs, and splat constants, of which the kernel gets copies.
  Boundary boundary;
  for (Operation *op : unit.ops) {
    for (Value operand : op->getOperands()) {
      if (members.contains(operand.getDefiningOp()))
        continue;
      bool isInside = isSplatConstant(operand) && !fromMemory.contains(operand);
      (isInside ? boundary.constants : boundary.inputs).insert(operand);
    }
    // Collect the results that an op outside reads.
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !members.contains(user);
          }))
        boundary.results.insert(result);
  }
  return boundary;
}

void Former::placeRegion(const Unit &unit) {
  // The region carries the locations of all nodes, the hero's first.
  auto [inputs, constants, results] = findBoundary(unit);
  SmallVector<Location> locations = {unit.region->hero->getLoc()};
  for (Operation *op : unit.ops)
    locations.push_back(op->getLoc());

  OpBuilder builder(block.getTerminator());
  Location location = builder.getFusedLoc(locations);
  SmallVector<Value> mapped;
  for (Value input : inputs)
    mapped.push_back(mapping.lookupOrDefault(input));
  auto region = RegionOp::create(builder, location,
                                 ValueRange(results.getArrayRef()).getTypes(),
                                 *unit.region->kind, mapped);
  region.setKernel(
      kernelName(function.getName(), numKernels++, unit.region->hero));
  copyPhase(unit.region->hero, region);

  // The body is a copy of the ops, with arguments in place of inputs.
  Block *body = builder.createBlock(&region.getBody());
  IRMapping inner;
  for (Value input : inputs)
    inner.map(input, body->addArgument(input.getType(), location));
  for (Value constant : constants)
    builder.clone(*constant.getDefiningOp(), inner);
  for (Operation *op : unit.ops)
    builder.clone(*op, inner)->removeAttr(kPhaseAttr);
  SmallVector<Value> yielded;
  for (Value result : results)
    yielded.push_back(inner.lookup(result));
  YieldOp::create(builder, location, yielded);
  mapping.map(results.getArrayRef(), region.getResults());
}

void Former::place(const Unit &unit) {
  if (unit.region)
    return placeRegion(unit);
  Operation *op = unit.ops.front();
  // Regions now separate the readers, so mpc.kept has done its work.
  if (auto kept = dyn_cast<KeptOp>(op))
    return mapping.map(kept.getOutput(),
                       mapping.lookupOrDefault(kept.getInput()));
  OpBuilder builder(block.getTerminator());
  builder.clone(*op, mapping);
}

LogicalResult Former::run() {
  for (const KernelRegion &region : analysis.getRegions())
    if (!region.kind)
      return region.hero->emitOpError(
          "expected a primitive op, run mpc-decompose first");
  collectUnits();
  SmallVector<Operation *> old;
  for (Operation &op : block.without_terminator())
    old.push_back(&op);
  SmallVector<unsigned> placement = order();
  // RegionAnalysis prevents cycles, so this cannot happen.
  if (placement.size() != units.size())
    return function.emitOpError("kernels need each other's results");
  for (unsigned index : placement)
    place(units[index]);
  for (OpOperand &operand : block.getTerminator()->getOpOperands())
    operand.set(mapping.lookupOrDefault(operand.get()));
  for (Operation *op : llvm::reverse(old))
    op->erase();
  return success();
}
