// Turns every region into a call of a kernel function.
//
// A library contraction stays in the caller, as an op of its own. The ops after
// the contraction become an epilogue kernel, whose argument 0 is the
// contraction's fp32 accumulator. If the contraction's result was narrower, the
// epilogue rounds argument 0 first, so the result does not change.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Kernels/KernelSegments.h"
#include "passes/Planning/Contractions/LibraryEpilogues.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/SymbolTable.h"

namespace mpc {
#define GEN_PASS_DEF_OUTLINEKERNELSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
class Outliner {
public:
  explicit Outliner(ModuleOp module)
      : symbols(module), builder(module.getContext()) {}
  LogicalResult outline(RegionOp region);

private:
  void outlineWhole(RegionOp region);
  void outlineEpilogue(RegionOp region, Operation *hero);
  func::FuncOp createKernel(RegionOp region, KernelKind kind,
                            TypeRange arguments);
  void replaceByCall(RegionOp region, func::FuncOp kernel, ValueRange operands);

  SymbolTable symbols;
  OpBuilder builder;
};

struct OutlineKernelsPass
    : public mpc::impl::OutlineKernelsPassBase<OutlineKernelsPass> {
  void runOnOperation() override {
    Outliner outliner(getOperation());
    SmallVector<RegionOp> regions;
    // Regions within regions are segments of one kernel.
    getOperation().walk<WalkOrder::PreOrder>([&](RegionOp region) {
      regions.push_back(region);
      return WalkResult::skip();
    });
    for (RegionOp region : regions)
      if (failed(outliner.outline(region)))
        return signalPassFailure();
  }
};
} // namespace

func::FuncOp Outliner::createKernel(RegionOp region, KernelKind kind,
                                    TypeRange arguments) {
  auto kernel = func::FuncOp::create(
      region.getLoc(), region.getKernel().value_or("kernel"),
      builder.getFunctionType(arguments, region.getResultTypes()));
  kernel.setPrivate();
  kernel->setAttr(kKernelAttr, KernelKindAttr::get(builder.getContext(), kind));
  symbols.insert(kernel);
  return kernel;
}

void Outliner::replaceByCall(RegionOp region, func::FuncOp kernel,
                             ValueRange operands) {
  builder.setInsertionPoint(region);
  auto call = func::CallOp::create(builder, region.getLoc(), kernel, operands);
  region.replaceAllUsesWith(call.getResults());
  region.erase();
}

void Outliner::outlineWhole(RegionOp region) {
  func::FuncOp kernel =
      createKernel(region, region.getKind(), region.getInputs().getTypes());
  cloneBody(region, kernel);
  replaceByCall(region, kernel, region.getInputs());
}

// Clones `hero` of `region` to before the region, with the region's inputs as
// operands.
static Operation *hoist(RegionOp region, Operation *hero, OpBuilder &builder) {
  IRMapping mapping;
  mapping.map(region.getBody().getArguments(), region.getInputs());
  builder.setInsertionPoint(region);
  Operation *hoisted = builder.clone(*hero, mapping);
  hoisted->setLoc(region.getLoc());
  return hoisted;
}

// If a library computes the product of `region` together with the sum of an
// operand (SumOperands.cpp), returns the sum; null otherwise.
static ReduceSumOp findOperandSum(RegionOp region) {
  auto sums = region.getBody().front().getOps<ReduceSumOp>();
  return sums.empty() ? ReduceSumOp() : *sums.begin();
}

// Replaces the product and the operand sum of `region` by a library product
// before the region. Updates `region`, which no longer has the sum.
static Operation *hoistWithSum(RegionOp &region, ReduceSumOp sum,
                               OpBuilder &builder) {
  auto matmul = cast<MatMulOp>(region.getContraction());
  builder.setInsertionPoint(region);
  FusedKind kind =
      sum.getInput() == matmul.getLhs() ? FusedKind::BGradA : FusedKind::BGradB;
  auto product = plan::ProductOp::create(
      builder, region.getLoc(), matmul.getType(), Type(), sum.getType(), kind,
      region.getTiedInput(matmul.getLhs()),
      region.getTiedInput(matmul.getRhs()), Value(), Value(),
      matmul.getTransA(), matmul.getTransB(), matmul.getAlpha());
  // Result types change, so replace the region by a region without the sum.
  OpOperand &yielded = *sum->use_begin();
  unsigned number = yielded.getOperandNumber();
  yielded.getOwner()->eraseOperand(number);
  sum.erase();
  SmallVector<Value> results(region.getResults());
  results[number].replaceAllUsesWith(product.getBiasGrad());
  results.erase(results.begin() + number);
  auto kept =
      RegionOp::create(builder, region.getLoc(), ValueRange(results).getTypes(),
                       region.getKind(), region.getInputs());
  kept.setKernelAttr(region.getKernelAttr());
  kept->setDiscardableAttrs(region->getDiscardableAttrDictionary());
  kept.getBody().takeBody(region.getBody());
  for (auto [old, result] : llvm::zip(results, kept.getResults()))
    old.replaceAllUsesWith(result);
  region.erase();
  region = kept;
  return product;
}

void Outliner::outlineEpilogue(RegionOp region, Operation *hero) {
  // A library product also computes the sum of an operand, if the region has
  // one.
  ReduceSumOp sum = findOperandSum(region);
  Operation *hoisted =
      sum ? hoistWithSum(region, sum, builder) : hoist(region, hero, builder);
  // Without an epilogue, the contraction replaces the region.
  Block &body = region.getBody().front();
  Operation *yield = body.getTerminator();
  if (yield->getNumOperands() == 1 &&
      yield->getOperand(0) == hero->getResult(0)) {
    region.getResult(0).replaceAllUsesWith(hoisted->getResult(0));
    region.erase();
    return;
  }
  // The library returns f32. If the contraction has a 16-bit type in the IR,
  // the epilogue first rounds the tile.
  auto type = cast<RankedTensorType>(hero->getResult(0).getType());
  auto exact = type.clone(builder.getF32Type());
  hoisted->getResult(0).setType(exact);

  // Argument 0 of the epilogue is the tile; the other inputs of the epilogue
  // follow.
  SmallVector<Value> inputs, operands = {hoisted->getResult(0)};
  for (auto [argument, input] :
       llvm::zip(body.getArguments(), region.getInputs()))
    if (llvm::any_of(argument.getUsers(),
                     [&](Operation *user) { return user != hero; })) {
      inputs.push_back(argument);
      operands.push_back(input);
    }
  func::FuncOp kernel = createKernel(region, KernelKind::Epilogue,
                                     ValueRange(operands).getTypes());
  builder.setInsertionPointToStart(kernel.addEntryBlock());
  IRMapping mapping;
  mapping.map(inputs, kernel.getArguments().drop_front());
  Value tile = kernel.getArgument(0);
  mapping.map(hero->getResult(0),
              type == exact
                  ? tile
                  : amp::CastOp::create(builder, hero->getLoc(), type, tile)
                        .getOutput());
  for (Operation &op : body.without_terminator())
    if (&op != hero)
      builder.clone(op, mapping);
  SmallVector<Value> results;
  for (Value yielded : yield->getOperands())
    results.push_back(mapping.lookup(yielded));
  func::ReturnOp::create(builder, region.getLoc(), results);
  replaceByCall(region, kernel, operands);
}

LogicalResult Outliner::outline(RegionOp region) {
  if (Operation *contraction = region.getContraction()) {
    std::optional<ContractionProvider> provider = region.getProvider();
    if (!provider)
      return region.emitOpError("expected a provider of the contraction, run "
                                "plan-place-contractions first");
    if (*provider == ContractionProvider::Library) {
      outlineEpilogue(region, contraction);
      return success();
    }
  }
  outlineWhole(region);
  return success();
}
