// Writes the 16-bit types that the Precision stage has decided for each op into
// the op's location, where rewrites keep them (TypeLimits.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/TypeLimits.h"
#include "passes/Fusion/ValueSources.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"

#include "llvm/ADT/SetVector.h"

namespace mpc {
#define GEN_PASS_DEF_LIMITKERNELTYPESPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Collects the limits of the ops of a module.
class Limiter {
public:
  explicit Limiter(ModuleOp module);

  /// Collects the limits of `op` from types, and from the values that the op
  /// reads.
  TypeLimits limit(Operation *op);

private:
  void addTypes(Operation *op);
  void addSources(Operation *op);
  void addCopies(Operation *op);
  void set(StringRef key, Attribute value) {
    entries.emplace_back(builder.getStringAttr(key), value);
  }
  void setTypes(StringRef key, ArrayRef<Type> types) {
    if (!types.empty())
      set(key, builder.getTypeArrayAttr(types));
  }

  Builder builder;
  ValueSources sources;
  /// References to the variables that hold low copies of parameters.
  llvm::DenseSet<Attribute> copies;
  int64_t numOps = 0;
  SmallVector<NamedAttribute> entries;
};

struct LimitKernelTypesPass
    : mpc::impl::LimitKernelTypesPassBase<LimitKernelTypesPass> {
  using LimitKernelTypesPassBase::LimitKernelTypesPassBase;
  void runOnOperation() override;
};
} // namespace

Limiter::Limiter(ModuleOp module)
    : builder(module.getContext()), sources(module) {
  for (auto variable : module.getOps<VariableOp>())
    if (variable.getRole() == Role::Derived)
      copies.insert(FlatSymbolRefAttr::get(variable.getSymNameAttr()));
}

// Returns the different 16-bit types of `values`, in the order of the values.
static SmallVector<Type> listNarrowTypes(ValueRange values) {
  llvm::SmallSetVector<Type, 2> types;
  for (Value value : values)
    if (Type type = getNarrowType(value))
      types.insert(type);
  return types.takeVector();
}

// True if an op multiplies its first operands in ops of its own, which Fusion
// makes: an attention, for example.
static bool hasProductsInside(Operation *op) {
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  return precise && precise.getNumContractedOperands() > 0 &&
         !hasRole(op, RegionRole::Contraction);
}

// True if `op` is a cast to a narrower type.
static bool isRoundingCast(Operation *op) {
  auto cast = dyn_cast_or_null<amp::CastOp>(op);
  return cast && typeOf(cast.getOutput()).getElementTypeBitWidth() <
                     typeOf(cast.getInput()).getElementTypeBitWidth();
}

void Limiter::addTypes(Operation *op) {
  SmallVector<Value> loaded(op->getOperands());
  // On a target that computes both branches, a select reads their results.
  if (isa<BodyOpInterface>(op))
    llvm::append_range(loaded, op->getResults());
  setTypes(TypeLimits::kLoads, listNarrowTypes(loaded));
  setTypes(TypeLimits::kStores, listNarrowTypes(op->getResults()));
  if (auto variable = dyn_cast<VariableOp>(op))
    if (Type type = toNarrowType(variable.getTensorType()))
      setTypes(TypeLimits::kStores, type);
  if (auto scan = dyn_cast<ScanOp>(op))
    setTypes(TypeLimits::kCarries, listNarrowTypes(scan.getCarried()));
  if (hasProductsInside(op))
    setTypes(TypeLimits::kFactors,
             listNarrowTypes(op->getOperands().take_front(
                 cast<PrecisionOpInterface>(op).getNumContractedOperands())));
  if (isRoundingCast(op))
    set(TypeLimits::kRounds, builder.getUnitAttr());
  // Statistics of a normalization are wide although the normalized value may
  // be low, so tell both apart by their sizes.
  SmallVector<int64_t> narrow;
  bool hasWide = false;
  for (Value result : op->getResults())
    if (getNarrowType(result))
      narrow.push_back(typeOf(result).getNumElements());
    else
      hasWide |= isa<FloatType>(elementOf(result));
  if (hasWide && !narrow.empty())
    set(TypeLimits::kElements, builder.getDenseI64ArrayAttr(narrow));
}

// True if `op` scales a tensor by a constant, which may become a factor of the
// product that reads the result.
static bool isScaling(Operation *op) {
  return isa_and_present<MulOp, DivOp>(op) &&
         llvm::any_of(op->getOperands(), [](Value operand) {
           return operand.getDefiningOp<ConstantOp>();
         });
}

void Limiter::addSources(Operation *op) {
  llvm::SmallSetVector<Value, 4> roots;
  llvm::SmallSetVector<Attribute, 2> read;
  // Contracted operands may be rounded in any case.
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  const unsigned numFactors = precise ? precise.getNumContractedOperands() : 0;
  bool readsRounded = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (!getNarrowType(operand.get()))
      continue;
    const SmallVector<Value, 2> found = sources.listRoots(operand.get());
    roots.insert_range(found);
    if (operand.getOperandNumber() >= numFactors)
      readsRounded |= llvm::any_of(found, [](Value root) {
        return isRoundingCast(root.getDefiningOp());
      });
  }
  for (unsigned i = 0; i < roots.size(); ++i) {
    Operation *producer = roots[i].getDefiningOp();
    if (Attribute state = getArgumentPort(roots[i]).getState();
        copies.contains(state))
      read.insert(state);
    if (hasRole(op, RegionRole::Contraction) && isScaling(producer))
      for (Value operand : producer->getOperands())
        roots.insert_range(sources.listRoots(operand));
  }
  // A cast widens a rounded value if a flag makes a movement between them low.
  if (readsRounded && (precise || isa<amp::CastOp>(op)))
    set(TypeLimits::kLoadsRounded, builder.getUnitAttr());
  if (!read.empty())
    set(TypeLimits::kCopies, builder.getArrayAttr(read.getArrayRef()));
}

TypeLimits Limiter::limit(Operation *op) {
  entries.clear();
  addTypes(op);
  if (!entries.empty()) {
    addSources(op);
    set(TypeLimits::kOp, builder.getI64IntegerAttr(numOps++));
  }
  auto decision = amp::DecisionAttr::of(op);
  if (decision && llvm::any_of(op->getResults(), [](Value result) {
        return isa<FloatType>(elementOf(result)) && !getNarrowType(result);
      }))
    set(TypeLimits::kReason,
        builder.getStringAttr(amp::stringifyReason(decision.getReason())));
  return TypeLimits(builder.getDictionaryAttr(entries));
}

void LimitKernelTypesPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (!isMixed(module))
    return markAllAnalysesPreserved();
  // Collect all limits before any location changes.
  Limiter limiter(module);
  SmallVector<std::pair<Operation *, TypeLimits>> limited;
  module.walk([&](Operation *op) {
    if (!isa<ModuleOp, FunctionOpInterface>(op) &&
        !op->hasTrait<OpTrait::ConstantLike>() &&
        !op->hasTrait<OpTrait::IsTerminator>())
      limited.emplace_back(op, limiter.limit(op));
  });
  for (auto [op, limits] : limited) {
    if (report)
      op->emitRemark("limits of types: ") << limits.getAttributes();
    op->setLoc(limits.addTo(op->getLoc()));
  }
}
