// Proves that kernels round no value that the Precision stage keeps wide, as
// the pass description lists. Compares with the limits that
// mpc-limit-kernel-types has written into locations, and reports all
// violations.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/TypeLimits.h"
#include "passes/Fusion/ValueSources.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"

namespace mpc {
#define GEN_PASS_DEF_VERIFYKERNELTYPESPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct VerifyKernelTypesPass
    : mpc::impl::VerifyKernelTypesPassBase<VerifyKernelTypesPass> {
  void runOnOperation() override;

private:
  InFlightDiagnostic report(Operation *op, StringRef rule);

  void addMultiplied(Operation *product);
  bool isFactor(OpResult result, TypeLimits limits);
  void verifyVariable(VariableOp variable);
  void verifyResults(Operation *op, TypeLimits limits);
  void verifySums(Operation *op);
  void verifyOperand(OpOperand &operand, TypeLimits limits);
  void verifyRoot(OpOperand &operand, Value root, TypeLimits limits);
  void verifyOp(Operation *op);
  void verifyCarried(ScanCallOp scan);
  void verifyReturned(FunctionOpInterface function);
  bool isCopy(FlatSymbolRefAttr variable) const {
    return variable && copies.contains(variable);
  }

  std::shared_ptr<ValueSources> sources;
  /// References to the variables that hold low copies of parameters.
  llvm::DenseSet<Attribute> copies;
  /// The results of ops that contractions multiply; nullopt until the first
  /// attention asks.
  std::optional<llvm::DenseSet<Value>> multiplied;
  bool violated = false;
};
} // namespace

InFlightDiagnostic VerifyKernelTypesPass::report(Operation *op,
                                                 StringRef rule) {
  violated = true;
  InFlightDiagnostic diagnostic = op->emitOpError();
  if (StringRef name = getNodeName(op); !name.empty())
    diagnostic << "of node '" << name << "': ";
  diagnostic << "rule " << rule << ": ";
  return diagnostic;
}

// Returns the limits of `op`; empty if `op` is null.
static TypeLimits getLimits(Operation *op) {
  return op ? TypeLimits::of(op->getLoc()) : TypeLimits();
}

// True if a cast of the Precision stage has rounded `value`.
static bool isRoundedByCast(Value value) {
  return getLimits(value.getDefiningOp<amp::CastOp>()).has(TypeLimits::kRounds);
}

// True if `op` is a product, or attention of a library, which multiplies
// inside.
static bool multiplies(Operation *op) {
  return hasRole(op, RegionRole::Contraction) ||
         hasRole(op, RegionRole::Library);
}

// True if a kernel stores `value`. All other values are in registers.
static bool isStored(Value value) {
  return llvm::any_of(value.getUsers(), [](Operation *user) {
    return user->hasTrait<OpTrait::IsTerminator>();
  });
}

//===----------------------------------------------------------------------===//
// Values that kernels compute
//===----------------------------------------------------------------------===//

// Adds the factors of `product`, a contraction or attention of a library, to
// `multiplied`. In an attention, a dropout or a select may lie between the op
// that rounds and the product.
void VerifyKernelTypesPass::addMultiplied(Operation *product) {
  SmallVector<Value> factors(
      llvm::make_filter_range(product->getOperands(), getNarrowType));
  while (!factors.empty())
    for (Value root : sources->listRoots(factors.pop_back_val())) {
      const bool isNew = multiplied->insert(root).second;
      if (isNew && isa_and_present<SelectOp, DropoutOp>(root.getDefiningOp()))
        llvm::copy_if(root.getDefiningOp()->getOperands(),
                      std::back_inserter(factors), getNarrowType);
    }
}

// True if `result` is a factor of a product inside an attention, in the type
// that the attention multiplies.
bool VerifyKernelTypesPass::isFactor(OpResult result, TypeLimits limits) {
  if (hasRole(result.getOwner(), RegionRole::Contraction) ||
      !limits.contains(TypeLimits::kFactors, getNarrowType(result)))
    return false;
  if (!multiplied) {
    multiplied.emplace();
    getOperation().walk([&](Operation *op) {
      if (multiplies(op))
        addMultiplied(op);
    });
  }
  return multiplied->contains(result);
}

void VerifyKernelTypesPass::verifyResults(Operation *op, TypeLimits limits) {
  for (OpResult result : op->getResults()) {
    FloatType type = getNarrowType(result);
    if (!type)
      continue;
    if ((limits.contains(TypeLimits::kStores, type) &&
         limits.allowsElements(typeOf(result).getNumElements())) ||
        isFactor(result, limits))
      continue;
    InFlightDiagnostic diagnostic = report(op, "stored-type");
    diagnostic << (isStored(result) ? "stores" : "rounds, in a register,")
               << " result " << result.getResultNumber() << " as " << type
               << ", but the Precision stage keeps the value in fp32";
    if (!limits.getReason().empty())
      diagnostic << " (" << limits.getReason() << ")";
  }
}

// A scatter adds in memory, so each sum is rounded once per summand.
void VerifyKernelTypesPass::verifySums(Operation *op) {
  auto scatter = dyn_cast<ScatterOpInterface>(op);
  if (!scatter || !scatter.accumulates())
    return;
  if (FloatType type = getNarrowType(op->getResult(0)))
    report(op, "wide-sum") << "expected sums in fp32 at least, found " << type;
}

// Verifies that `operand` may be 16 bits wide, where `root` is a value whose
// elements the operand has.
void VerifyKernelTypesPass::verifyRoot(OpOperand &operand, Value root,
                                       TypeLimits limits) {
  Operation *op = operand.getOwner();
  const unsigned index = operand.getOperandNumber();
  FloatType type = getNarrowType(operand.get());
  if (!limits.contains(TypeLimits::kLoads, type))
    report(op, "wide-reader")
        << "reads operand " << index << " in " << type
        << ", but the Precision stage lets the op read no value of this type";
  const bool isMultiplied =
      multiplies(op) ||
      (isa<SelectOp>(op) && isFactor(op->getOpResult(0), limits));
  if (isRoundedByCast(root) && !isMultiplied &&
      !limits.has(TypeLimits::kLoadsRounded))
    report(op, "rounding-cast")
        << "reads operand " << index
        << " through a cast that rounds, but does not multiply it";
  FlatSymbolRefAttr state = getArgumentPort(root).getState();
  if (isCopy(state) && !limits.contains(TypeLimits::kCopies, state))
    report(op, "low-copy")
        << "reads operand " << index << " from " << state
        << ", a low copy that the Precision stage does not let the op read";
}

void VerifyKernelTypesPass::verifyOperand(OpOperand &operand,
                                          TypeLimits limits) {
  Operation *op = operand.getOwner();
  if (isa<OptimizerOpInterface>(op)) {
    report(op, "wide-reader")
        << "expected fp32 at least, found operand "
        << operand.getOperandNumber() << " in " << operand.get().getType();
    return;
  }
  // A loop may bring back what an op has stored in the previous iteration, so
  // only values of one iteration are inside of what replaces an op.
  llvm::SmallPtrSet<void *, 2> inside;
  for (Value root :
       sources->listRoots(operand.get(), ValueSources::Edges::Kernels)) {
    Operation *maker = root.getDefiningOp();
    if (!maker || !computes(maker) || !limits.isOfSameOp(getLimits(maker)))
      continue;
    inside.insert(root.getAsOpaquePointer());
    // A select of a library's output rounds nothing again.
    if (isa<SelectOp>(op) && hasRole(maker, RegionRole::Library))
      continue;
    if (!isFactor(cast<OpResult>(root), limits))
      report(op, "single-rounding")
          << "reads operand " << operand.getOperandNumber() << " in "
          << getNarrowType(operand.get())
          << " from another op of its node, which must pass on fp32";
  }
  for (Value root : sources->listRoots(operand.get()))
    if (!inside.contains(root.getAsOpaquePointer()))
      verifyRoot(operand, root, limits);
}

void VerifyKernelTypesPass::verifyOp(Operation *op) {
  if (llvm::none_of(op->getOperands(), getNarrowType) &&
      llvm::none_of(op->getResults(), getNarrowType))
    return;
  TypeLimits limits = getLimits(op);
  if (!limits) {
    report(op, "known-op") << "expected a location with limits of types, since "
                              "the op has 16-bit values";
    return;
  }
  verifyResults(op, limits);
  verifySums(op);
  for (OpOperand &operand : op->getOpOperands())
    if (getNarrowType(operand.get()))
      verifyOperand(operand, limits);
}

//===----------------------------------------------------------------------===//
// Variables, loops and functions
//===----------------------------------------------------------------------===//

void VerifyKernelTypesPass::verifyVariable(VariableOp variable) {
  FloatType type = toNarrowType(variable.getTensorType());
  if (type && !getLimits(variable).contains(TypeLimits::kStores, type))
    report(variable, "stored-type")
        << "holds " << type << ", which the Precision stage has not decided";
}

// Verifies that a loop which adds up products carries the sums in fp32.
void VerifyKernelTypesPass::verifyCarried(ScanCallOp scan) {
  TypeLimits limits = getLimits(scan);
  for (auto [index, value] : llvm::enumerate(scan.getCarried()))
    if (FloatType type = getNarrowType(value);
        type && !limits.contains(TypeLimits::kCarries, type))
      report(scan, "wide-sum") << "carries value " << index << " in " << type
                               << ", which the Precision stage has not decided";
}

// Verifies that only low copies leave a function as rounded values.
void VerifyKernelTypesPass::verifyReturned(FunctionOpInterface function) {
  Operation *terminator = getReturn(function);
  for (OpOperand &result : terminator->getOpOperands()) {
    const unsigned index = result.getOperandNumber();
    if (!getNarrowType(result.get()) ||
        isCopy(getResultPort(function, index).getUpdated()))
      continue;
    for (Value root : sources->listRoots(result.get()))
      if (isRoundedByCast(root))
        report(terminator, "rounding-cast")
            << "returns a value that a cast has rounded to "
            << getNarrowType(result.get()) << " as result " << index;
  }
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

// Removes the limits, which later stages do not need.
static void removeLimits(ModuleOp module) {
  LimitRemover remover;
  module.walk([&](Operation *op) {
    op->setLoc(remover.remove(op->getLoc()));
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        argument.setLoc(remover.remove(argument.getLoc()));
  });
}

void VerifyKernelTypesPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (!isMixed(module))
    return markAllAnalysesPreserved();
  violated = false;
  sources = std::make_shared<ValueSources>(module);
  copies.clear();
  for (auto variable : module.getOps<VariableOp>()) {
    if (variable.getRole() == Role::Derived)
      copies.insert(FlatSymbolRefAttr::get(variable.getSymNameAttr()));
    verifyVariable(variable);
  }
  multiplied.reset();
  for (auto function : module.getOps<FunctionOpInterface>()) {
    function->walk([&](Operation *op) {
      if (auto scan = dyn_cast<ScanCallOp>(op))
        verifyCarried(scan);
      else if (computes(op))
        verifyOp(op);
    });
    // A private function was the body of a loop or branch.
    if (!function.isPrivate())
      verifyReturned(function);
  }
  if (violated)
    return signalPassFailure();
  removeLimits(module);
}
