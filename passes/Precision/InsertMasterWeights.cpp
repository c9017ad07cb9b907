// Replaces casts of parameters to the low type by low copies: derived state
// that the update writes.
//
// The fp32 parameter is called the master of the copy. Both change together:
// every function that updates a parameter casts the new value once, in the
// kernel that computes the value, and writes the copy. @derive makes all copies
// when state is loaded, so copies are never saved.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Precision/FloatTypes.h"
#include "passes/Precision/Passes.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Support/ExitCode.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mpc {
#define GEN_PASS_DEF_INSERTMASTERWEIGHTSPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct InsertMasterWeightsPass
    : mpc::impl::InsertMasterWeightsPassBase<InsertMasterWeightsPass> {
  using InsertMasterWeightsPassBase::InsertMasterWeightsPassBase;
  void runOnOperation() override;

private:
  void findCasts();
  VariableOp getCopy(VariableOp master, Type type);
  void readCopies();
  void writeCopies(FunctionOpInterface function);
  FunctionEditor getDerive();

  /// `casts` pairs each cast of a parameter with the parameter. `copies` maps
  /// each parameter to its low copy. Both are in program order.
  SmallVector<std::pair<amp::CastOp, VariableOp>> casts;
  llvm::MapVector<Operation *, VariableOp> copies;
  std::optional<VariableTable> variables;
};
} // namespace

// Returns the parameter that `op` casts to a narrower type; null if `op` casts
// something else.
static VariableOp getNarrowedParameter(amp::CastOp op,
                                       const VariableTable &variables) {
  auto argument = dyn_cast<BlockArgument>(op.getInput());
  VariableOp variable =
      argument ? variables.lookupVariable(getArgumentPort(argument).getState())
               : VariableOp();
  if (!variable || (variable.getRole() != Role::Parameter &&
                    variable.getRole() != Role::Frozen))
    return {};
  unsigned from = op.getInput().getType().getElementTypeBitWidth();
  return op.getType().getElementTypeBitWidth() < from ? variable : VariableOp();
}

VariableOp InsertMasterWeightsPass::getCopy(VariableOp master, Type type) {
  VariableOp &copy = copies[master];
  if (copy)
    return copy;
  std::string name = (master.getSymName() + kLowSuffix).str();
  if (variables->lookup(name)) {
    withExitCode(mlir::emitError(master.getLoc()), ExitCode::Unsupported)
        << "the model has a parameter '" << name
        << "', the name of the low copy of '" << master.getSymName()
        << "'; rename it";
    signalPassFailure();
  }
  return copy = variables->declare(name, type, Role::Derived);
}

// Finds all casts of parameters to a narrower type. A parameter has one copy,
// of the type of its first cast; casts to other types remain.
void InsertMasterWeightsPass::findCasts() {
  for (auto function : getOperation().getOps<FunctionOpInterface>())
    function->walk([&](amp::CastOp op) {
      VariableOp master = getNarrowedParameter(op, *variables);
      if (master && getCopy(master, op.getType()).getType() == op.getType())
        casts.push_back({op, master});
    });
}

void InsertMasterWeightsPass::readCopies() {
  llvm::MapVector<Operation *, std::optional<FunctionEditor>> editors;
  for (auto [op, master] : casts) {
    auto function = op->getParentOfType<FunctionOpInterface>();
    std::optional<FunctionEditor> &ports = editors[function];
    if (!ports)
      ports.emplace(function);
    op.replaceAllUsesWith(ports->state(copies[master]));
    op.erase();
  }
  for (auto &[function, ports] : editors)
    ports->finish();
}

// Wherever `function` updates a parameter, casts the new value and writes the
// parameter's low copy.
void InsertMasterWeightsPass::writeCopies(FunctionOpInterface function) {
  llvm::DenseMap<Attribute, VariableOp> copyOf;
  for (auto [master, copy] : copies)
    copyOf[FlatSymbolRefAttr::get(master)] = copy;
  Operation *terminator = getReturn(function);
  OpBuilder builder(terminator);
  FunctionEditor ports(function);
  for (unsigned i = 0, count = function.getNumResults(); i < count; ++i) {
    VariableOp copy = copyOf.lookup(getResultPort(function, i).getUpdated());
    if (!copy)
      continue;
    Value value = terminator->getOperand(i);
    auto cast =
        amp::CastOp::create(builder, value.getLoc(), copy.getType(), value);
    setPhase(cast, Phase::Optimizer);
    ports.addUpdate(copy, cast);
  }
  ports.finish();
}

FunctionEditor InsertMasterWeightsPass::getDerive() {
  ModuleOp module = getOperation();
  if (auto function = module.lookupSymbol<FunctionOpInterface>(kDeriveFunction))
    return FunctionEditor(function);
  return FunctionEditor::create(module, module.getLoc(), kDeriveFunction);
}

void InsertMasterWeightsPass::runOnOperation() {
  casts.clear();
  copies.clear();
  variables.emplace(getOperation());
  findCasts();
  if (copies.empty())
    return;
  readCopies();
  for (auto function : getOperation().getOps<FunctionOpInterface>())
    writeCopies(function);

  // @derive computes all copies after state is loaded.
  FunctionEditor derive = getDerive();
  for (auto [op, copy] : copies) {
    Value master = derive.state(cast<VariableOp>(op));
    OpBuilder builder = derive.builder();
    Value low =
        amp::CastOp::create(builder, op->getLoc(), copy.getType(), master);
    derive.addUpdate(copy, low);
  }
  derive.finish();
}
