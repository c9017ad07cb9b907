// Registers the mpc dialect, and verifies its attributes on ops, arguments and
// results.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "compiler/Dialect/MPC/Facts/Clamps.h"
#include "compiler/Dialect/MPC/Facts/Dequantized.h"
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/Facts/InputSizes.h"
#include "compiler/Dialect/MPC/Facts/LowUpdates.h"
#include "compiler/Dialect/MPC/FileNames.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/OpModels.h"
#include "compiler/Dialect/MPC/Recipe/Recipe.h"
#include "compiler/Dialect/MPC/RunningVariance.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

#include "compiler/Dialect/MPC/MPCDialect.cpp.inc"
#include "compiler/Dialect/MPC/MPCEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/MPC/MPCAttrs.cpp.inc"

namespace {
/// Prints the location of an op as an alias made of node names: `loc(#conv1_)`,
/// or `loc(#Add_9_and_1_more)` for an op that replaces two nodes.
struct NodeAliases : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attribute,
                       llvm::raw_ostream &os) const override {
    auto location = dyn_cast<LocationAttr>(attribute);
    if (!isa_and_present<NameLoc, FusedLoc>(location))
      return AliasResult::NoAlias;
    SmallVector<StringRef> names = getNodeNames(location);
    if (names.empty() || names.front().empty())
      return AliasResult::NoAlias;
    // An alias must not contain '#', so the alias for node#dx is node$dx.
    for (char c : names.front())
      os << (c == '#' ? '$' : llvm::isAlnum(c) || c == '-' ? c : '_');
    if (names.size() > 1)
      os << "_and_" << names.size() - 1 << "_more";
    return AliasResult::FinalAlias;
  }
};
} // namespace

void MPCDialect::initialize() {
  addInterfaces<NodeAliases>();
  registerOps();
  attachPartsModels(*getContext());
  attachRangeModels(*getContext());
  attachSampleAxisModels(*getContext());
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/MPC/MPCAttrs.cpp.inc"
      >();
}

Operation *MPCDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                           Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, loc, type, elements);
}

//===----------------------------------------------------------------------===//
// Attributes of ops
//===----------------------------------------------------------------------===//

namespace {
/// A discardable attribute that the dialect knows: its name, on which ops and
/// with which values it is valid, and the text for the error otherwise.
struct OpAttribute {
  StringRef name;
  /// True if `op` may have the attribute with `value`.
  bool (*fits)(Operation *op, Attribute value);
  StringRef expected;
};
} // namespace

// True if `op` is one of `Ops`, and `value` is an AttrT. An empty list `Ops`
// stands for all ops; GCC would then warn that `op` is unused.
template <typename AttrT, typename... Ops>
static bool isOf([[maybe_unused]] Operation *op, Attribute value) {
  bool isPlace = sizeof...(Ops) == 0 || (isa<Ops>(op) || ...);
  return isPlace && isa<AttrT>(value);
}

static bool isThreads(Operation *op, Attribute value) {
  auto threads = dyn_cast<IntegerAttr>(value);
  return isa<FunctionOpInterface>(op) && threads &&
         threads.getType().isInteger(32) && threads.getInt() > 0;
}

static const OpAttribute kOpAttributes[] = {
    {kKernelAttr, isOf<KernelKindAttr>,
     "the kind of a kernel such as #mpc.kernel<pointwise>"},
    {kThreadsAttr, isThreads, "a positive i32 of a function as mpc.threads"},
    {kUnbiasedRunningVarAttr, isOf<UnitAttr, BatchNormOp>,
     "mpc.unbiased_running_var to be a unit attribute of mpc.batch_norm"},
    {kOverRanksAttr, isOf<UnitAttr, BatchNormOp, BatchNormGradOp>,
     "mpc.over_ranks to be a unit attribute of mpc.batch_norm or "
     "mpc.batch_norm_grad"},
    {kClampsAttr,
     [](Operation *op, Attribute value) {
       auto attribute = dyn_cast<FloatAttr>(value);
       if (!attribute)
         return false;
       const double share = attribute.getValueAsDouble();
       return isa<ClipOp>(op)
                  ? share == 0
                  : isa<MaximumOp, MinimumOp>(op) && (share == 0 || share == 1);
     },
     "mpc.clamps to be 0.0 or 1.0 of mpc.maximum or mpc.minimum, or 0.0 of "
     "mpc.clip"},
    {kAdapterAttr,
     [](Operation *op, Attribute value) {
       return isa<VariableOp>(op) && isa<UnitAttr, DictionaryAttr>(value);
     },
     "mpc.adapter to be the facts of an adapter, or a unit attribute, of an "
     "mpc.variable"},
    {kDequantizedAttr, isOf<UnitAttr, ConstantOp>,
     "mpc.dequantized to be a unit attribute of mpc.constant"},
    {kFileNameAttr, isOf<StringAttr, VariableOp>,
     "mpc.file_name to be a string of an mpc.variable"},
    {kLowUpdateAttr, isOf<UnitAttr>, "mpc.low_update to be a unit attribute"},
    {kInputSizesAttr,
     [](Operation *op, Attribute value) {
       return isa<ModuleOp>(op) && areInputSizes(value);
     },
     "the sizes of inputs, such as {x = array<f64: 1.0, 4.0>}, of a module"},
    {kTargetAttr, isOf<TargetAttr, ModuleOp>,
     "the target of a module, such as #mpc.target<\"native\">"},
    {kRecipeAttr, isOf<RecipeAttr, ModuleOp>,
     "the recipe of a module, such as #mpc.recipe<loss = [mse]>"},
    {kPhaseAttr, isOf<PhaseAttr>,
     "a phase of training such as #mpc.phase<backward>"},
};

// Verifies an attribute of an op. An unknown name is an error, because no pass
// would read the attribute.
LogicalResult MPCDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attr) {
  const OpAttribute *known =
      llvm::find_if(kOpAttributes, [&](const OpAttribute &each) {
        return each.name == attr.getName();
      });
  if (known == std::end(kOpAttributes))
    return op->emitOpError("no op has an attribute '")
           << attr.getName().getValue() << "'";
  if (known->fits(op, attr.getValue()))
    return success();
  return op->emitOpError("expected ")
         << known->expected << ", found " << attr.getValue();
}

//===----------------------------------------------------------------------===//
// References to state
//===----------------------------------------------------------------------===//

namespace {
/// The attributes of all arguments, or all results, of a function that refer to
/// variables. `get(i)` returns the reference of port i, which names a variable;
/// null if there is none.
struct StateReferences {
  TypeRange types;
  llvm::function_ref<Attribute(unsigned)> get;
};
} // namespace

// Checks that `reference` names an mpc.variable whose type is `type`.
static LogicalResult
verifyStateReference(Operation *op, Attribute reference, Type type,
                     const DenseMap<StringAttr, VariableOp> &variables) {
  auto name = dyn_cast<FlatSymbolRefAttr>(reference);
  if (!name)
    return op->emitError("expected the name of an mpc.variable, found ")
           << reference;
  VariableOp variable = variables.lookup(name.getAttr());
  if (!variable)
    return op->emitError("no mpc.variable ") << name;
  if (variable.getType() != type)
    return op->emitError("expected type ")
           << variable.getType() << " of variable " << name << ", found "
           << type;
  return success();
}

// Checks the references of all ports when called for the first port with a
// reference, and does nothing for others. MLIR calls this function for each
// reference, and searching the module each time would take quadratic time.
static LogicalResult verifyStateReferences(Operation *op, unsigned index,
                                           StateReferences references) {
  for (unsigned i = 0; i < index; ++i)
    if (references.get(i))
      return success();
  DenseMap<StringAttr, VariableOp> variables;
  if (Operation *module = SymbolTable::getNearestSymbolTable(op))
    for (auto variable : module->getRegion(0).getOps<VariableOp>())
      variables[variable.getSymNameAttr()] = variable;
  for (auto [i, type] : llvm::enumerate(references.types))
    if (Attribute reference = references.get(i))
      if (failed(verifyStateReference(op, reference, type, variables)))
        return failure();
  return success();
}

static LogicalResult verifyIndices(FunctionOpInterface function, unsigned index,
                                   Attribute attribute) {
  if (isIndices(attribute,
                dyn_cast<ShapedType>(function.getArgumentTypes()[index])))
    return success();
  return function.emitOpError("expected ")
         << kIndicesAttr
         << " to be boxes of indices within an integer argument, found "
         << attribute << " of argument " << index << " of type "
         << function.getArgumentTypes()[index];
}

static LogicalResult verifyBatchAxis(FunctionOpInterface function,
                                     unsigned index, Attribute attribute) {
  auto axis = dyn_cast<IntegerAttr>(attribute);
  auto type = dyn_cast<ShapedType>(function.getArgumentTypes()[index]);
  if (axis && axis.getType().isInteger(64) && type && axis.getInt() >= -1 &&
      axis.getInt() < type.getRank())
    return success();
  return function.emitOpError("expected ")
         << kBatchAxisAttr << " to be an axis or -1, found " << attribute
         << " of argument " << index;
}

// Checks that `attribute` is a role of inputs if `isInput`, else a role of
// outputs.
static LogicalResult verifyRole(FunctionOpInterface function,
                                Attribute attribute, bool isInput) {
  auto role = dyn_cast<RoleAttr>(attribute);
  bool fits = role && (isInput ? isInputRole(role.getValue())
                               : isOutputRole(role.getValue()) ||
                                     role.getValue() == Role::Gradient);
  if (fits)
    return success();
  return function.emitOpError("expected ")
         << kRoleAttr << " to be that of "
         << (isInput ? "an input, such as #mpc.role<data>"
                     : "an output, such as #mpc.role<loss>")
         << ", found " << attribute;
}

// Checks that the ONNX name of an input or output is a string.
static LogicalResult verifyName(FunctionOpInterface function,
                                NamedAttribute attr) {
  if (isa<StringAttr>(attr.getValue()))
    return success();
  return function.emitOpError("expected ")
         << attr.getName() << " to be a name, found " << attr.getValue();
}

static LogicalResult refusePort(Operation *op, NamedAttribute attr,
                                StringRef port) {
  return op->emitOpError("no ")
         << port << " has an attribute '" << attr.getName().getValue() << "'";
}

LogicalResult MPCDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                   unsigned index,
                                                   NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return refusePort(op, attr, "argument");
  if (attr.getName() == kIndicesAttr)
    return verifyIndices(function, index, attr.getValue());
  if (attr.getName() == kBatchAxisAttr)
    return verifyBatchAxis(function, index, attr.getValue());
  if (attr.getName() == kRoleAttr)
    return verifyRole(function, attr.getValue(), /*isInput=*/true);
  if (attr.getName() == kInputAttr)
    return verifyName(function, attr);
  if (attr.getName() == kTrainedAttr && isa<UnitAttr>(attr.getValue()))
    return success();
  if (attr.getName() != kStateAttr)
    return refusePort(op, attr, "argument");
  return verifyStateReferences(op, index,
                               {function.getArgumentTypes(), [&](unsigned i) {
                                  return function.getArgAttr(i, kStateAttr);
                                }});
}

LogicalResult MPCDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                      unsigned index,
                                                      NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (!function)
    return refusePort(op, attr, "result");
  if (attr.getName() == kRoleAttr)
    return verifyRole(function, attr.getValue(), /*isInput=*/false);
  if (attr.getName() == kOutputAttr)
    return verifyName(function, attr);
  if (attr.getName() != kUpdatesAttr)
    return refusePort(op, attr, "result");
  return verifyStateReferences(
      op, index, {function.getResultTypes(), [&](unsigned i) {
                    return function.getResultAttr(i, kUpdatesAttr);
                  }});
}

StringRef mpc::getNodeName(Operation *op) {
  Location location = op->getLoc();
  // Most ops come from a single node, for which a search takes long.
  auto name = dyn_cast<NameLoc>(LocationAttr(location));
  if (!name)
    name = location->findInstanceOf<NameLoc>();
  return name ? name.getName().getValue() : StringRef();
}
