// Removes movement kernels, which only copy elements: transposes and slices.
//
// - A kernel or product that reads a transposed or sliced value reads the
//   source by strides instead.
// - A kernel or product whose result is transposed stores the result in the
//   transposed order.
// - A slice of adjacent elements becomes a view: rows 16 to 31 of an LSTM's
//   weights (one gate) are a matrix like any other.
//
// A movement kernel reads and writes every element once and computes nothing.
// Libraries on a CPU and generated kernels take any distance between rows and
// between matrices: the heads of an attention are columns of one large matrix,
// and can be multiplied in place. A GPU's library takes only one distance
// between the matrices of a batch. Heads of several samples then take several
// calls, which may cost more than the movement.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Movement/FoldIntoAttention.h"
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

/// Makes `operand`, of a product or of a region with a product, read the
/// elements of `source` by strides, through plan.access.
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

/// True if the generated kernel of `product` stays as fast if it reads
/// `argument` by the strides of `access`: copies are as wide as before, and the
/// batch can still be multiplied as rows of one matrix.
static bool canMultiplyThere(MatMulOp product, BlockArgument argument,
                             Access access, const TargetInfo &target) {
  if (target.isGPU() && !isAsAligned(access))
    return false;
  // If samples share the right operand, their rows form one matrix. The strides
  // must still allow one matrix.
  int64_t matrices = ShapedType::getNumElements(shapeOf(product).drop_back(2));
  bool isJoined = getProductExtents(product).batch != matrices;
  int64_t columns = access.shape.back();
  int64_t rows = ShapedType::getNumElements(ArrayRef(access.shape).drop_back());
  return !isJoined || argument != product.getLhs() ||
         access.reshape({rows, columns});
}

/// Makes the kernel that reads `input` multiply elements of `source` in place.
/// The movement ops between `source` and `input` are cloned into the kernel,
/// where they generate no code.
static void multiplyThere(OpOperand &input, const Source &source) {
  while (input.get() != source.value) {
    Operation *op = input.get().getDefiningOp();
    readThrough(input, isa<ReshapeOp>(op) ? op : findMovement(op));
  }
}

// Makes the operands of a product skip transposes and slices. CPU libraries and
// generated kernels read operands of any strides, so read the source that skips
// the most movements.
static void foldOperands(RegionOp region, const TargetInfo &target) {
  auto product = cast<MatMulOp>(region.getContraction());
  for (OpOperand &input : region->getOpOperands()) {
    BlockArgument argument =
        region.getBody().getArgument(input.getOperandNumber());
    // An operand that another op of the kernel reads too must stay as it is.
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
  // A view on a GPU must start at an aligned address, since kernels load
  // vectors.
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

/// A product's result passes through a view that merges axes, then through a
/// transpose. Swaps the view and the transpose: the transpose then follows the
/// product, and the product can write in transposed order.
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
  // The axes that the view merges into one axis move together in the transpose.
  SmallVector<int64_t> perm, shape;
  for (int64_t axis : transpose.getPerm())
    llvm::append_range(perm, (*merged)[axis]);
  for (int64_t axis : perm)
    shape.push_back(shapeOf(view.getInput())[axis]);
  // The transpose now reads the product, and its users read a view of the
  // transpose.
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

/// Lets the library write the result of `product`, a matmul or the region of a
/// matmul, in the order of `transpose`.
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

/// If a transpose is the only user of a result of `region`, makes the
/// contraction, or the ops after the contraction, store the result in
/// transposed order, and erases the transpose. On a GPU, only if rows are long
/// enough.
static void foldResults(RegionOp region, const TargetInfo &target) {
  for (OpResult result : region->getResults()) {
    TransposeOp transpose = findArrangement(result);
    if (!transpose || (target.isGPU() && !movesRows(transpose)))
      continue;
    if (isBareLibraryContraction(region))
      arrange(region, transpose);
    else
      fuseTranspose(region, result, transpose);
  }
}

/// Erases kernels without users.
static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

// Folds movements into products of CPU libraries and of generated kernels.
// Operands come before results.
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
/// The movements that a product of a GPU's library can fuse: transposes,
/// slices and repeated heads of the operands, and a transpose of the result.
class GPUProduct {
public:
  GPUProduct(MatMulOp product, const TargetInfo &target);

  /// Fuses the movements that save the most time, if any do.
  void fold();

private:
  /// A choice of movements to fuse: a source for either operand (null to read
  /// the operand itself), and the transpose of the result.
  struct Folding {
    const Source *lhs = nullptr, *rhs = nullptr;
    bool result = false;
  };

  std::optional<double> getSaving(const Folding &folding);
  double getTime(Value moved, Value source);

  MatMulOp product;
  const TargetInfo &target;
  SmallVector<Source> lhs, rhs; ///< values from which operands can be read
  TransposeOp transpose;        ///< the only user of the result, or null
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
/// consist of more and smaller matrices, or lose alignment.
std::optional<double> GPUProduct::getSaving(const Folding &folding) {
  ProductPlaces places = getProductPlaces(product);
  bool transA = product.getTransA();
  ProductLayout before = layOutProduct(product, transA, target, places);
  // Each fused movement saves the time of its kernels.
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
  // More and smaller matrices, or unaligned matrices, would be slower. Folding
  // a repeated key head, in contrast, gives fewer and larger matrices: all
  // query heads that share the key head form one matrix.
  ProductLayout after = layOutProduct(product, transA, target, places);
  if (after.countMatrices() > before.countMatrices() ||
      (isAligned(before, product) && !isAligned(after, product)))
    return std::nullopt;
  // Additional calls of the library reduce the saving.
  auto calls = static_cast<double>(after.countCalls() - before.countCalls());
  return saving - calls * target.getCallTime();
}

void GPUProduct::fold() {
  // Null stands for the operand as it is.
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
  // Fold movements into products before row kernels, since products save most.
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    transposeInFrontOfView(region);
  // Attention reads and writes heads in place. Its movements go first, before
  // they become parts of kernels.
  foldMovementIntoAttention(block);
  eraseUnread(block);
  foldProducts(block, target);
  foldTransposesIntoKernels(block);
  // On a GPU, a product with folded operands may take several library calls, so
  // GPUProduct compares times.
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
