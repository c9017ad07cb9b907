// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/KernelCasts.h"
#include "compiler/Precision/DecisionReport.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/NodeNames.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpc;

CastCounts &CastCounts::operator+=(const CastCounts &other) {
  weights += other.weights;
  activations += other.activations;
  free += other.free;
  kernels += other.kernels;
  attentions += other.attentions;
  bytes += other.bytes;
  for (auto [type, size] : other.stored)
    stored[type] += size;
  return *this;
}

std::string mpc::describeCasts(const CastCounts &counts) {
  SmallVector<std::string> kinds;
  auto add = [&](int64_t count, StringRef kind) {
    if (count != 0)
      kinds.push_back((Twine(count) + kind).str());
  };
  add(counts.weights, " of weights");
  add(counts.activations, " of activations");
  add(counts.free, " free");
  const int64_t casts = counts.getCasts();
  std::string text = (Twine(casts) + (casts == 1 ? " cast" : " casts")).str();
  if (!kinds.empty())
    text += " (" + llvm::join(kinds, ", ") + ")";
  if (counts.kernels != 0)
    text +=
        (", " + Twine(counts.kernels) +
         (counts.kernels == 1 ? " kernel only casts" : " kernels only cast"))
            .str();
  return text;
}

std::string mpc::describeStored(const CastCounts &counts) {
  auto types = llvm::to_vector(counts.stored);
  llvm::stable_sort(types, [](const auto &a, const auto &b) {
    return a.first.getIntOrFloatBitWidth() > b.first.getIntOrFloatBitWidth();
  });
  SmallVector<std::string> texts;
  for (auto [type, size] : types)
    texts.push_back(
        llvm::formatv("{0} {1:N} bytes", toString(type), size).str());
  return texts.empty() ? "nothing" : llvm::join(texts, ", ");
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

// Returns the location of the first op in `ops` that is in `named`; null if
// there is none.
template <typename Range>
static LocationAttr findNamed(Range &&ops,
                              const llvm::DenseSet<Operation *> &named) {
  for (Operation *op : ops)
    if (op && named.contains(op))
      return op->getLoc();
  return {};
}

void mpc::nameOpsByIds(ModuleOp module) {
  const DecisionReport report(module);
  llvm::DenseSet<Operation *> named;
  for (const Decision &decision : report.getDecisions()) {
    decision.op->setLoc(namedLocation(module.getContext(), decision.id));
    named.insert(decision.op);
  }
  for (FunctionOpInterface function : getShownFunctions(module))
    // The walk visits the ops that compute an operand first, so chains of ops
    // without decisions get the name of the op at the head.
    function->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (named.contains(op) || op == function)
        return;
      auto operands = llvm::map_range(op->getOperands(), [](Value operand) {
        return operand.getDefiningOp();
      });
      LocationAttr producer = findNamed(operands, named);
      LocationAttr reader = findNamed(op->getUsers(), named);
      LocationAttr first = isa<amp::CastOp>(op) ? reader : producer;
      LocationAttr second = isa<amp::CastOp>(op) ? producer : reader;
      if (LocationAttr location = first ? first : second) {
        op->setLoc(location);
        named.insert(op);
      }
    });
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

KernelCasts::KernelCasts(ModuleOp module) : variables(module) {
  for (FunctionOpInterface function : getShownFunctions(module))
    // Bodies of loops and conditions are private. Their callers count them.
    if (!function.isPrivate())
      countFunction(function, /*times=*/1);
  for (const auto &[name, counts] : names)
    total += counts;
}

void KernelCasts::countFunction(FunctionOpInterface function, int64_t times) {
  auto countBody = [&](StringRef body, int64_t timesOfBody) {
    countFunction(cast<FunctionOpInterface>(variables.lookup(body)),
                  timesOfBody);
  };
  for (Operation &op : function.getFunctionBody().front()) {
    if (auto kernel = dyn_cast<RegionOp>(op)) {
      countStores(kernel, times);
      countCasts(kernel, times);
    } else if (hasRole(&op, RegionRole::Library)) {
      countLibrary(&op, times);
    } else if (auto scan = dyn_cast<ScanCallOp>(op)) {
      countBody(scan.getFunction(), times * int64_t(scan.getLength()));
    } else if (auto branch = dyn_cast<IfCallOp>(op)) {
      countBody(branch.getThenFunction(), times);
      countBody(branch.getElseFunction(), times);
    }
  }
}

static int64_t getNumBytes(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  return type.getNumElements() *
         int64_t(llvm::divideCeil(type.getElementTypeBitWidth(), 8));
}

// True if `value`, a result of a kernel, becomes the low copy of a parameter:
// derived state that the function updates.
bool KernelCasts::isLowCopy(Value value) const {
  return llvm::any_of(value.getUses(), [&](OpOperand &use) {
    if (auto reshape = dyn_cast<ReshapeOp>(use.getOwner()))
      return isLowCopy(reshape.getOutput());
    auto function =
        dyn_cast<FunctionOpInterface>(use.getOwner()->getParentOp());
    if (!function || !use.getOwner()->hasTrait<OpTrait::IsTerminator>())
      return false;
    VariableOp variable = variables.lookupVariable(
        getResultPort(function, use.getOperandNumber()).getUpdated());
    return variable && variable.getRole() == Role::Derived;
  });
}

// Returns the counts of the op in `kernel` that has the location `location`.
CastCounts &KernelCasts::getCounts(Location location, Operation *kernel) {
  SmallVector<StringRef> found = getNodeNames(location);
  if (found.empty())
    found = getNodeNames(kernel);
  return names[StringAttr::get(kernel->getContext(),
                               found.empty() ? "" : found.front())];
}

void KernelCasts::countLibrary(Operation *op, int64_t times) {
  CastCounts &counts = getCounts(op->getLoc(), op);
  ++counts.attentions;
  for (Value result : op->getResults())
    if (!result.use_empty())
      counts.stored[getElementTypeOrSelf(result)] +=
          times * getNumBytes(result);
}

void KernelCasts::countStores(RegionOp kernel, int64_t times) {
  Operation *yield = kernel.getBody().front().getTerminator();
  for (Value value : yield->getOperands())
    if (Type type = getElementTypeOrSelf(value); isa<FloatType>(type))
      getCounts(value.getLoc(), kernel).stored[type] +=
          times * getNumBytes(value);
}

void KernelCasts::countCasts(RegionOp kernel, int64_t times) {
  Block &body = kernel.getBody().front();
  llvm::DenseMap<Value, Value> stored;
  for (auto [value, result] : llvm::zip_equal(
           body.getTerminator()->getOperands(), kernel.getResults()))
    stored.try_emplace(value, result);
  bool onlyCasts = true;
  amp::CastOp first;
  llvm::DenseSet<Value> loaded;
  for (Operation &op : body.without_terminator()) {
    auto cast = dyn_cast<amp::CastOp>(op);
    onlyCasts &= cast || isa<ConstantOp>(op);
    if (!cast)
      continue;
    if (!first)
      first = cast;
    CastCounts &counts = getCounts(cast.getLoc(), kernel);
    Value input = cast.getInput();
    const bool isLoaded = isa<BlockArgument>(input);
    if (!stored.contains(cast) || !(isLoaded || stored.contains(input))) {
      ++counts.free;
      continue;
    }
    ++(isLowCopy(stored.lookup(cast)) ? counts.weights : counts.activations);
    counts.bytes += times * getNumBytes(cast);
    // The kernel would not load the input without its casts.
    if (isLoaded &&
        llvm::all_of(input.getUsers(), llvm::IsaPred<amp::CastOp>) &&
        loaded.insert(input).second)
      counts.bytes += times * getNumBytes(input);
  }
  if (first && onlyCasts)
    ++getCounts(first.getLoc(), kernel).kernels;
}
