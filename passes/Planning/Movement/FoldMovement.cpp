// Folds movement kernels: transposes and slices into the kernels and products
// of their users, transposes into the maker of the operand. Slices of adjacent
// elements become views for all users.
//
// A movement kernel reads and writes every element once and computes nothing.
// Libraries on a CPU and generated kernels take any distance between rows and
// between matrices, so nothing needs to move. For example, the heads of an
// attention are columns of one large matrix. A GPU's library takes one distance
// between the matrices of a batch: heads of several samples take several calls,
// which may cost more than the movement. Rows 16 to 31 of the weights of an
// LSTM (one gate) are a matrix like any other.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Movement/FoldIntoKernels.h"
#include "passes/Planning/Movement/Movement.h"

#include <numeric>

namespace mpc {
#define GEN_PASS_DEF_FOLDMOVEMENTPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// Makes `operand` of a product, or of a product's region, read from `source`.
static void readThere(OpOperand &operand, const Source &source) {
  OpBuilder builder(operand.getOwner());
  operand.set(plan::AccessOp::create(
      builder, operand.getOwner()->getLoc(), operand.get().getType(),
      source.value, source.access.offset, source.access.strides));
}

/// True if the contraction of `region` gets a generated kernel.
static bool isOurs(RegionOp region) {
  return region.getProvider() == ContractionProvider::Generated;
}

/// True if a Tensor Core kernel can copy as many bytes at once from rows laid
/// out as in `access` as from adjacent rows.
static bool isAsAligned(const Access &access) {
  constexpr int64_t kVectorElements = 8;
  int64_t unit = std::gcd(access.shape.back(), kVectorElements);
  int64_t common = std::gcd(unit, access.offset);
  for (auto [extent, stride] :
       llvm::drop_end(llvm::zip_equal(access.shape, access.strides)))
    common = extent == 1 ? common : std::gcd(common, stride);
  return common == unit;
}

/// True if `product`, a generated kernel, is as fast if it reads `argument`
/// through `access`: there are no more matrices, and copies are as wide.
static bool canMultiplyThere(MatMulOp product, BlockArgument argument,
                             Access access, const TargetInfo &target) {
  if (target.isGPU() && !isAsAligned(access))
    return false;
  // Samples with shared weights are multiplied as rows of one matrix.
  int64_t matrices = ShapedType::getNumElements(shapeOf(product).drop_back(2));
  bool isJoined = getProductExtents(product).batch != matrices;
  int64_t columns = access.shape.back();
  int64_t rows = ShapedType::getNumElements(ArrayRef(access.shape).drop_back());
  return !isJoined || argument != product.getLhs() ||
         access.reshape({rows, columns});
}

/// Makes the kernel that reads `input` multiply elements in place. The ops on
/// the way are cloned into the kernel, where they generate no code.
static void multiplyThere(OpOperand &input, const Source &source) {
  while (input.get() != source.value) {
    Operation *op = input.get().getDefiningOp();
    readThrough(input, isa<ReshapeOp>(op) ? op : findMovement(op));
  }
}

// Folds movements into the operands of a product. CPU libraries and generated
// kernels read operands of any strides, so the source before most movements
// saves most.
static void foldOperands(RegionOp region, const TargetInfo &target) {
  auto product = cast<MatMulOp>(region.getContraction());
  for (OpOperand &input : region->getOpOperands()) {
    BlockArgument argument =
        region.getBody().getArgument(input.getOperandNumber());
    // Only operands that nothing but the product reads can change.
    bool isOperand = !argument.use_empty() &&
                     llvm::all_of(argument.getUsers(), [&](Operation *user) {
                       return user == product;
                     });
    SmallVector<Source> sources =
        isOperand ? findSources(input.get()) : SmallVector<Source>();
    if (isOurs(region))
      llvm::erase_if(sources, [&](const Source &source) {
        return !canMultiplyThere(product, argument, source.access, target);
      });
    if (sources.empty())
      continue;
    if (isOurs(region))
      multiplyThere(input, sources.back());
    else
      readThere(input, sources.back());
  }
}

//===----------------------------------------------------------------------===//
// Slices side by side
//===----------------------------------------------------------------------===//

/// Returns the index of the first element of a slice of adjacent elements;
/// nullopt for other slices. In (8, 4, 16), a single index of axis 0 with a
/// range of axis 1 is adjacent; a range of axis 2 is not.
static std::optional<int64_t> findSection(SliceOp slice) {
  ArrayRef<int64_t> whole = shapeOf(slice.getInput()), sizes = slice.getSizes();
  // After the first axis with several elements, all axes must be whole.
  const int64_t *several =
      llvm::find_if(sizes, [](int64_t size) { return size != 1; });
  size_t axis = several - sizes.begin();
  if (axis < sizes.size() &&
      sizes.drop_front(axis + 1) != whole.drop_front(axis + 1))
    return std::nullopt;
  int64_t offset = 0;
  for (auto [start, stride] :
       llvm::zip_equal(slice.getOffsets(), plan::getDenseStrides(whole)))
    offset += start * stride;
  return offset;
}

/// Replaces a kernel that only copies adjacent elements by a view.
static void foldSection(RegionOp region, const TargetInfo &target) {
  auto slice = dyn_cast_or_null<SliceOp>(findMovement(region));
  std::optional<int64_t> offset = slice ? findSection(slice) : std::nullopt;
  if (!offset)
    return;
  Value source = region->getOperand(0), result = region.getResult(0);
  if (typeOf(result).getNumElements() == 0 || isReturned(result) ||
      !isWorthKeeping(source, result))
    return;
  // Kernels on a GPU load aligned vectors.
  int64_t bytes = *offset * plan::getElementBytes(elementOf(source));
  if (target.isGPU() && bytes % TargetInfo::kGPUAlignment != 0)
    return;
  OpBuilder builder(region);
  result.replaceAllUsesWith(
      plan::AccessOp::create(builder, region.getLoc(), result.getType(), source,
                             *offset, plan::getDenseStrides(shapeOf(result))));
  region.erase();
}

//===----------------------------------------------------------------------===//
// Results
//===----------------------------------------------------------------------===//

/// Returns the only user of `result` if the user is a transpose of whole rows,
/// alone in a kernel; null otherwise.
static TransposeOp findArrangement(Value result) {
  if (!result.hasOneUse())
    return nullptr;
  auto transpose =
      dyn_cast_or_null<TransposeOp>(findMovement(*result.user_begin()));
  return transpose && isArrangement(transpose) ? transpose : TransposeOp();
}

/// Returns the axes of `from` that each axis of a view of shape `to` merges:
/// (2, 3, 4, 8) as (6, 4, 8) gives {0, 1}, {2}, {3}. Returns nullopt for other
/// views.
static std::optional<SmallVector<SmallVector<int64_t, 2>>>
findMergedAxes(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<SmallVector<int64_t, 2>> merged;
  size_t axis = 0;
  for (int64_t extent : to) {
    SmallVector<int64_t, 2> &group = merged.emplace_back();
    int64_t elements = 1;
    while (axis < from.size() && (elements < extent || from[axis] == 1)) {
      elements *= from[axis];
      group.push_back(axis++);
    }
    if (elements != extent)
      return std::nullopt;
  }
  return merged;
}

/// Lets a kernel transpose the result of a product instead of a view that
/// merges axes of the result (two axes of heads into one). A view follows the
/// transpose. Only then can the product write in transposed order.
static void transposeInFrontOfView(RegionOp movement) {
  auto transpose = dyn_cast_or_null<TransposeOp>(findMovement(movement));
  auto view = transpose && isArrangement(transpose)
                  ? movement->getOperand(0).getDefiningOp<ReshapeOp>()
                  : ReshapeOp();
  if (!view || !view.getOutput().hasOneUse() || !view.getInput().hasOneUse())
    return;
  auto maker = view.getInput().getDefiningOp<RegionOp>();
  bool isProduct = maker ? maker.getContraction() != nullptr
                         : view.getInput().getDefiningOp<MatMulOp>() != nullptr;
  auto merged =
      findMergedAxes(shapeOf(view.getInput()), shapeOf(view.getOutput()));
  if (!isProduct || !merged || merged->back().size() != 1)
    return;
  // Axes that the view merges must move together.
  SmallVector<int64_t> perm, shape;
  for (int64_t axis : transpose.getPerm())
    llvm::append_range(perm, (*merged)[axis]);
  for (int64_t axis : perm)
    shape.push_back(shapeOf(view.getInput())[axis]);
  // The kernel reads the result; all other users read a view after the kernel.
  OpResult moved = movement->getResult(0);
  RankedTensorType type = typeOf(moved);
  OpBuilder builder(movement->getBlock(), ++Block::iterator(movement));
  auto after = ReshapeOp::create(builder, view.getLoc(), type, view.getInput());
  moved.replaceAllUsesWith(after.getOutput());
  after.setOperand(moved);
  movement->setOperand(0, view.getInput());
  movement.getBody().getArgument(0).setType(typeOf(view.getInput()));
  moved.setType(type.clone(shape));
  transpose.setPerm(perm);
  transpose.getOutput().setType(type.clone(shape));
  view.erase();
}

/// Lets the library write the result of `product`, an op or its region, in the
/// order of `transpose`.
static void arrange(Operation *product, TransposeOp transpose) {
  auto movement = transpose->getParentOfType<RegionOp>();
  OpBuilder builder(product->getContext());
  builder.setInsertionPointAfter(product);
  auto arrange = plan::ArrangeOp::create(
      builder, movement.getLoc(), movement.getResult(0).getType(),
      product->getResult(0), transpose.getPerm());
  movement.getResult(0).replaceAllUsesWith(arrange.getOutput());
  movement.erase();
}

/// Removes a transpose that is the only user of a result: the contraction, or
/// the kernel after the contraction, writes the transposed result. On a GPU,
/// only if rows are long enough.
static void foldResults(RegionOp region, const TargetInfo &target) {
  for (OpResult result : region->getResults()) {
    TransposeOp transpose = findArrangement(result);
    if (!transpose || (target.isGPU() && !movesRows(transpose)))
      continue;
    if (isBareLibraryContraction(region))
      arrange(region, transpose);
    else
      absorbTranspose(region, result, transpose);
  }
}

/// Erases kernels without users.
static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

// Folds movements into products of CPU libraries and of generated kernels,
// operands first.
static void foldProducts(Block &block, const TargetInfo &target) {
  SmallVector<RegionOp> products;
  for (auto region : block.getOps<RegionOp>())
    if (isa_and_present<MatMulOp>(region.getContraction()) &&
        (!target.isGPU() || isOurs(region)))
      products.push_back(region);
  for (RegionOp region : products)
    foldOperands(region, target);
  eraseUnread(block);
  for (RegionOp region : products)
    foldResults(region, target);
}

//===----------------------------------------------------------------------===//
// Products of a GPU's library
//===----------------------------------------------------------------------===//

namespace {
/// The movements that a product of a GPU's library can absorb: transposes,
/// slices and repeated heads of the operands, and a transpose of the result.
class GPUProduct {
public:
  GPUProduct(MatMulOp product, const TargetInfo &target);

  /// Absorbs the movements that save the most time, if any do.
  void fold();

private:
  /// A choice of movements to absorb: a source for either operand (null to read
  /// the operand itself), and the transpose of the result.
  struct Folding {
    const Source *lhs = nullptr, *rhs = nullptr;
    bool result = false;
  };

  std::optional<double> getSaving(const Folding &folding);
  double getTime(Value moved, Value source);

  MatMulOp product;
  const TargetInfo &target;
  SmallVector<Source> lhs, rhs; ///< where the operands can be read instead
  TransposeOp transpose;        ///< of the result; null if none
};
} // namespace

GPUProduct::GPUProduct(MatMulOp product, const TargetInfo &target)
    : product(product), target(target), lhs(findSources(product.getLhs())),
      rhs(findSources(product.getRhs())),
      transpose(findArrangement(product.getOutput())) {}

/// Returns the nanoseconds of a kernel that moves all elements of `result`.
static double getMoveTime(Value result, const TargetInfo &target) {
  int64_t bytes = typeOf(result).getNumElements() *
                  plan::getElementBytes(elementOf(result));
  return target.getLaunchTime() + target.getMemoryTime(2 * bytes);
}

/// Returns the time of the kernels between `source` and `moved`. Users share
/// the time: two products with a common movement save half each.
double GPUProduct::getTime(Value moved, Value source) {
  double time = 0;
  for (Value value = moved; value != source;
       value = value.getDefiningOp()->getOperand(0))
    if (findMovement(value.getDefiningOp()))
      time += getMoveTime(value, target) / value.getNumUses();
  return time;
}

/// Returns the nanoseconds saved by `folding`; nullopt if the product would
/// need more and smaller matrices.
std::optional<double> GPUProduct::getSaving(const Folding &folding) {
  ProductPlaces places = getProductPlaces(product);
  bool transA = product.getTransA();
  ProductLayout before = layOutProduct(product, transA, target, places);
  // Each absorbed movement saves the time of its kernels.
  double saving = 0;
  auto readThere = [&](Value operand, const Source *source,
                       ProductPlace &place) {
    if (!source)
      return;
    place = {source->access.offset, source->access.strides};
    saving += getTime(operand, source->value);
  };
  readThere(product.getLhs(), folding.lhs, places.a);
  readThere(product.getRhs(), folding.rhs, places.b);
  if (folding.result) {
    places.c = ProductPlace::getArranged(shapeOf(transpose.getOutput()),
                                         transpose.getPerm());
    saving += getMoveTime(transpose.getOutput(), target);
  }
  // The library must not take more and smaller matrices, nor lose alignment,
  // which would be slower. There are fewer and larger matrices if query heads
  // share a key head, without copies of the key head.
  ProductLayout after = layOutProduct(product, transA, target, places);
  if (after.countMatrices() > before.countMatrices() ||
      (isAligned(before, product) && !isAligned(after, product)))
    return std::nullopt;
  // Additional calls of the library reduce the saving.
  auto calls = static_cast<double>(after.countCalls() - before.countCalls());
  return saving - calls * target.getCallTime();
}

void GPUProduct::fold() {
  // The choices are all sources of an operand, and the operand itself.
  auto listChoices = [](ArrayRef<Source> sources) {
    SmallVector<const Source *> choices = {nullptr};
    for (const Source &source : sources)
      choices.push_back(&source);
    return choices;
  };
  Folding best;
  double most = 0;
  for (const Source *left : listChoices(lhs))
    for (const Source *right : listChoices(rhs))
      for (bool result : {false, true}) {
        const Folding folding{left, right, result};
        std::optional<double> saving =
            result && !transpose ? std::nullopt : getSaving(folding);
        if (saving && *saving > most) {
          best = folding;
          most = *saving;
        }
      }
  if (best.lhs)
    readThere(product.getLhsMutable(), *best.lhs);
  if (best.rhs)
    readThere(product.getRhsMutable(), *best.rhs);
  if (best.result)
    arrange(product, transpose);
}

//===----------------------------------------------------------------------===//
// Casts in front of transposes
//===----------------------------------------------------------------------===//

/// True if the kernel of `region` only casts one tensor.
static bool isCast(RegionOp region) {
  Operation &cast = region.getBody().front().front();
  return isa<amp::CastOp>(cast) && region->getNumOperands() == 1 &&
         region->getNumResults() == 1 &&
         cast.getNextNode() == region.getBody().front().getTerminator();
}

/// Lets the kernel of a transpose cast while storing, if it is the only user of
/// another kernel's cast. Examples: images converted to channels last, and
/// gradients of filters converted back.
static void foldCastIntoTranspose(RegionOp movement) {
  if (!isa_and_nonnull<TransposeOp>(findMovement(movement)))
    return;
  Value moved = movement->getOperand(0);
  auto maker = moved.getDefiningOp<RegionOp>();
  if (!maker || !moved.hasOneUse() || !isCast(maker))
    return;
  Value source = maker->getOperand(0);
  movement->setOperand(0, source);
  movement.getBody().getArgument(0).setType(source.getType());
  maker.erase();
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct FoldMovementPass
    : public mpc::impl::FoldMovementPassBase<FoldMovementPass> {
  using FoldMovementPassBase::FoldMovementPassBase;
  void runOnOperation() override;
};
} // namespace

void FoldMovementPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  Block &block = function.getBody().front();
  // Fold into products first, since products take strides; then into row
  // kernels.
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    transposeInFrontOfView(region);
  foldProducts(block, target);
  foldTransposesIntoKernels(block);
  // On a GPU, folding may take several library calls, so costs decide.
  if (target.isGPU()) {
    for (auto product : llvm::make_early_inc_range(block.getOps<MatMulOp>()))
      GPUProduct(product, target).fold();
    eraseUnread(block);
    for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
      foldCastIntoTranspose(region);
  }
  // The remaining slices of adjacent elements become views.
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    foldSection(region, target);
}
