// Lets products add up an operand that they read.
//
// The gradient of a weight is the product of what the layer read and of the
// gradient of what it made; that of the layer's bias is the sum of the latter's
// rows, along which the product is summed too. Where the library packs what it
// multiplies, it adds up on the way.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/LibraryTails.h"
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Regions/KernelOrder.h"

#include "mlir/Analysis/TopologicalSortUtils.h"

namespace mpc {
#define GEN_PASS_DEF_SUMOPERANDSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct SumOperandsPass
    : public mpc::impl::SumOperandsPassBase<SumOperandsPass> {
  void runOnOperation() override;
};

/// The product of a region and the sum of its operand `number`, a result of
/// another kernel.
struct SummedOperand {
  RegionOp product;
  unsigned number;
  Value sum;
};
} // namespace

// The matrix product of a region that the library does and whose result lies
// where the region has it; null for any other.
static MatMulOp findProduct(RegionOp region) {
  if (region.getProvider() != ContractionProvider::Library)
    return MatMulOp();
  auto matmul = dyn_cast_if_present<MatMulOp>(region.getContraction());
  bool isPlaced = llvm::any_of(region->getUsers(), [](Operation *user) {
    return isa<plan::ArrangeOp, plan::PlaceOp>(user);
  });
  return isPlaced ? MatMulOp() : matmul;
}

/// The sum of the rows of a value, of so many columns; null where no kernel
/// adds them up. Products may share an operand that many others read.
using KnownSums = DenseMap<std::pair<Value, int64_t>, Value>;

static Value findSum(Value operand, KnownSums &known) {
  Value root = skipReshapes(operand);
  int64_t columns = shapeOf(operand).back();
  auto [entry, isNew] = known.try_emplace({root, columns});
  if (isNew)
    entry->second = findSumOfRows(root, columns);
  return entry->second;
}

// The operand of `region` that has a sum of its rows in f32, computed apart,
// and which its own tail does not read.
static std::optional<SummedOperand> findSummed(RegionOp region,
                                               KnownSums &known) {
  MatMulOp matmul = findProduct(region);
  if (!matmul || typeOf(matmul).getRank() != 2)
    return std::nullopt;
  // Rows lie along the depth in a transposed left operand and in a right one.
  bool hasRows[] = {matmul.getTransA(), !matmul.getTransB()};
  for (auto [operand, isOfRows] : llvm::zip(matmul->getOpOperands(), hasRows)) {
    Value input = region.getTiedInput(operand.get());
    if (!isOfRows || !input || typeOf(input).getRank() != 2)
      continue;
    Value sum = findSum(input, known);
    if (sum && elementOf(sum).isF32() &&
        !llvm::is_contained(region.getInputs(), sum))
      return SummedOperand{region, operand.getOperandNumber(), sum};
  }
  return std::nullopt;
}

// Erases the kernel that makes `sum` and those that made only what it read.
static void eraseMakers(Value sum) {
  while (Operation *maker = sum.getDefiningOp()) {
    if (!maker->use_empty() || !isa<RegionOp, ReshapeOp>(maker))
      return;
    sum = maker->getOperand(0);
    maker->erase();
  }
}

// The region with the sum as a further result, in place of kernels of its own.
static void addSum(SummedOperand summed) {
  RegionOp region = summed.product;
  OpBuilder builder(region);
  Location location = builder.getFusedLoc(
      {region.getLoc(), summed.sum.getDefiningOp()->getLoc()});
  // A row of sums, which those who read it see in another shape.
  Value operand = region.getContraction()->getOperand(summed.number);
  auto type =
      RankedTensorType::get({1, shapeOf(operand).back()}, builder.getF32Type());
  SmallVector<Type> types(region.getResultTypes());
  types.push_back(type);
  auto changed = RegionOp::create(builder, location, types, region.getKind(),
                                  region.getInputs());
  changed.setKernelAttr(region.getKernelAttr());
  changed.setProviderAttr(region.getProviderAttr());
  changed->setDiscardableAttrs(region->getDiscardableAttrDictionary());
  changed.getBody().takeBody(region.getBody());
  // In the body it follows all else.
  Operation *yield = changed.getBody().front().getTerminator();
  builder.setInsertionPoint(yield);
  Value sum = ReduceSumOp::create(builder, location, type, operand,
                                  ArrayRef<int64_t>{0}, /*keepdims=*/true,
                                  /*parts=*/IntegerAttr());
  yield->insertOperands(yield->getNumOperands(), sum);
  builder.setInsertionPointAfter(changed);
  Value result = changed.getResults().back();
  if (summed.sum.getType() != type)
    result = ReshapeOp::create(builder, location, summed.sum.getType(), result);
  for (auto [old, made] : llvm::zip(region.getResults(), changed.getResults()))
    old.replaceAllUsesWith(made);
  region.erase();
  summed.sum.replaceAllUsesWith(result);
  eraseMakers(summed.sum);
}

void SumOperandsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function) ||
      !getTarget(function).sumsOperands())
    return;
  Block &block = function.getBody().front();
  // Sums that nothing between them and the product waits for.
  KernelOrder order(block);
  SmallVector<SummedOperand> found;
  DenseSet<Value> taken;
  KnownSums known;
  for (auto region : block.getOps<RegionOp>())
    if (auto summed = findSummed(region, known);
        summed && taken.insert(summed->sum).second &&
        order.tryJoin(order.getGroup(region),
                      order.getGroup(summed->sum.getDefiningOp())))
      found.push_back(*summed);
  llvm::for_each(found, addSum);
  if (!found.empty())
    sortTopologically(&block);
}
