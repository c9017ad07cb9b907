// Groups ops into mpc.region ops, one region per kernel. RegionAnalysis decides
// the groups. Also sorts the regions so that producers come before users.
//
// A splat constant is copied into each region that uses the constant, at no
// cost; kernels that copy memory need the constant in memory, however. Reshapes
// stay outside of regions, since they do not touch memory.
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
/// The ops of one kernel, or a single op outside of kernels. All ops of a unit
/// take one place in the sorted block.
struct Unit {
  const KernelRegion *region = nullptr;
  SmallVector<Operation *> ops;
  unsigned priority = 0;
  SmallVector<unsigned> users;
  unsigned pending = 0;
};

/// The values that a unit reads from outside, the splat constants to copy into
/// the unit, and the results that other units read.
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

// Returns the symbol of kernel number `index` of `function`, with the name of
// the hero's node: "step_0_Relu_y". The symbol goes into an object file, so
// characters other than letters and digits become underscores.
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
  // All ops of a region form one unit; any other op is a unit by itself. The
  // position of the hero becomes the priority of a unit.
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

// Sorts units so that producers come before users. Among units that are ready,
// takes the unit whose hero comes first in the block.
SmallVector<unsigned> Former::order() {
  // The ready units. The unit with the lowest priority number is on top.
  auto later = [&](unsigned a, unsigned b) {
    return units[a].priority > units[b].priority;
  };
  std::priority_queue<unsigned, std::vector<unsigned>, decltype(later)> ready(
      later);
  for (unsigned i = 0; i < units.size(); ++i)
    if (units[i].pending == 0)
      ready.push(i);
  // A unit becomes ready when all its producers are in the result.
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

// True if the kernel needs the operand in memory, even if the operand is a
// constant: operands of a hero that copies or multiplies memory, and tables
// read at computed indices. All other splat constants become registers.
static bool isFromMemory(OpOperand &operand, const KernelRegion &region) {
  if (KernelHero::get(*region.kind).readsMemory() &&
      operand.getOwner() == region.hero)
    return true;
  return readsMemory(operand);
}

// Finds the values that a unit reads from outside, and the results that other
// ops read.
static Boundary findBoundary(const Unit &unit) {
  llvm::SmallPtrSet<Operation *, 16> members(unit.ops.begin(), unit.ops.end());
  // A constant that the kernel reads from memory must be an input.
  llvm::SmallPtrSet<Value, 4> fromMemory;
  for (Operation *op : unit.ops)
    for (OpOperand &operand : op->getOpOperands())
      if (isFromMemory(operand, *unit.region))
        fromMemory.insert(operand.get());
  // Other splat constants are copied into the kernel.
  Boundary boundary;
  for (Operation *op : unit.ops) {
    for (Value operand : op->getOperands()) {
      if (members.contains(operand.getDefiningOp()))
        continue;
      bool isInside = isSplatConstant(operand) && !fromMemory.contains(operand);
      (isInside ? boundary.constants : boundary.inputs).insert(operand);
    }
    // Results are values that ops outside the unit read.
    for (Value result : op->getResults())
      if (llvm::any_of(result.getUsers(), [&](Operation *user) {
            return !members.contains(user);
          }))
        boundary.results.insert(result);
  }
  return boundary;
}

void Former::placeRegion(const Unit &unit) {
  // The region gets the locations of all its ops, the hero's first.
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

  // Clone the ops into the body, where arguments replace the inputs.
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
  // mpc.kept has kept kernels apart while regions were formed. Replace mpc.kept
  // by its input.
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
  // RegionAnalysis forms no regions that depend on each other, so sorting
  // cannot fail.
  if (placement.size() != units.size())
    return function.emitOpError("expected kernels without a cycle, found ")
           << units.size() - placement.size()
           << " that need each other's results";
  for (unsigned index : placement)
    place(units[index]);
  for (OpOperand &operand : block.getTerminator()->getOpOperands())
    operand.set(mapping.lookupOrDefault(operand.get()));
  for (Operation *op : llvm::reverse(old))
    op->erase();
  return success();
}
