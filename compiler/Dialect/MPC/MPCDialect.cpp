// Registration of the mpc dialect and the checks on its attributes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "compiler/Dialect/MPC/FileNames.h"
#include "compiler/Dialect/MPC/IndexBoxes.h"
#include "compiler/Dialect/MPC/NodeNames.h"
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
/// A location is called as its node: `loc(#conv1_)`, and
/// `loc(#Add_9_and_1_more)` for an op that stands for two.
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
    // What an alias may not have: it may have $, and node#dx is node$dx.
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

LogicalResult MPCDialect::verifyOperationAttribute(Operation *op,
                                                   NamedAttribute attr) {
  if (attr.getName() == kKernelAttr) {
    if (isa<KernelKindAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected the kind of a kernel such as "
                           "#mpc.kernel<pointwise>, found ")
           << attr.getValue();
  }
  if (attr.getName() == kUnbiasedRunningVarAttr) {
    if (isa<BatchNormOp>(op) && isa<UnitAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected ")
           << attr.getName() << " to be a unit attribute of mpc.batch_norm";
  }
  if (attr.getName() == kFileNameAttr) {
    if (isa<VariableOp>(op) && isa<StringAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected ")
           << attr.getName() << " to be a string of an mpc.variable";
  }
  if (attr.getName() == kTargetAttr) {
    if (isa<ModuleOp>(op) && isa<TargetAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected the target of a module, such as "
                           "#mpc.target<\"native\">, found ")
           << attr.getValue();
  }
  if (attr.getName() != kPhaseAttr)
    return success();
  if (isa<PhaseAttr>(attr.getValue()))
    return success();
  return op->emitOpError("expected a phase of training such as "
                         "#mpc.phase<backward>, found ")
         << attr.getValue();
}

//===----------------------------------------------------------------------===//
// References to state
//===----------------------------------------------------------------------===//

namespace {
/// What a function's arguments, or its results, say of state: the attribute
/// that names a variable, and the type of the value.
struct StateReferences {
  TypeRange types;
  llvm::function_ref<Attribute(unsigned)> get;
};
} // namespace

// Checks what `reference` names against `type`.
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

// Checks all references when asked for the first, since the verifier asks for
// each and a search of the module for each would take quadratic time.
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
         << kIndicesAttr << " to be boxes of an argument of integers, found "
         << attribute << " of argument " << index;
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

// The role of an input, or of an output.
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

LogicalResult MPCDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                   unsigned index,
                                                   NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (function && attr.getName() == kIndicesAttr)
    return verifyIndices(function, index, attr.getValue());
  if (function && attr.getName() == kBatchAxisAttr)
    return verifyBatchAxis(function, index, attr.getValue());
  if (function && attr.getName() == kRoleAttr)
    return verifyRole(function, attr.getValue(), /*isInput=*/true);
  if (!function || attr.getName() != kStateAttr)
    return success();
  return verifyStateReferences(op, index,
                               {function.getArgumentTypes(), [&](unsigned i) {
                                  return function.getArgAttr(i, kStateAttr);
                                }});
}

LogicalResult MPCDialect::verifyRegionResultAttribute(Operation *op, unsigned,
                                                      unsigned index,
                                                      NamedAttribute attr) {
  auto function = dyn_cast<FunctionOpInterface>(op);
  if (function && attr.getName() == kRoleAttr)
    return verifyRole(function, attr.getValue(), /*isInput=*/false);
  if (!function || attr.getName() != kUpdatesAttr)
    return success();
  return verifyStateReferences(
      op, index, {function.getResultTypes(), [&](unsigned i) {
                    return function.getResultAttr(i, kUpdatesAttr);
                  }});
}

StringRef mpc::getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().getValue();
  return {};
}
