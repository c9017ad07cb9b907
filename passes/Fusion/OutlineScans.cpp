// Turns the bodies of scans into functions.
//
// Passes on functions then do to the ops of a loop what they do to all others,
// without walking into regions.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "mlir/IR/SymbolTable.h"

namespace mpc {
#define GEN_PASS_DEF_OUTLINESCANSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct OutlineScansPass
    : public mpc::impl::OutlineScansPassBase<OutlineScansPass> {
  void runOnOperation() override;
};
} // namespace

// Moves the body of `scan` into a function of its own, behind `parent`, which
// the scan is in.
static func::FuncOp createBody(ScanOp scan, func::FuncOp parent,
                               SymbolTable &symbols) {
  Block &block = scan.getBody().front();
  Operation *yield = scan.getYield();
  OpBuilder builder(yield);
  func::ReturnOp::create(builder, yield->getLoc(), yield->getOperands());
  auto type = builder.getFunctionType(block.getArgumentTypes(),
                                      yield->getOperandTypes());
  yield->erase();
  auto body = func::FuncOp::create(scan.getLoc(),
                                   (parent.getName() + "_scan").str(), type);
  body.setPrivate();
  body.getBody().takeBody(scan.getBody());
  symbols.insert(body, std::next(Block::iterator(parent)));
  return body;
}

static void outline(ScanOp scan, SymbolTable &symbols) {
  auto parent = scan->getParentOfType<func::FuncOp>();
  func::FuncOp body = createBody(scan, parent, symbols);
  OpBuilder builder(scan);
  auto call = ScanCallOp::create(
      builder, scan.getLoc(), scan.getResultTypes(),
      FlatSymbolRefAttr::get(body), scan.getLengthAttr(), scan.getCarried(),
      scan.getScanned(), scan.getInvariant(), scan.getReversedInputsAttr(),
      scan.getReversedOutputsAttr());
  call->setDiscardableAttrs(scan->getDiscardableAttrDictionary());
  scan.replaceAllUsesWith(call.getResults());
  scan.erase();
}

void OutlineScansPass::runOnOperation() {
  SmallVector<ScanOp> scans;
  // Inner scans come first.
  getOperation().walk([&](ScanOp scan) { scans.push_back(scan); });
  SymbolTable symbols(getOperation());
  for (ScanOp scan : scans)
    outline(scan, symbols);
}
