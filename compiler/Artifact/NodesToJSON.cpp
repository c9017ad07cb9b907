// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/NodesToJSON.h"

#include "compiler/Artifact/PlanToJSON.h"
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Interfaces/ContractionOpInterface.h"
#include "compiler/Interfaces/IndexedOpInterface.h"
#include "compiler/Interfaces/OptimizerOpInterface.h"
#include "compiler/Interfaces/RegionOpInterface.h"
#include "compiler/Interfaces/ScatterOpInterface.h"
#include "compiler/Kernels/ElementWork.h"
#include "compiler/Kernels/MachineRates.h"
#include "compiler/Kernels/PlanTime.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

#include <map>

using namespace mlir;
using namespace mpc;
namespace json = llvm::json;

NodePhases mpc::collectPhases(ModuleOp module) {
  NodePhases phases;
  module.walk([&](Operation *op) {
    // A cast has the name of its reader, but no phase.
    if (isa<amp::CastOp>(op))
      return;
    // A backward op may repeat a forward op under an equal name. The forward op
    // comes first.
    const Phase phase = getPhase(op);
    for (StringRef name : getNodeNames(op))
      phases.try_emplace(name, isForward(phase) ? Phase::Forward : phase);
  });
  return phases;
}

namespace {
/// The names of the nodes that an op comes from.
using Names = SmallVector<StringRef, 1>;

/// The work of a step, and its predicted nanoseconds by the nodes of its ops.
struct StepWork {
  void add(const Names &names, double time) { times[names] += time; }
  void add(const StepWork &other, double count) {
    bytes += other.bytes * count;
    flops += other.flops * count;
    if (!type)
      type = other.type;
    for (const auto &[names, time] : other.times)
      add(names, time * count);
  }

  double bytes = 0, flops = 0;
  /// The type of a contraction's operands, or f64; null for f32.
  Type type;
  std::map<Names, double> times;
};

/// Counts the work of the steps of one program.
class WorkCounter {
public:
  explicit WorkCounter(plan::ProgramOp program)
      : symbols(program->getParentOfType<ModuleOp>()),
        target(getTarget(program)), rates(getMachineRates(target)) {}

  StepWork count(Operation *step);

private:
  StepWork countAll(Block &steps);
  void addKernel(Operation *step, StringRef name, StepWork &work,
                 bool hasTile = false);
  StepWork count(plan::MatMulOp matmul);
  StepWork count(plan::ConvOp conv);
  StepWork count(plan::AttentionOp attention);
  StepWork count(plan::CopyOp copy);

  double getBytesTime(double bytes) const { return bytes / rates.cachedBytes; }

  SymbolTable symbols;
  const TargetInfo target;
  const MachineRates &rates;
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static double countBytes(Type type) {
  auto shaped = cast<ShapedType>(type);
  return static_cast<double>(shaped.getNumElements() *
                             plan::getElementBytes(shaped.getElementType()));
}

static double countElements(Value value) {
  return static_cast<double>(
      cast<ShapedType>(value.getType()).getNumElements());
}

// Counts the arithmetic of `op`. countElementOperations weighs windows, reads
// at computed indices and movement by their time, so count each element of
// these ops once, or not at all.
static double countArithmetic(Operation *op) {
  const double operations = countElementOperations(op);
  if (operations == 0 || getElementWork(op) || isa<OptimizerOpInterface>(op))
    return operations;
  if (hasRole(op, RegionRole::Movement))
    return 0;
  double most = 0;
  for (Value operand : op->getOperands())
    if (isa<ShapedType>(operand.getType()))
      most = std::max(most, countElements(operand));
  for (Value result : op->getResults())
    if (isa<ShapedType>(result.getType()))
      most = std::max(most, countElements(result));
  return most;
}

// Returns the bytes of `argument` that a kernel loads. From a table, a gather
// loads as many elements as the result has. A scatter loads as many elements as
// the updates have.
static double countLoadedBytes(BlockArgument argument) {
  const double all = countBytes(argument.getType());
  const double elementBytes = static_cast<double>(
      plan::getElementBytes(getElementTypeOrSelf(argument.getType())));
  double loaded = 0;
  for (OpOperand &use : argument.getUses()) {
    Operation *user = use.getOwner();
    if (auto scatter = dyn_cast<ScatterOpInterface>(user);
        scatter && &scatter.getDataOperand() == &use)
      loaded += countElements(scatter.getUpdatesOperand().get()) * elementBytes;
    else if (isTable(use))
      loaded += countElements(user->getResult(0)) * elementBytes;
    else
      return all;
  }
  return std::min(all, loaded);
}

// Returns the bytes of `result` that a kernel stores. A scatter into a state
// variable or another buffer of the caller changes the buffer in place.
static double countStoredBytes(Value result) {
  const double all = countBytes(result.getType());
  auto scatter = result.getDefiningOp<ScatterOpInterface>();
  if (!scatter || !isa<BlockArgument>(scatter.getDataOperand().get()))
    return all;
  const Value updates = scatter.getUpdatesOperand().get();
  const double elementBytes = static_cast<double>(
      plan::getElementBytes(getElementTypeOrSelf(result.getType())));
  return std::min(all, countElements(updates) * elementBytes);
}

// Adds the work of the kernel `name`, which `step` calls. If `hasTile`, the
// first argument is a tile of a contraction, which is not in memory.
void WorkCounter::addKernel(Operation *step, StringRef name, StepWork &work,
                            bool hasTile) {
  auto kernel = symbols.lookup<func::FuncOp>(name);
  const Names called = getNodeNames(step);
  // Steps with equal kernels share the kernel of the first. Its names then
  // stand for the names of the step in the same order.
  const Names own = getNodeNames(kernel);
  auto namesOf = [&](Operation *op) {
    Names names = getNodeNames(op);
    for (StringRef &node : names) {
      const auto *found = llvm::find(own, node);
      const size_t index = static_cast<size_t>(found - own.begin());
      if (found != own.end() && own.size() == called.size())
        node = called[index];
      else if (!llvm::is_contained(called, node))
        return called.empty() ? Names() : Names{called.front()};
    }
    return names;
  };
  if (kernel.isDeclaration())
    return;
  kernel.walk([&](Operation *op) {
    if (auto hero = dyn_cast<ContractionOpInterface>(op)) {
      const ContractionSpace space = hero.getContractionSpace();
      const ProductSize size{space.rows, space.columns, space.depth};
      work.type = getElementTypeOrSelf(op->getOperand(0).getType());
      work.flops += 2.0 * static_cast<double>(size.m) *
                    static_cast<double>(size.n) * static_cast<double>(size.k);
      work.add(namesOf(op), getProductTime(size, work.type, target));
    } else if (const double operations = countElementOperations(op)) {
      work.flops += countArithmetic(op);
      work.add(namesOf(op), operations / rates.elements);
    }
  });
  // The bytes of an argument count for its first user, the bytes of a result
  // for the defining op.
  Block &body = kernel.front();
  for (BlockArgument argument : body.getArguments().drop_front(hasTile)) {
    const double bytes = countLoadedBytes(argument);
    work.bytes += bytes;
    Operation *user = nullptr;
    for (Operation *next : argument.getUsers())
      if (Operation *top = body.findAncestorOpInBlock(*next);
          top && (!user || top->isBeforeInBlock(user)))
        user = top;
    if (user && !user->hasTrait<OpTrait::IsTerminator>())
      work.add(namesOf(user), getBytesTime(bytes));
  }
  for (Value result : body.getTerminator()->getOperands()) {
    if (!work.type && getElementTypeOrSelf(result.getType()).isF64())
      work.type = getElementTypeOrSelf(result.getType());
    const double bytes = countStoredBytes(result);
    work.bytes += bytes;
    if (Operation *op = result.getDefiningOp())
      work.add(namesOf(op), getBytesTime(bytes));
  }
}

//===----------------------------------------------------------------------===//
// Contractions of libraries
//===----------------------------------------------------------------------===//

static double multiply(ArrayRef<int64_t> extents) {
  double product = 1;
  for (int64_t extent : extents)
    product *= static_cast<double>(extent);
  return product;
}

StepWork WorkCounter::count(plan::MatMulOp matmul) {
  const runtime::ProductShape &shape = matmul.getShape();
  const runtime::BatchAxes &axes = matmul.getAxes();
  const double count =
      multiply(axes.outer.extents) * static_cast<double>(axes.batch);
  const Names names = getNodeNames(matmul);
  StepWork work;
  work.type = getElementTypeOrSelf(matmul.getA().getType());
  // All products of a batch read the same matrix if the strides are 0.
  auto addOperand = [&](Value operand, int64_t rows, int64_t columns,
                        int64_t stride, ArrayRef<int64_t> strides) {
    if (!operand)
      return;
    const bool isShared =
        stride == 0 && llvm::all_of(strides, [](int64_t s) { return s == 0; });
    work.bytes += static_cast<double>(rows) * static_cast<double>(columns) *
                  static_cast<double>(plan::getElementBytes(
                      getElementTypeOrSelf(operand.getType()))) *
                  (isShared ? 1 : count);
  };
  addOperand(matmul.getA(), shape.m, shape.k, axes.strideA, axes.outer.a);
  addOperand(matmul.getB(), shape.k, shape.n, axes.strideB, axes.outer.b);
  addOperand(matmul.getC(), shape.m, shape.n, axes.strideC, axes.outer.c);
  work.flops = 2.0 * count * static_cast<double>(shape.m) *
               static_cast<double>(shape.n) * static_cast<double>(shape.k);
  work.add(names.empty() ? names : Names{names.front()},
           rates.product + getBytesTime(work.bytes) +
               count * getProductTime({shape.m, shape.n, shape.k}, work.type,
                                      target));
  if (matmul.getEpilogue())
    addKernel(matmul, *matmul.getEpilogue(), work, /*hasTile=*/true);
  return work;
}

StepWork WorkCounter::count(plan::ConvOp conv) {
  const Names names = getNodeNames(conv);
  StepWork work;
  work.type =
      getElementTypeOrSelf((conv.getX() ? conv.getX() : conv.getY()).getType());
  for (Value operand : {conv.getX(), conv.getW(), conv.getY()})
    if (operand)
      work.bytes += countBytes(operand.getType());
  const auto groups = static_cast<int64_t>(conv.getGroups());
  const auto in = static_cast<int64_t>(conv.getInChannels());
  const auto out = static_cast<int64_t>(conv.getOutChannels());
  const double windows = static_cast<double>(conv.getBatch()) *
                         multiply(conv.getOutSpatial()) *
                         multiply(conv.getKernel());
  work.flops = 2.0 * windows * static_cast<double>(in / groups) *
               static_cast<double>(out);
  work.add(names.empty() ? names : Names{names.front()},
           rates.convolution + getBytesTime(work.bytes) +
               getConvolutionTime(
                   {in / groups, out / groups, groups, windows, conv.getKind()},
                   work.type, target));
  if (conv.getEpilogue())
    addKernel(conv, *conv.getEpilogue(), work, /*hasTile=*/true);
  return work;
}

StepWork WorkCounter::count(plan::AttentionOp attention) {
  StepWork work;
  work.type = getElementTypeOrSelf(attention.getQuery().getType());
  work.bytes = attention.countBytes();
  work.flops = attention.countOperations();
  work.add(getNodeNames(attention),
           rates.product + getBytesTime(work.bytes) +
               target.getTensorCoreTime(work.flops, /*aligned=*/true));
  return work;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

StepWork WorkCounter::count(plan::CopyOp copy) {
  StepWork work;
  // A copy of rows moves no more than the smaller buffer.
  work.bytes = 2 * std::min(countBytes(copy.getSource().getType()),
                            countBytes(copy.getDestination().getType()));
  work.add(getNodeNames(copy), getBytesTime(work.bytes));
  return work;
}

StepWork WorkCounter::countAll(Block &steps) {
  StepWork work;
  for (Operation &op : steps)
    if (isa<plan::StepOpInterface>(op))
      work.add(count(&op), 1);
  return work;
}

StepWork WorkCounter::count(Operation *step) {
  return llvm::TypeSwitch<Operation *, StepWork>(step)
      .Case([&](plan::LaunchOp launch) {
        StepWork work;
        addKernel(launch, launch.getKernel(), work);
        return work;
      })
      .Case<plan::MatMulOp, plan::ConvOp, plan::AttentionOp, plan::CopyOp>(
          [&](auto op) { return count(op); })
      .Case([&](plan::ForOp loop) {
        StepWork work;
        work.add(countAll(loop.getBody().front()),
                 static_cast<double>(loop.getCount()));
        return work;
      })
      .Case([&](plan::IfOp conditional) {
        return countAll(conditional.getThen().front());
      })
      .Default([&](Operation *op) {
        StepWork work;
        for (Value buffer : op->getOperands())
          work.bytes += countBytes(buffer.getType());
        work.add(getNodeNames(op), getBytesTime(work.bytes));
        return work;
      });
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

// Returns the phase of a node. Later stages add nodes without a recorded phase,
// such as casts of weights. Suffixes of names tell the phase: conv1#dx is
// backward, conv1.weight#update belongs to the optimizer.
static Phase findPhase(StringRef name, const NodePhases &phases) {
  if (auto found = phases.find(name); found != phases.end())
    return found->second;
  if (name.ends_with("#update"))
    return Phase::Optimizer;
  return name.contains('#') ? Phase::Backward : Phase::Forward;
}

static json::Object toJSON(const StepWork &work, Operation *step,
                           const NodePhases &phases) {
  double total = 0;
  for (const auto &[names, time] : work.times)
    total += time;
  json::Array nodes;
  for (const auto &[names, time] : work.times) {
    json::Array texts;
    for (StringRef name : names)
      texts.push_back(json::fixUTF8(name));
    // Steps without a node, such as those of loss scaling, are named by kind.
    if (texts.empty())
      texts.push_back(step->getName().stripDialect());
    const Phase phase =
        names.empty() ? Phase::Forward : findPhase(names.front(), phases);
    const double share =
        total > 0 ? time / total : 1 / static_cast<double>(work.times.size());
    nodes.push_back(json::Object{{"names", std::move(texts)},
                                 {"phase", stringifyPhase(phase)},
                                 {"share", share}});
  }
  if (nodes.empty()) {
    const StringRef name = getNodeName(step);
    nodes.push_back(json::Object{
        {"names",
         json::Array{name.empty() ? step->getName().stripDialect().str()
                                  : json::fixUTF8(name)}},
        {"phase", stringifyPhase(findPhase(name, phases))},
        {"share", 1}});
  }
  const std::optional<DType> type = work.type ? toDType(work.type) : DType::F32;
  return json::Object{{"bytes", static_cast<int64_t>(work.bytes)},
                      {"flops", static_cast<int64_t>(work.flops)},
                      {"type", StringRef(stringify(type.value_or(DType::F32)))},
                      {"nodes", std::move(nodes)}};
}

json::Object mpc::nodesToJSON(ModuleOp module, const NodePhases &phases) {
  json::Object functions;
  for (auto program : module.getOps<plan::ProgramOp>()) {
    WorkCounter counter(program);
    json::Array steps;
    for (Operation &op : program.getBody().front())
      if (isa<plan::StepOpInterface>(op))
        steps.push_back(toJSON(counter.count(&op), &op, phases));
    functions[program.getSymName()] = std::move(steps);
  }
  return json::Object{{"functions", std::move(functions)}};
}
