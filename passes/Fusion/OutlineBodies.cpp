// Turns the bodies of loops and conditions into functions, so that later passes
// on functions process the ops of a body like any other op, without walking
// into regions.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "mlir/IR/SymbolTable.h"

namespace mpc {
#define GEN_PASS_DEF_OUTLINEBODIESPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct OutlineBodiesPass
    : public mpc::impl::OutlineBodiesPassBase<OutlineBodiesPass> {
  void runOnOperation() override;
};
} // namespace

// Moves `body` into a new function, right after the function around `body`.
static FlatSymbolRefAttr createFunction(Region &body, StringRef suffix,
                                        SymbolTable &symbols) {
  Block &block = body.front();
  Operation *yield = block.getTerminator();
  auto parent = body.getParentOfType<func::FuncOp>();
  OpBuilder builder(yield);
  func::ReturnOp::create(builder, yield->getLoc(), yield->getOperands());
  auto type = builder.getFunctionType(block.getArgumentTypes(),
                                      yield->getOperandTypes());
  yield->erase();
  auto function = func::FuncOp::create(body.getLoc(),
                                       (parent.getName() + suffix).str(), type);
  function.setPrivate();
  function.getBody().takeBody(body);
  symbols.insert(function, std::next(Block::iterator(parent)));
  return FlatSymbolRefAttr::get(function);
}

static Operation *createCall(ScanOp scan, SymbolTable &symbols) {
  FlatSymbolRefAttr body = createFunction(scan.getBody(), "_scan", symbols);
  OpBuilder builder(scan);
  return ScanCallOp::create(
      builder, scan.getLoc(), scan.getResultTypes(), body, scan.getLengthAttr(),
      scan.getCarried(), scan.getScanned(), scan.getInvariant(),
      scan.getReversedInputsAttr(), scan.getReversedOutputsAttr());
}

static Operation *createCall(IfOp op, SymbolTable &symbols) {
  FlatSymbolRefAttr otherwise =
      createFunction(op.getElseBody(), "_else", symbols);
  FlatSymbolRefAttr then = createFunction(op.getThenBody(), "_then", symbols);
  OpBuilder builder(op);
  return IfCallOp::create(builder, op.getLoc(), op.getResultTypes(),
                          op.getCondition(), then, otherwise, op.getCaptured());
}

void OutlineBodiesPass::runOnOperation() {
  SmallVector<Operation *> lists;
  // The walk visits ops in bodies before the ops around the bodies.
  getOperation().walk([&](BodyOpInterface list) { lists.push_back(list); });
  SymbolTable symbols(getOperation());
  for (Operation *list : lists) {
    auto scan = dyn_cast<ScanOp>(list);
    Operation *call = scan ? createCall(scan, symbols)
                           : createCall(cast<IfOp>(list), symbols);
    call->setDiscardableAttrs(list->getDiscardableAttrDictionary());
    list->replaceAllUsesWith(call->getResults());
    list->erase();
  }
}
