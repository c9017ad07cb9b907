// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/GivenValues.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/AMP/ConstantAttrs.h"
#include "compiler/Dialect/MPC/Facts/InputSizes.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Interfaces/RangeOpInterface.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/ConstantElements.h"
#include "compiler/Precision/ModelTypes.h"
#include "compiler/Precision/ValueSource.h"

#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <algorithm>
#include <cmath>

using namespace mlir;
using namespace mpc;

/// Largest root mean square of a harmless summand. Adding such a summand costs
/// a low value of order 1 about one binary digit. Biases, normally distributed
/// embeddings, and sums of two of these stay below.
static constexpr double kSummand = 2.0;
/// Largest absolute element of a harmless summand.
static constexpr double kLargestSummand = 16.0;
/// A given factor between these bounds keeps products of order 1 well within
/// the range in which float16 has full precision.
static constexpr double kLeastFactor = 0x1p-10, kLargestFactor = 0x1p6;

static bool holdsFloats(Value value) {
  return isa<FloatType>(getElementTypeOrSelf(value.getType()));
}

// True if PyTorch computes `op` in the widest type of its operands.
static bool promotes(Operation *op) {
  return isa<AddOp, SubOp, MulOp, DivOp, PowOp, ModOp, MaximumOp, MinimumOp,
             SelectOp, ConcatOp>(op);
}

bool GivenValues::isBounded(Operation *op) {
  if (op->hasTrait<NormalizationTrait>())
    return true;
  if (op->getNumResults() != 1)
    return false;
  std::optional<Bounds> ends = getSaturation(op->getResult(0));
  return ends && std::isfinite(ends->low) && std::isfinite(ends->high);
}

GivenValues::GivenValues(ModuleOp module, FloatType low)
    : symbols(module), low(low) {
  SmallVector<Block *> bodies;
  for (auto function : module.getOps<FunctionOpInterface>())
    if (!function.isExternal())
      bodies.push_back(&function.getFunctionBody().front());
  for (Block *body : bodies) {
    for (BlockArgument argument : body->getArguments())
      if (holdsFloats(argument))
        given.insert(argument);
    findGiven(*body);
  }
  findNeeded();
  for (Block *body : bodies)
    measure(*body);
  for (Operation *op : candidates)
    meetings[op] = judge(op);
}

//===----------------------------------------------------------------------===//
// Given values, and the ops that combine given with computed values
//===----------------------------------------------------------------------===//

// Visits ops in order, so operands are classified before their users.
void GivenValues::findGiven(Block &block) {
  for (Operation &op : block) {
    if (auto list = dyn_cast<BodyOpInterface>(op)) {
      for (Region &body : op.getRegions()) {
        // A value that a loop carries counts as computed, because the body
        // replaces the initial value.
        for (BlockArgument argument :
             body.getArguments().drop_front(list.getNumCarried()))
          if (isGiven(list.getTiedOperand(argument).get()))
            given.insert(argument);
        findGiven(body.front());
      }
      for (Value result : op.getResults())
        if (llvm::all_of(listTiedSources(result),
                         [&](Value source) { return isGiven(source); }))
          given.insert(result);
      continue;
    }
    if (auto cast = dyn_cast<amp::CastOp>(op); cast && isGiven(cast.getInput()))
      given.insert(cast.getOutput());
    auto precise = dyn_cast<PrecisionOpInterface>(op);
    if (!precise || precise.getNumContractedOperands() > 0 ||
        isa<GradientSeedOp>(op) || op.hasAttr(amp::kSeedAttr))
      continue;
    auto isComputed = [&](Value value) {
      return holdsFloats(value) && !isGiven(value);
    };
    bool anyGiven = llvm::any_of(op.getOperands(),
                                 [&](Value value) { return isGiven(value); });
    bool allGiven = llvm::none_of(op.getOperands(), isComputed);
    if (allGiven)
      for (Value result : op.getResults())
        if (holdsFloats(result))
          given.insert(result);
    // Only forward ops are candidates. A gradient gets the type of its forward
    // value, as in PyTorch.
    if (anyGiven && !allGiven && promotes(&op) && isForward(getPhase(&op)))
      candidates.push_back(&op);
  }
}

// Collects into `needed` the given operands of all candidates, and all values
// from which the sizes of these operands follow.
void GivenValues::findNeeded() {
  assert(needed.empty() && sizes.empty() && "sizes are measured later");
  SmallVector<Value> worklist;
  auto visit = [&](Value value) {
    if (isGiven(value) && needed.insert(value).second)
      worklist.push_back(value);
  };
  for (Operation *op : candidates)
    llvm::for_each(op->getOperands(), visit);
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    SmallVector<Value, 2> sources = listTiedSources(value);
    llvm::for_each(sources, visit);
    Operation *op = value.getDefiningOp();
    if (op && sources.empty())
      llvm::for_each(op->getOperands(), visit);
  }
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

// Returns the size of a constant or of initial state; nullopt if the elements
// are not available. Ignores infinite elements, which are infinite in any type.
GivenValues::Size
GivenValues::toSize(const std::optional<ElementSummary> &elements) {
  if (!elements)
    return std::nullopt;
  return Magnitude{elements->rms, std::max(-elements->low, elements->high)};
}

GivenValues::Size GivenValues::measureInput(BlockArgument argument) const {
  StringRef name = findInputName(argument);
  auto module = argument.getOwner()->getParentOp()->getParentOfType<ModuleOp>();
  std::optional<InputSize> size;
  if (!name.empty() && module)
    size = findInputSize(module, name);
  return size ? Size(Magnitude{size->rms, size->largest}) : std::nullopt;
}

// Returns the size of the initial value of a parameter or frozen variable;
// nullopt for data and other state, which may have any size.
GivenValues::Size GivenValues::measureState(BlockArgument argument) const {
  auto function =
      dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  auto state = function ? function.getArgAttrOfType<FlatSymbolRefAttr>(
                              argument.getArgNumber(), kStateAttr)
                        : FlatSymbolRefAttr();
  VariableOp variable =
      state ? lookupMaster(symbols, state.getRootReference()) : VariableOp();
  if (!variable ||
      !llvm::is_contained({Role::Parameter, Role::Frozen}, variable.getRole()))
    return std::nullopt;
  if (std::optional<ElementsAttr> init = variable.getInit())
    return toSize(summarize(*init));
  double fill = variable.getFill().value_or(APFloat(0.0)).convertToDouble();
  return Magnitude{std::abs(fill), std::abs(fill)};
}

GivenValues::Size GivenValues::getSize(Value value) const {
  auto found = sizes.find(value);
  return found == sizes.end() ? std::nullopt : found->second;
}

GivenValues::Size GivenValues::measureResult(Operation *op) const {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return toSize(summarizeModel(constant));
  if (auto cast = dyn_cast<amp::CastOp>(op))
    return getSize(cast.getInput());
  if (isa<OneHotOp, RandomUniformOp>(op))
    return Magnitude{1.0, 1.0};
  if (auto cast = dyn_cast<mpc::CastOp>(op))
    if (getElementTypeOrSelf(cast.getInput().getType()).isInteger(1))
      return Magnitude{1.0, 1.0};
  SmallVector<Magnitude> in;
  bool isKnown = true;
  for (Value operand : op->getOperands())
    if (holdsFloats(operand)) {
      Size size = getSize(operand);
      isKnown &= size.has_value();
      in.push_back(size.value_or(Magnitude{1.0, 1.0}));
    }
  // The result is x * scale + bias, where x is the normalised input, of order
  // 1.
  if (op->hasTrait<NormalizationTrait>() && in.size() > 1) {
    if (!getSize(op->getOperand(1)))
      return std::nullopt;
    Magnitude size = {in[1].rms, 4.0 * in[1].largest};
    if (in.size() > 2 && isa<LayerNormOp, BatchNormOp>(op))
      size = {std::hypot(size.rms, in[2].rms), size.largest + in[2].largest};
    return size;
  }
  if (isBounded(op))
    return Magnitude{1.0, 1.0};
  if (!isKnown || in.empty())
    return std::nullopt;
  if (isa<AddOp, SubOp>(op))
    return Magnitude{std::hypot(in[0].rms, in[1].rms),
                     in[0].largest + in[1].largest};
  if (isa<MulOp>(op))
    return Magnitude{in[0].rms * in[1].rms, in[0].largest * in[1].largest};
  // These ops move, repeat, select, negate, or clip at 0, so the largest
  // operand bounds the result.
  auto precise = cast<PrecisionOpInterface>(op);
  if (precise.movesElements() ||
      isa<ExpandOp, GatherOp, GatherElementsOp, SelectOp, MaximumOp, MinimumOp,
          NegOp, AbsOp, ReluOp, mpc::CastOp>(op)) {
    if (auto pad = dyn_cast<PadOp>(op)) {
      double border = std::abs(pad.getValue().convertToDouble());
      in.push_back({border, border});
    }
    Magnitude size = in.front();
    for (Magnitude other : in)
      size = {std::max(size.rms, other.rms),
              std::max(size.largest, other.largest)};
    return size;
  }
  return std::nullopt;
}

void GivenValues::measure(Block &block) {
  auto uniteSources = [&](Value value) {
    Size size;
    for (Value source : listTiedSources(value)) {
      Size other = getSize(source);
      if (!other)
        return other;
      size = Magnitude{std::max(size ? size->rms : 0.0, other->rms),
                       std::max(size ? size->largest : 0.0, other->largest)};
    }
    return size;
  };
  for (BlockArgument argument : block.getArguments())
    if (needed.contains(argument))
      sizes[argument] =
          isa<BodyOpInterface>(block.getParentOp()) ? uniteSources(argument)
          : findInputName(argument).empty()         ? measureState(argument)
                                                    : measureInput(argument);
  for (BlockArgument argument : block.getArguments())
    if (!findInputName(argument).empty() ||
        llvm::any_of(listTiedSources(argument),
                     [&](Value source) { return ofInputs.contains(source); }))
      ofInputs.insert(argument);
  for (Operation &op : block) {
    bool isList = isa<BodyOpInterface>(op);
    if (isList)
      for (Region &body : op.getRegions())
        measure(body.front());
    const bool isOfInput = llvm::any_of(op.getOperands(), [&](Value operand) {
      return isGiven(operand) && ofInputs.contains(operand);
    });
    for (Value result : op.getResults())
      if (isOfInput && isGiven(result))
        ofInputs.insert(result);
    for (Value result : op.getResults())
      if (needed.contains(result))
        sizes[result] = isList ? uniteSources(result) : measureResult(&op);
  }
}

//===----------------------------------------------------------------------===//
// Harm
//===----------------------------------------------------------------------===//

// True if rounding the result of `op` costs the low operand no more digits than
// rounding the operand itself did. The other operand is a given float32 value
// of size `size`.
bool GivenValues::isHarmless(Operation *op, Size size) const {
  // Maximum, select and concat copy each element from one operand, so the size
  // of the other operand does not matter.
  if (isa<MaximumOp, MinimumOp, SelectOp, ConcatOp>(op))
    return size.has_value();
  if (isa<MulOp, DivOp>(op)) {
    double scale = size ? size->rms : 0.0;
    return scale >= kLeastFactor && size->largest <= kLargestFactor;
  }
  return size && size->rms <= kSummand && size->largest <= kLargestSummand;
}

GivenValues::Meeting GivenValues::judge(Operation *op) const {
  assert(llvm::any_of(op->getOperands(),
                      [&](Value value) { return isGiven(value); }) &&
         "a candidate reads a given value");
  // The rounding error of a product or quotient is relative to the result,
  // however large the factors are. bfloat16 has the range of float32, so the
  // result does not overflow either.
  if (low.isBF16() && isa<MulOp, DivOp>(op))
    return Meeting::None;
  Meeting meeting = Meeting::None;
  for (Value operand : op->getOperands())
    if (holdsFloats(operand) && isGiven(operand)) {
      if (!isHarmless(op, getSize(operand)))
        return Meeting::Wide;
      meeting = Meeting::Harmless;
    }
  return meeting;
}

SmallVector<std::string> GivenValues::listMetInputs(ModuleOp module,
                                                    FloatType low) {
  GivenValues values(module, low);
  SmallVector<std::string> names;
  for (Value value : values.needed) {
    StringRef name = findInputName(value);
    if (!name.empty() && getElementTypeOrSelf(value.getType()).isF32() &&
        !llvm::is_contained(names, name))
      names.push_back(name.str());
  }
  llvm::sort(names);
  return names;
}

ArrayAttr GivenValues::listSources(Operation *op) const {
  Builder builder(op->getContext());
  SmallVector<Attribute> sources;
  for (Value operand : op->getOperands()) {
    if (!holdsFloats(operand) || !isGiven(operand))
      continue;
    const ValueSource source = findSource(operand);
    NamedAttrList described;
    described.set("kind", builder.getStringAttr(source.kind));
    if (!source.name.empty())
      described.set("name", builder.getStringAttr(source.name));
    if (Size size = getSize(operand)) {
      described.set("rms", builder.getF64FloatAttr(size->rms));
      described.set("largest", builder.getF64FloatAttr(size->largest));
      if (ofInputs.contains(operand))
        described.set("in_data", builder.getUnitAttr());
    }
    sources.push_back(described.getDictionary(op->getContext()));
  }
  return builder.getArrayAttr(sources);
}
