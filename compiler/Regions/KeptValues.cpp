// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/KeptValues.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ElementWork.h"
#include "compiler/Regions/RegionFormer.h"
#include "compiler/Support/MinCut.h"

using namespace mlir;
using namespace mpc;

/// Smaller tensors stay in cache, so that storing them costs nothing.
static constexpr int64_t kMinElements = 1024;
/// The most kernels that compute a value, beside its own.
static constexpr size_t kMaxKernels = 16;
/// The most ops that a value is computed by: a few activations one after the
/// other, and kernels stay well below RegionSplit.h's limit.
static constexpr size_t kMaxChain = 24;
/// One with all that could be, and two of either kind around the best so far.
static constexpr unsigned kMaxCuts = 5;

static int64_t countElements(Value value) {
  return ShapedType::getNumElements(shapeOf(value));
}

//===----------------------------------------------------------------------===//
// Who can compute
//===----------------------------------------------------------------------===//

// Whether a tensor of `shape`, broadcast to `space`, is read along all of the
// axes in [begin, end) that have more than one index, or along none.
static bool isUniform(ArrayRef<int64_t> shape, ArrayRef<int64_t> space,
                      size_t begin, size_t end) {
  size_t missing = space.size() - shape.size();
  bool isFull = true, isSingle = true;
  for (size_t axis = begin; axis < end; ++axis) {
    int64_t extent = axis < missing ? 1 : shape[axis - missing];
    isFull &= extent == space[axis];
    isSingle &= extent == 1;
  }
  return isFull || isSingle;
}

// Whether a kernel that reduces would add up in the same order with the
// operands of `op`: its loops are over axes as one that every tensor in it is
// read along, or none.
static bool keepsOrder(const KernelRegion &kernel, Operation *op) {
  size_t begin = *llvm::min_element(kernel.axes);
  size_t end = *llvm::max_element(kernel.axes) + 1;
  return !mpc::readsMemory(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           ArrayRef<int64_t> shape = shapeOf(operand), space = kernel.space;
           return isUniform(shape, space, begin, end) &&
                  isUniform(shape, space, end, space.size());
         });
}

static bool fitsPointwise(Operation *op, const KernelRegion &kernel) {
  return shapeOf(op->getResult(0)) == ArrayRef<int64_t>(kernel.space);
}

static bool fitsOrderedReduction(Operation *op, const KernelRegion &kernel) {
  return fitsReduction(op, kernel) && keepsOrder(kernel, op);
}

namespace {
/// Kernels that grow in one way, which read what an elementwise op computes:
/// whether such a kernel can compute the op itself.
struct Recomputing {
  Growth growth;
  bool (*canTake)(Operation *op, const KernelRegion &kernel);
};
} // namespace

// The ways to grow of kernels that can compute values again, one line each.
static constexpr Recomputing kRecomputing[] = {
    {Growth::Elementwise, fitsPointwise},
    {Growth::Reductions, fitsOrderedReduction},
    {Growth::Tail, fitsTail},
};

// The line of `kernel`; null where it reads all from memory.
static const Recomputing *findRecomputing(const KernelRegion &kernel) {
  const auto *row = llvm::find_if(kRecomputing, [&](const Recomputing &row) {
    return row.growth == kernel.getGrowth();
  });
  return row == std::end(kRecomputing) ? nullptr : row;
}

//===----------------------------------------------------------------------===//
// Who reads
//===----------------------------------------------------------------------===//

// Whether `operand` is read from memory, whoever could compute it: by what
// moves, slides or multiplies, and by what is in no kernel.
static bool isReadFromMemory(OpOperand &operand, const KernelRegion *kernel) {
  if (!kernel || !kernel->kind || mpc::readsMemory(operand))
    return true;
  const Recomputing *row = findRecomputing(*kernel);
  return !row || (KernelHero::get(*kernel->kind).readsMemory() &&
                  operand.getOwner() == kernel->hero);
}

void KeptValues::findReaders(Block &block) {
  for (Operation &user : block) {
    const KernelRegion *kernel = analysis.getRegion(&user);
    for (OpOperand &operand : user.getOpOperands()) {
      Value value = operand.get();
      Operation *producer = value.getDefiningOp();
      const KernelRegion *own =
          producer ? analysis.getRegion(producer) : nullptr;
      if (kernel && kernel == own)
        continue;
      if (!own || isReadFromMemory(operand, kernel))
        inMemory.insert(value);
      if (kernel)
        readers[value].insert(kernel);
    }
  }
}

const KeptValues::Kernels &KeptValues::getReaders(Value value) const {
  static const Kernels none;
  auto entry = readers.find(value);
  return entry == readers.end() ? none : entry->second;
}

//===----------------------------------------------------------------------===//
// What kernels need
//===----------------------------------------------------------------------===//

bool KeptValues::canRecompute(Operation *op, const Kernels &kernels) const {
  return hasRole(op, RegionRole::Elementwise) && op->getNumResults() == 1 &&
         !refused.contains(op) && !inMemory.contains(op->getResult(0)) &&
         countElements(op->getResult(0)) >= kMinElements &&
         getElementWork(op) && kernels.size() <= kMaxKernels &&
         llvm::all_of(kernels, [&](const KernelRegion *kernel) {
           const Recomputing *row = findRecomputing(*kernel);
           return row && row->canTake(op, *kernel);
         });
}

// Users first: a kernel that computes a value needs its operands.
void KeptValues::findNeeds(Block &block) {
  needs.clear();
  for (Operation &op : llvm::reverse(block)) {
    if (op.getNumResults() != 1 || !analysis.getRegion(&op))
      continue;
    Kernels kernels = getReaders(op.getResult(0));
    for (Operation *user : op.getUsers())
      if (auto entry = needs.find(user); entry != needs.end())
        kernels.insert(entry->second.begin(), entry->second.end());
    if (!kernels.empty() && canRecompute(&op, kernels))
      needs[&op] = std::move(kernels);
  }
}

// Refuses ops that it would take too many to compute again, from what is kept
// or in memory for sure.
void KeptValues::limitChains(Block &block) {
  for (Operation &op : block) {
    if (!needs.contains(&op))
      continue;
    llvm::SmallSetVector<Operation *, kMaxChain> chain;
    chain.insert(&op);
    for (size_t i = 0; i < chain.size() && chain.size() <= kMaxChain; ++i)
      for (Value operand : chain[i]->getOperands())
        if (Operation *producer = operand.getDefiningOp();
            needs.contains(producer) && !refused.contains(producer))
          chain.insert(producer);
    if (chain.size() > kMaxChain)
      refused.insert(&op);
  }
}

//===----------------------------------------------------------------------===//
// The cut
//===----------------------------------------------------------------------===//

// Its own cost: to be stored and loaded, or computed wherever it is needed.
void KeptValues::addValue(Value value, MinCut &cut) {
  Operation *op = value.getDefiningOp();
  auto need = op ? needs.find(op) : needs.end();
  const Kernels &kernels = getReaders(value);
  if (need == needs.end()) {
    // A value that is in memory anyway, or that a kernel computes anyway, costs
    // nothing to keep.
    bool isPaid = inMemory.contains(value) || !kernels.empty();
    Nodes added = {MinCut::kSource, MinCut::kSink};
    if (!isPaid) {
      added.needed = cut.addNode();
      cut.addEdge(MinCut::kSource, added.needed,
                  countElements(value) * kAccessWork);
    }
    nodes[value] = added;
    return;
  }
  // Computed again where needed: the work of the op once for each kernel that
  // would do it.
  Nodes added = {cut.addNode(), cut.addNode()};
  nodes[value] = added;
  int64_t work = 0;
  for (const KernelRegion *kernel : charged.find(op)->second)
    work += ShapedType::getNumElements(kernel->space) * *getElementWork(op);
  // Kept instead: one store, and a load by each kernel that reads it.
  cut.addEdge(MinCut::kSource, added.computed, work);
  int64_t accesses = 1 + kernels.size();
  cut.addEdge(added.computed, added.needed,
              countElements(value) * kAccessWork * accesses);
  // What is needed in memory is computed before: the cut may not part them the
  // other way. What a kernel reads for certain is needed.
  cut.addEdge(added.needed, added.computed, MinCut::kInfinite);
  if (!kernels.empty())
    cut.addEdge(added.needed, MinCut::kSink, MinCut::kInfinite);
}

// Adds the price of computing `op` again: the operands that a kernel would load
// for that alone.
void KeptValues::addLoads(Operation *op, MinCut &cut) {
  // To compute `op`, each operand must be needed where `op` is computed,
  unsigned computed = nodes.lookup(op->getResult(0)).computed;
  llvm::SmallSetVector<Value, 4> operands;
  for (Value operand : op->getOperands())
    if (!isSplatConstant(operand))
      operands.insert(operand);
  for (Value operand : operands) {
    if (!nodes.contains(operand))
      addValue(operand, cut);
    Nodes read = nodes.lookup(operand);
    if (read.needed != MinCut::kSink)
      cut.addEdge(read.needed, computed, MinCut::kInfinite);
    // and loaded by each kernel that computes it, at a price.
    for (const KernelRegion *kernel : charged.find(op)->second) {
      if (getReaders(operand).contains(kernel))
        continue;
      auto [load, isNew] = loads.try_emplace({operand, kernel}, 0);
      if (isNew) {
        load->second = cut.addNode();
        cut.addEdge(read.computed, load->second,
                    countElements(operand) * kAccessWork);
      }
      cut.addEdge(load->second, computed, MinCut::kInfinite);
    }
  }
}

DenseSet<Operation *> KeptValues::solve(Block &block) {
  // A node for each value that kernels need, and edges for what it costs.
  MinCut cut;
  nodes.clear();
  loads.clear();
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    if (needs.contains(&op)) {
      ops.push_back(&op);
      addValue(op.getResult(0), cut);
    }
  for (Operation *op : ops)
    addLoads(op, cut);
  // The cheapest cut: values on the sink's side are computed again.
  [[maybe_unused]] std::optional<int64_t> cost = cut.solve();
  assert(cost && "every value can be kept");
  DenseSet<Operation *> solution;
  for (Operation *op : ops)
    if (cut.isWithSink(nodes.lookup(op->getResult(0)).computed))
      solution.insert(op);
  return solution;
}

//===----------------------------------------------------------------------===//
// The best cut
//===----------------------------------------------------------------------===//

DenseMap<Operation *, KeptValues::Kernels>
KeptValues::findKernels(Block &block, const DenseSet<Operation *> &solution) {
  DenseMap<Operation *, Kernels> found;
  for (Operation &op : llvm::reverse(block)) {
    if (!needs.contains(&op))
      continue;
    Kernels kernels = getReaders(op.getResult(0));
    for (Operation *user : op.getUsers())
      if (solution.contains(user))
        kernels.insert(found[user].begin(), found[user].end());
    found[&op] = std::move(kernels);
  }
  return found;
}

// What is stored, loaded and computed again in all.
int64_t KeptValues::getCost(Block &block,
                            const DenseSet<Operation *> &solution) {
  DenseMap<Operation *, Kernels> kernels = findKernels(block, solution);
  int64_t cost = 0;
  // A value in memory costs a store and a load in each kernel.
  auto addKept = [&](Value value) {
    if (isSplatConstant(value))
      return;
    Kernels readBy = getReaders(value);
    for (Operation *user : value.getUsers())
      if (solution.contains(user))
        readBy.insert(kernels[user].begin(), kernels[user].end());
    int64_t stores = !readBy.empty() && !inMemory.contains(value);
    cost += countElements(value) * kAccessWork * (stores + readBy.size());
  };
  llvm::for_each(block.getArguments(), addKept);
  // A recomputed op costs its work once for each kernel that recomputes it.
  for (Operation &op : block) {
    if (!solution.contains(&op)) {
      llvm::for_each(op.getResults(), addKept);
      continue;
    }
    for (const KernelRegion *kernel : kernels[&op])
      cost += ShapedType::getNumElements(kernel->space) * *getElementWork(&op);
  }
  return cost;
}

KeptValues::KeptValues(Block &block, const RegionAnalysis &analysis)
    : analysis(analysis) {
  findReaders(block);
  findNeeds(block);
  limitChains(block);
  if (!refused.empty())
    findNeeds(block);
  charged = needs;
  int64_t least = getCost(block, recomputed);
  for (unsigned cut = 0; cut < kMaxCuts && !needs.empty(); ++cut) {
    DenseSet<Operation *> solution = solve(block);
    if (int64_t cost = getCost(block, solution); cost < least) {
      least = cost;
      recomputed = std::move(solution);
    }
    charged = findKernels(block, recomputed);
    // Values that no kernel would recompute cost nothing in even cuts; in odd
    // ones they cost what all kernels that might need them would pay.
    if (cut % 2 == 1)
      for (auto &[op, kernels] : charged)
        if (kernels.empty())
          kernels = needs.lookup(op);
  }
}

//===----------------------------------------------------------------------===//
// Traffic
//===----------------------------------------------------------------------===//

int64_t mpc::countTraffic(Block &block, const RegionAnalysis &analysis) {
  int64_t elements = 0;
  for (const KernelRegion &kernel : analysis.getRegions()) {
    llvm::SmallDenseSet<Value> loaded;
    for (Operation *op : kernel.ops) {
      for (Value operand : op->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        bool isInside = producer && analysis.getRegion(producer) == &kernel;
        // What is kept counts where it is loaded.
        if (!isInside && !isSplatConstant(operand) &&
            loaded.insert(operand).second)
          elements += countElements(operand);
      }
      for (Value result : op->getResults())
        if (!analysis.isInternal(result))
          elements += countElements(result);
    }
  }
  return elements;
}
