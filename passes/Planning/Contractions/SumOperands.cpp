// Lets products sum the rows of an operand.
//
// The gradient of a weight is the product of the layer's input and the gradient
// of the layer's output, contracted along the rows. The gradient of the layer's
// bias is the sum of the same rows of the output gradient. A library that packs
// its operands can add up the rows while packing.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/LibraryEpilogues.h"
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

/// The product of a region, and the sum of the product's operand `number`,
/// which another kernel computes.
struct SummedOperand {
  RegionOp product;
  unsigned number;
  Value sum;
};
} // namespace

// Returns the library product of a region; null for other regions, and if a
// plan.arrange or plan.place decides where the product is stored.
static MatMulOp findProduct(RegionOp region) {
  if (region.getProvider() != ContractionProvider::Library)
    return MatMulOp();
  auto matmul = dyn_cast_if_present<MatMulOp>(region.getContraction());
  bool isPlaced = llvm::any_of(region->getUsers(), [](Operation *user) {
    return isa<plan::ArrangeOp, plan::PlaceOp>(user);
  });
  return isPlaced ? MatMulOp() : matmul;
}

/// Caches the results of findSumOfRows, by value and number of columns, because
/// products may share an operand with many users. A value is null if no kernel
/// computes the sum.
using KnownSums = DenseMap<std::pair<Value, int64_t>, Value>;

static Value findSum(Value operand, KnownSums &known) {
  Value root = skipReshapes(operand);
  int64_t columns = shapeOf(operand).back();
  auto [entry, isNew] = known.try_emplace({root, columns});
  if (isNew)
    entry->second = findSumOfRows(root, columns);
  return entry->second;
}

// Finds an operand of `region` whose row sum another kernel computes in f32.
// nullopt if there is no such operand, or if `region` itself reads the sum.
static std::optional<SummedOperand> findSummed(RegionOp region,
                                               KnownSums &known) {
  MatMulOp matmul = findProduct(region);
  if (!matmul || typeOf(matmul).getRank() != 2)
    return std::nullopt;
  // Rows lie along the contraction axis in a transposed lhs, and in an rhs that
  // is not transposed.
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

// Erases the kernel of `sum`, and then the kernels and views before it that
// have no other users.
static void eraseMakers(Value sum) {
  while (Operation *maker = sum.getDefiningOp()) {
    if (!maker->use_empty() || !isa<RegionOp, ReshapeOp>(maker))
      return;
    sum = maker->getOperand(0);
    maker->erase();
  }
}

// Adds the sum to the region as another result, and erases the kernels that
// computed the sum before.
static void addSum(SummedOperand summed) {
  RegionOp region = summed.product;
  assert(summed.sum.getDefiningOp() && "another kernel computes the sum");
  OpBuilder builder(region);
  Location location = builder.getFusedLoc(
      {region.getLoc(), summed.sum.getDefiningOp()->getLoc()});
  // The region returns the sum as one row. A reshape gives users of the old sum
  // the old shape.
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
  // Add the sum as the last op of the body, in front of the terminator.
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
  // Moving a sum into the product would create a cycle if the product depends
  // on the sum. KernelOrder rejects such sums.
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
