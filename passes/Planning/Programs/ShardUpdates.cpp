// Divides the optimizer's work among the ranks of a distributed run.
//
// Each parameter has an owner: a rank, which the runtime chooses. Only the
// owner gets the reduced gradient, so the owner alone runs all ops on the
// gradient, until another op needs a value. The owner then sends the value to
// all ranks. Only the owner holds a variable whose users are all ops of the
// owner: a moment, or a master weight with a low copy.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Arena/Liveness.h"
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/Plan/Plan.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_SHARDUPDATESPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// The parameter whose owner runs an op or has a value; null for all ranks.
using Owner = FlatSymbolRefAttr;
/// Maps variables to owners.
using Owners = DenseMap<Attribute, Owner>;

namespace {
/// The owners of the ops and values of a function.
class OwnerAnalysis {
public:
  /// `sharded` maps variables to owners. Arguments with a sharded variable are
  /// values of the owner.
  OwnerAnalysis(func::FuncOp function, const SymbolTable &symbols,
                const Owners &sharded);

  Owner of(Operation *op) const { return owners.lookup(op); }
  Owner of(Value value) const { return valueOwners.lookup(value); }
  /// Returns the op with the owner of `op`: the call of the epilogue
  /// of a contraction, else `op` itself.
  Operation *unitOf(Operation *op) const {
    func::CallOp epilogue = epilogueOf.lookup(op);
    return epilogue ? epilogue : op;
  }

private:
  void findOwner(Operation *op);
  bool markLocal(Operation *op);
  void runForOwner(Operation *op);
  bool mayBeOwned(Operation *op);
  void set(Operation *op, Owner owner);
  SmallVector<Value> operandsOf(Operation *op) const;

  func::FuncOp function;
  const SymbolTable &symbols;
  EpilogueCalls epilogueOf;
  DenseMap<Operation *, Operation *> contractionOf;
  DenseMap<Operation *, Owner> owners;
  DenseMap<Value, Owner> valueOwners;
  /// Values with other elements on each rank, for example activations.
  DenseSet<Value> local;
};

struct ShardUpdatesPass
    : public mpc::impl::ShardUpdatesPassBase<ShardUpdatesPass> {
  using ShardUpdatesPassBase::ShardUpdatesPassBase;
  void runOnOperation() override;

private:
  void chooseVariables(ArrayRef<func::FuncOp> functions);
  void shard(func::FuncOp function, const OwnerAnalysis &analysis);
  void shareResults(func::FuncOp function, const OwnerAnalysis &analysis);

  std::optional<SymbolTable> symbols;
  Owners sharded;
};
} // namespace

//===----------------------------------------------------------------------===//
// Owners of ops
//===----------------------------------------------------------------------===//

static bool hasOwners(AllReduceOp op) { return op.getOwners().has_value(); }

static std::optional<Role> roleOf(FlatSymbolRefAttr variable,
                                  const SymbolTable &symbols) {
  auto op = symbols.lookup<VariableOp>(variable.getAttr());
  return op ? std::optional(op.getRole()) : std::nullopt;
}

/// True if the input or variable differs among the ranks.
static bool differsByRank(const PortAttrs &port, const SymbolTable &symbols) {
  FlatSymbolRefAttr state = port.getState();
  if (!state) {
    const Role role = port.getRole().value_or(Role::Data);
    return role == Role::Data || role == Role::Label;
  }
  std::optional<Role> role = roleOf(state, symbols);
  return !role || role == Role::Statistic || role == Role::Accumulator ||
         state.getValue() == kMicroStepVariable;
}

/// Returns the arguments of `kernel` on which result `index` depends.
static llvm::SmallDenseSet<unsigned> findReadBy(func::FuncOp kernel,
                                                unsigned index) {
  llvm::SmallDenseSet<unsigned> found;
  llvm::SetVector<Operation *> slice;
  SmallVector<Value> worklist = {
      kernel.getBody().front().getTerminator()->getOperand(index)};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op) {
      if (value.getParentBlock() == &kernel.getBody().front())
        found.insert(cast<BlockArgument>(value).getArgNumber());
    } else if (slice.insert(op)) {
      op->walk([&](Operation *nested) {
        llvm::append_range(worklist, nested->getOperands());
      });
    }
  }
  return found;
}

/// True if the optimizer updates variables of `role`.
static bool isUpdated(Role role) {
  return role == Role::Parameter || role == Role::OptimizerState ||
         role == Role::Average || role == Role::Derived;
}

OwnerAnalysis::OwnerAnalysis(func::FuncOp function, const SymbolTable &symbols,
                             const Owners &sharded)
    : function(function), symbols(symbols),
      epilogueOf(findEpilogues(function.getBody().front(), symbols)) {
  for (auto &[contraction, call] : epilogueOf)
    contractionOf[call] = contraction;
  Block &block = function.getBody().front();
  for (BlockArgument argument : block.getArguments()) {
    const PortAttrs port = getArgumentPort(argument);
    if (differsByRank(port, symbols))
      local.insert(argument);
    FlatSymbolRefAttr state = port.getState();
    if (Owner owner = state ? sharded.lookup(state) : Owner())
      valueOwners[argument] = owner;
  }
  for (Operation &op : block.without_terminator())
    if (!epilogueOf.contains(&op))
      findOwner(&op);
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (!epilogueOf.contains(&op))
      runForOwner(&op);
}

void OwnerAnalysis::set(Operation *op, Owner owner) {
  for (Operation *each : {op, contractionOf.lookup(op)})
    if (each) {
      owners[each] = owner;
      for (Value result : each->getResults())
        valueOwners[result] = owner;
    }
}

/// Returns the operands of `op`. For the call of an epilogue, adds the operands
/// of the contraction.
SmallVector<Value> OwnerAnalysis::operandsOf(Operation *op) const {
  SmallVector<Value> operands(op->getOperands());
  if (Operation *contraction = contractionOf.lookup(op)) {
    llvm::erase(operands, contraction->getResult(0));
    llvm::append_range(operands, contraction->getOperands());
  }
  return operands;
}

/// True if all results of `op` that the function returns are new values of
/// variables that the optimizer updates. Other results, such as the loss,
/// belong to each rank.
bool OwnerAnalysis::mayBeOwned(Operation *op) {
  Operation *terminator = op->getBlock()->getTerminator();
  return llvm::all_of(op->getUses(), [&](OpOperand &use) {
    if (use.getOwner() != terminator)
      return true;
    FlatSymbolRefAttr updated =
        getResultPort(function, use.getOperandNumber()).getUpdated();
    std::optional<Role> role =
        updated ? roleOf(updated, symbols) : std::nullopt;
    return role && isUpdated(*role);
  });
}

void OwnerAnalysis::findOwner(Operation *op) {
  if (auto reduction = dyn_cast<AllReduceOp>(op)) {
    if (hasOwners(reduction))
      for (auto [result, owner] :
           llvm::zip_equal(reduction.getOutputs(), *reduction.getOwners()))
        valueOwners[result] = cast<FlatSymbolRefAttr>(owner);
    return;
  }
  // Ops run on the owner only if no result belongs to the rank.
  const bool isLocal = markLocal(op);
  Owner owner;
  bool hasSeveral = false;
  for (Value operand : operandsOf(op))
    if (Owner next = of(operand)) {
      hasSeveral |= owner && next != owner;
      owner = next;
    }
  if (owner && !hasSeveral && !isLocal && mayBeOwned(op))
    set(op, owner);
}

/// Adds the results of `op` that depend on values of this rank to `local`. True
/// if there are any. A kernel may compute the loss of the rank and the common
/// norm of gradients, so looks at each result alone.
bool OwnerAnalysis::markLocal(Operation *op) {
  SmallVector<Value> operands = operandsOf(op);
  auto differs = [&](Value operand) { return local.contains(operand); };
  if (llvm::none_of(operands, differs))
    return false;
  auto call = dyn_cast<func::CallOp>(op);
  auto kernel = call && !contractionOf.contains(op)
                    ? symbols.lookup<func::FuncOp>(call.getCallee())
                    : func::FuncOp();
  bool found = false;
  for (OpResult result : op->getResults()) {
    if (kernel && !kernel.isExternal() &&
        llvm::none_of(findReadBy(kernel, result.getResultNumber()),
                      [&](unsigned argument) {
                        return differs(call.getOperand(argument));
                      }))
      continue;
    local.insert(result);
    found = true;
  }
  return found;
}

/// Lets the owner alone run `op` if only ops of the owner read the results.
void OwnerAnalysis::runForOwner(Operation *op) {
  if (of(op) || isa<AllReduceOp, ConstantOp>(op) || op->use_empty() ||
      llvm::any_of(op->getResults(),
                   [&](Value result) { return local.contains(result); }))
    return;
  Owner owner;
  for (Operation *user : op->getUsers()) {
    Owner next = user->getBlock() == op->getBlock() ? of(user) : Owner();
    if (!next || (owner && next != owner))
      return;
    owner = next;
  }
  if (llvm::all_of(operandsOf(op), [&](Value operand) {
        Owner other = of(operand);
        return !other || other == owner;
      }))
    set(op, owner);
}

//===----------------------------------------------------------------------===//
// Sharded variables
//===----------------------------------------------------------------------===//

/// Returns the owner that alone needs the value `result`, the new value of a
/// variable. Null if there is none: the variable's memory is then on all ranks.
static Owner findSoleOwner(OpOperand &result, const OwnerAnalysis &analysis) {
  if (isa<BlockArgument>(result.get()))
    return {};
  Owner owner = analysis.of(result.get());
  for (OpOperand &use : result.get().getUses())
    if (&use != &result &&
        (use.getOwner() == result.getOwner() ||
         analysis.of(analysis.unitOf(use.getOwner())) != owner))
      return {};
  return owner;
}

/// Adds the owner of each variable that only ops of that owner use and update
/// to `owned`, and all other variables of the function to `shared`.
static void findUses(func::FuncOp function, const OwnerAnalysis &analysis,
                     Owners &owned, DenseSet<Attribute> &shared) {
  Operation *terminator = function.getBody().front().getTerminator();
  auto note = [&](FlatSymbolRefAttr variable, Owner owner) {
    if (!owner || owned.try_emplace(variable, owner).first->second != owner)
      shared.insert(variable);
  };
  for (BlockArgument argument : function.getArguments()) {
    FlatSymbolRefAttr state = getArgumentPort(argument).getState();
    if (!state)
      continue;
    for (Operation *user : argument.getUsers())
      note(state,
           user == terminator ? Owner() : analysis.of(analysis.unitOf(user)));
  }
  for (OpOperand &result : terminator->getOpOperands())
    if (FlatSymbolRefAttr updated =
            getResultPort(function, result.getOperandNumber()).getUpdated())
      note(updated, findSoleOwner(result, analysis));
}

/// True if a function may exchange values with owners: the function reduces
/// gradients, or all ranks call it together.
static bool exchanges(func::FuncOp function) {
  if (function.getName() == kDeriveFunction)
    return true;
  auto reductions = function.getOps<AllReduceOp>();
  return llvm::any_of(reductions, hasOwners);
}

/// Chooses the sharded variables.
void ShardUpdatesPass::chooseVariables(ArrayRef<func::FuncOp> functions) {
  Owners owned;
  DenseSet<Attribute> shared;
  for (func::FuncOp function : functions) {
    if (function.getName() == kDeriveFunction)
      continue;
    // Ranks evaluate at different times, so evaluations exchange nothing.
    if (exchanges(function)) {
      findUses(function, OwnerAnalysis(function, *symbols, Owners()), owned,
               shared);
      continue;
    }
    for (BlockArgument argument : function.getArguments())
      if (FlatSymbolRefAttr state = getArgumentPort(argument).getState();
          state && !argument.use_empty())
        shared.insert(state);
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (FlatSymbolRefAttr updated = getResultPort(function, i).getUpdated())
        shared.insert(updated);
  }
  for (auto &[variable, owner] : owned)
    if (std::optional<Role> role =
            roleOf(cast<FlatSymbolRefAttr>(variable), *symbols);
        !shared.contains(variable) && role && isUpdated(*role))
      sharded[variable] = owner;
  // @derive reads masters. A variable that all ranks need there is not sharded,
  // which may change the owners of ops, so look again.
  auto derive = llvm::find_if(functions, [](func::FuncOp function) {
    return function.getName() == kDeriveFunction;
  });
  if (derive == functions.end())
    return;
  for (bool isStable = false; !isStable;) {
    Owners uses;
    DenseSet<Attribute> needed;
    findUses(*derive, OwnerAnalysis(*derive, *symbols, sharded), uses, needed);
    isStable = true;
    for (auto [variable, owner] : llvm::make_early_inc_range(sharded))
      if (needed.contains(variable) || uses.lookup_or(variable, owner) != owner)
        isStable = !sharded.erase(variable);
  }
}

//===----------------------------------------------------------------------===//
// Exchanges
//===----------------------------------------------------------------------===//

/// Returns `value`, which only `owner` has, on all ranks.
static Value share(OpBuilder &builder, Value value, Owner owner) {
  return plan::ShareOp::create(builder, value.getLoc(), value, owner);
}

static int64_t countBytes(Value value) {
  return typeOf(value).getNumElements() *
         plan::getElementBytes(elementOf(value));
}

/// Shares the new values of variables that all ranks hold, in groups: while one
/// group travels, ops compute the next.
void ShardUpdatesPass::shareResults(func::FuncOp function,
                                    const OwnerAnalysis &analysis) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<OpOperand *> open, group;
  for (OpOperand &result : terminator->getOpOperands()) {
    FlatSymbolRefAttr updated =
        getResultPort(function, result.getOperandNumber()).getUpdated();
    Owner owner = analysis.of(result.get());
    if (owner && !(updated && sharded.lookup(updated) == owner))
      open.push_back(&result);
  }
  llvm::stable_sort(open, [](OpOperand *a, OpOperand *b) {
    Operation *first = a->get().getDefiningOp(),
              *second = b->get().getDefiningOp();
    return second &&
           (!first || (first != second && first->isBeforeInBlock(second)));
  });
  int64_t bytes = 0;
  OpBuilder builder(terminator);
  for (auto [index, result] : llvm::enumerate(open)) {
    bytes += countBytes(result->get());
    group.push_back(result);
    if (bytes < bucketBytes && index + 1 < open.size())
      continue;
    if (Operation *last = result->get().getDefiningOp())
      builder.setInsertionPointAfter(last);
    DenseMap<Value, Value> shared;
    for (OpOperand *each : group) {
      Value &value = shared[each->get()];
      if (!value) {
        value = share(builder, each->get(), analysis.of(each->get()));
        builder.setInsertionPointAfter(value.getDefiningOp());
      }
      each->set(value);
    }
    group.clear();
    bytes = 0;
  }
}

/// Marks the ops that only an owner runs, and shares the results that others
/// need.
void ShardUpdatesPass::shard(func::FuncOp function,
                             const OwnerAnalysis &analysis) {
  Block &block = function.getBody().front();
  DenseMap<Value, Value> shared;
  for (Operation &op : llvm::make_early_inc_range(block.without_terminator())) {
    if (Owner owner = analysis.of(&op)) {
      op.setAttr(plan::kOwnerAttr, owner);
      continue;
    }
    OpBuilder builder(&op);
    for (OpOperand &operand : op.getOpOperands()) {
      Owner owner = analysis.of(operand.get());
      if (!owner)
        continue;
      Value &value = shared[operand.get()];
      if (!value)
        value = share(builder, operand.get(), owner);
      operand.set(value);
    }
  }
  shareResults(function, analysis);
}

void ShardUpdatesPass::runOnOperation() {
  ModuleOp module = getOperation();
  symbols.emplace(module);
  sharded.clear();
  DenseSet<StringRef> bodies;
  bool isSharded = false;
  module.walk([&](Operation *op) {
    if (auto scan = dyn_cast<ScanCallOp>(op))
      bodies.insert(scan.getFunction());
    if (auto condition = dyn_cast<IfCallOp>(op)) {
      bodies.insert(condition.getThenFunction());
      bodies.insert(condition.getElseFunction());
    }
    if (auto reduction = dyn_cast<AllReduceOp>(op))
      isSharded |= hasOwners(reduction);
  });
  if (!isSharded)
    return;
  SmallVector<func::FuncOp> functions;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !getKernelKind(function) &&
        !bodies.contains(function.getName()))
      functions.push_back(function);
  chooseVariables(functions);
  for (auto &[variable, owner] : sharded)
    symbols->lookup(cast<FlatSymbolRefAttr>(variable).getValue())
        ->setAttr(plan::kOwnerAttr, owner);
  for (func::FuncOp function : functions)
    if (exchanges(function))
      shard(function,
            OwnerAnalysis(function, *symbols,
                          function.getName() == kDeriveFunction ? sharded
                                                                : Owners()));
}
