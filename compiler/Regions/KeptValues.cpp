// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/KeptValues.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/ElementWork.h"
#include "compiler/Regions/RegionFormer.h"
#include "compiler/Support/MinCut.h"

using namespace mlir;
using namespace mpc;

/// Values with fewer elements are always kept: small tensors stay in cache, so
/// a store costs nothing.
static constexpr int64_t kMinElements = 1024;
/// The most kernels that may recompute one value.
static constexpr size_t kMaxKernels = 16;
/// The most ops that a kernel may compute to recompute one value: enough for a
/// few consecutive activations. Kernels then stay well below the limit of
/// RegionSplit.h.
static constexpr size_t kMaxChain = 24;
/// The number of cuts. Cut 0 assumes that every kernel that could recompute a
/// value does. The other cuts start from the best solution so far. For values
/// that no kernel recomputes in this solution, cuts 1 and 3 assume that
/// recomputing is free, cuts 2 and 4 that all possible kernels do so.
static constexpr unsigned kMaxCuts = 5;

static int64_t countElements(Value value) {
  return ShapedType::getNumElements(shapeOf(value));
}

//===----------------------------------------------------------------------===//
// Kernels that can compute an op
//===----------------------------------------------------------------------===//

// True if a tensor of `shape`, broadcast to `space`, has the full extent along
// all axes of [begin, end), or extent 1 along all of them. Over both axes of a
// space of 8 x 4, tensors of 8 x 4 and 1 x 1 are uniform, a tensor of 8 x 1 is
// not.
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

// True if computing `op` inside the reduction `kernel` keeps the order in which
// the kernel sums. The loops merge adjacent axes along which every tensor is
// full or a single value. An operand of another shape would change the loops,
// and so the rounding of the sums.
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
/// One way in which kernels grow. `canTake` tells if such a kernel can compute
/// `op` itself, whose result the kernel reads.
struct Recomputing {
  Growth growth;
  bool (*canTake)(Operation *op, const KernelRegion &kernel);
};
} // namespace

// The kinds of kernels that can recompute values.
static constexpr Recomputing kRecomputing[] = {
    {Growth::Elementwise, fitsPointwise},
    {Growth::Reductions, fitsOrderedReduction},
    {Growth::Epilogue, fitsEpilogue},
};

// Returns the row of kRecomputing for `kernel`; null if the kernel cannot
// recompute values.
static const Recomputing *findRecomputing(const KernelRegion &kernel) {
  const auto *row = llvm::find_if(kRecomputing, [&](const Recomputing &row) {
    return row.growth == kernel.getGrowth();
  });
  return row == std::end(kRecomputing) ? nullptr : row;
}

//===----------------------------------------------------------------------===//
// Readers of values
//===----------------------------------------------------------------------===//

// True if the owner of `operand` needs the value in memory. `kernel` is the
// kernel of this op, or null. Movements, windows and contractions read from
// memory, and so do ops without a kernel.
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
// Needs of kernels
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

// Fills `needs`, from the last op to the first: a kernel that recomputes an op
// also needs the op's operands.
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

// Refuses to recompute an op if more than kMaxChain ops would have to be
// computed, starting from values that are in memory or kept for certain.
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

// Adds the nodes of `value` to the cut, and the cost of `value` itself: a store
// and loads if the value is kept, otherwise the work of each recomputing
// kernel.
void KeptValues::addValue(Value value, MinCut &cut) {
  Operation *op = value.getDefiningOp();
  auto need = op ? needs.find(op) : needs.end();
  const Kernels &kernels = getReaders(value);
  if (need == needs.end()) {
    // This value is never recomputed. A store costs nothing extra if the value
    // is in memory anyway, or if a kernel reads the value in any case.
    // Otherwise the cut pays for the store if a kernel comes to need the value.
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
  // Recomputing costs the work of the op once per charged kernel: each kernel
  // that this cut assumes to recompute the op.
  Nodes added = {cut.addNode(), cut.addNode()};
  nodes[value] = added;
  int64_t work = 0;
  assert(charged.contains(op) && getElementWork(op) &&
         "a recomputable op has kernels to charge and a known work");
  for (const KernelRegion *kernel : charged.find(op)->second)
    work += ShapedType::getNumElements(kernel->space) * *getElementWork(op);
  // Keeping costs a store, and a load per reading kernel.
  cut.addEdge(MinCut::kSource, added.computed, work);
  int64_t accesses = 1 + kernels.size();
  cut.addEdge(added.computed, added.needed,
              countElements(value) * kAccessWork * accesses);
  // Forbid recomputing a value that no other kernel needs. Other kernels need a
  // value for certain if they read it.
  cut.addEdge(added.needed, added.computed, MinCut::kInfinite);
  if (!kernels.empty())
    cut.addEdge(added.needed, MinCut::kSink, MinCut::kInfinite);
}

// Adds the cost of the loads that kernels need only to recompute `op`.
void KeptValues::addLoads(Operation *op, MinCut &cut) {
  assert(nodes.contains(op->getResult(0)) && "addValue comes first");
  // If `op` is recomputed, other kernels need each operand, kept or recomputed.
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
    // Each kernel that recomputes `op` loads a kept operand, unless the kernel
    // reads the operand anyway.
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
  // Values on the sink's side of the cheapest cut are recomputed.
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

// Returns the total cost if the ops of `solution` are recomputed and all other
// values kept: stores, loads, and the work of recomputing.
int64_t KeptValues::getCost(Block &block,
                            const DenseSet<Operation *> &solution) {
  DenseMap<Operation *, Kernels> kernels = findKernels(block, solution);
  int64_t cost = 0;
  // A kept value costs a load in each reading kernel, and a store, unless the
  // value is in memory anyway.
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
  // Recomputing an op costs the op's work once per recomputing kernel.
  for (Operation &op : block) {
    if (!solution.contains(&op)) {
      llvm::for_each(op.getResults(), addKept);
      continue;
    }
    assert(kernels.contains(&op) && "a solution holds recomputable ops alone");
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
    assert(llvm::none_of(solution,
                         [&](Operation *op) { return refused.contains(op); }) &&
           "refused ops are kept");
    if (int64_t cost = getCost(block, solution); cost < least) {
      least = cost;
      recomputed = std::move(solution);
    }
    charged = findKernels(block, recomputed);
    // In the best solution, some values would be recomputed by no kernel, since
    // no kernel needs the values. The next cut assumes in turn that recomputing
    // such a value is free, or that all kernels recompute the value that might
    // need it.
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
        // A value from another kernel counts once in each loading kernel.
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
