// Lets kernels and products read what transposes and slices move where it was
// before, and write what a transpose moves where it will be; and lets
// everything read a slice whose elements lie side by side where it is.
//
// Such a kernel reads and writes every element once and computes nothing. A
// library on a CPU takes the distance between rows and between matrices as it
// is, as kernels of our own do, so there is nothing to move: the heads of an
// attention, for example, are columns of one large matrix. A GPU's library
// takes one distance between the matrices of a batch: heads of several samples
// are several calls, which may cost more than moving them. Rows 16 to 31 of the
// weights of an LSTM, those of one gate, are a matrix like any other.
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

/// Makes `operand`, of a product or its region, read elements where they are.
static void readThere(OpOperand &operand, const Source &source) {
  OpBuilder builder(operand.getOwner());
  operand.set(plan::AccessOp::create(
      builder, operand.getOwner()->getLoc(), operand.get().getType(),
      source.value, source.access.offset, source.access.strides));
}

/// Whether a kernel is made for the contraction of `region`.
static bool isOurs(RegionOp region) {
  return region.getProvider() == ContractionProvider::Generated;
}

/// Whether a Tensor Core kernel copies as many bytes at once from rows that lie
/// as `access` says as from rows that lie side by side.
static bool isAsAligned(const Access &access) {
  constexpr int64_t kVectorElements = 8;
  int64_t unit = std::gcd(access.shape.back(), kVectorElements);
  int64_t common = std::gcd(unit, access.offset);
  for (auto [extent, stride] :
       llvm::drop_end(llvm::zip_equal(access.shape, access.strides)))
    common = extent == 1 ? common : std::gcd(common, stride);
  return common == unit;
}

/// Whether `product`, whose kernel is ours, is done as well where `argument` is
/// read as `access` says: it stays as few matrices, and is copied in pieces as
/// large.
static bool canMultiplyThere(MatMulOp product, BlockArgument argument,
                             Access access, const TargetInfo &target) {
  if (target.isGPU() && !isAsAligned(access))
    return false;
  // Samples that share weights are rows of one matrix.
  int64_t matrices = ShapedType::getNumElements(shapeOf(product).drop_back(2));
  bool isJoined = getProductExtents(product).batch != matrices;
  int64_t columns = access.shape.back();
  int64_t rows = ShapedType::getNumElements(ArrayRef(access.shape).drop_back());
  return !isJoined || argument != product.getLhs() ||
         access.reshape({rows, columns});
}

/// Makes the kernel that reads `input` multiply elements where they are: copies
/// of the ops that lead there are in the kernel then, which make no code.
static void multiplyThere(OpOperand &input, const Source &source) {
  while (input.get() != source.value) {
    Operation *op = input.get().getDefiningOp();
    readThrough(input, isa<ReshapeOp>(op) ? op : findMovement(op));
  }
}

// Libraries on a CPU and kernels of our own read any distances: the farther
// away, the less is moved.
static void foldOperands(RegionOp region, const TargetInfo &target) {
  auto product = cast<MatMulOp>(region.getContraction());
  for (OpOperand &input : region->getOpOperands()) {
    BlockArgument argument =
        region.getBody().getArgument(input.getOperandNumber());
    // Of what the product alone reads, all places to read it from,
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
    // and the farthest is taken.
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

/// The first element of a slice whose elements lie side by side; nothing for
/// others. Of (8, 4, 16), one index of the first axis and a range of the second
/// are such a slice, a range of the third is none.
static std::optional<int64_t> findSection(SliceOp slice) {
  ArrayRef<int64_t> whole = shapeOf(slice.getInput()), sizes = slice.getSizes();
  // Behind the first axis with several elements, all axes are whole.
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

/// Makes a view of a kernel that only copies elements which lie side by side.
static void foldSection(RegionOp region, const TargetInfo &target) {
  auto slice = dyn_cast_or_null<SliceOp>(findMovement(region));
  std::optional<int64_t> offset = slice ? findSection(slice) : std::nullopt;
  if (!offset)
    return;
  Value source = region->getOperand(0), result = region.getResult(0);
  if (typeOf(result).getNumElements() == 0 || isReturned(result) ||
      !isWorthKeeping(source, result))
    return;
  // Kernels on a GPU load vectors.
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

/// The transpose that alone reads `result`, in a kernel of its own, and keeps
/// rows whole; null where there is none.
static TransposeOp findArrangement(Value result) {
  if (!result.hasOneUse())
    return nullptr;
  auto transpose =
      dyn_cast_or_null<TransposeOp>(findMovement(*result.user_begin()));
  return transpose && isArrangement(transpose) ? transpose : TransposeOp();
}

/// For each axis of a view of shape `to`, the axes of `from` that it merges:
/// of (2, 3, 4, 8) as (6, 4, 8), 0 and 1, 2, 3. Nothing for other views.
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

/// Lets a kernel that transposes a view of a product's result, in which heads
/// are one axis that are two in the product, transpose the result itself; a
/// view of what it makes follows. Only then can the product write there.
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
  // The axes that are one in the view move together.
  SmallVector<int64_t> perm, shape;
  for (int64_t axis : transpose.getPerm())
    llvm::append_range(perm, (*merged)[axis]);
  for (int64_t axis : perm)
    shape.push_back(shapeOf(view.getInput())[axis]);
  // The kernel reads the result, and everybody else a view of what it makes.
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

/// Lets the library write `product`, an op or its region, as `transpose` would.
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

/// Removes a transpose that is the only reader of a result: the contraction, or
/// the kernel behind it, writes the transposed result. A GPU writes rows that
/// are long enough.
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

/// Erases kernels whose results nobody reads any more.
static void eraseUnread(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op))
      op.erase();
}

// Products of libraries on a CPU and of kernels of our own, their operands
// first.
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
/// What a product of a GPU's library can do without: transposes, slices and
/// repeated heads in front of its operands, and a transpose behind it.
class GPUProduct {
public:
  GPUProduct(MatMulOp product, const TargetInfo &target);

  /// Leaves out those whose absence saves most time, if any do.
  void fold();

private:
  /// What is left out: kernels in front of an operand, if it is read elsewhere,
  /// and the one behind the result.
  struct Folding {
    const Source *lhs = nullptr, *rhs = nullptr;
    bool result = false;
  };

  std::optional<double> getSaving(const Folding &folding);
  double getTime(Value moved, Value source);

  MatMulOp product;
  const TargetInfo &target;
  SmallVector<Source> lhs, rhs; ///< in whose memory the operands are
  TransposeOp transpose;        ///< of the result
};
} // namespace

GPUProduct::GPUProduct(MatMulOp product, const TargetInfo &target)
    : product(product), target(target), lhs(findSources(product.getLhs())),
      rhs(findSources(product.getRhs())),
      transpose(findArrangement(product.getOutput())) {}

/// The nanoseconds of a kernel that moves all elements of `result`.
static double getMoveTime(Value result, const TargetInfo &target) {
  int64_t bytes = typeOf(result).getNumElements() *
                  plan::getElementBytes(elementOf(result));
  return target.getLaunchTime() + target.getMemoryTime(2 * bytes);
}

/// The time that kernels take to move `source` to `moved`, each shared among
/// its readers: two products that read the same heads save half of it each.
double GPUProduct::getTime(Value moved, Value source) {
  double time = 0;
  for (Value value = moved; value != source;
       value = value.getDefiningOp()->getOperand(0))
    if (findMovement(value.getDefiningOp()))
      time += getMoveTime(value, target) / value.getNumUses();
  return time;
}

/// The nanoseconds saved where `folding` is left out; nothing where the product
/// would be more and smaller ones.
std::optional<double> GPUProduct::getSaving(const Folding &folding) {
  // The product as it is, and as it would be.
  ProductPlaces places = getProductPlaces(product);
  bool transA = product.getTransA();
  ProductLayout before = layOutProduct(product, transA, target, places);
  // Each folded part saves the time of the kernels that would move it.
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
  // The library must take no more and smaller matrices than before, and as
  // fast: without alignment it is slower. It takes fewer and larger ones where
  // heads of queries share a head of keys that was copied for each.
  ProductLayout after = layOutProduct(product, transA, target, places);
  if (after.countMatrices() > before.countMatrices() ||
      (isAligned(before, product) && !isAligned(after, product)))
    return std::nullopt;
  // What is saved pays for the calls that are added.
  auto calls = static_cast<double>(after.countCalls() - before.countCalls());
  return saving - calls * target.getCallTime();
}

void GPUProduct::fold() {
  // Every source of either operand, or the operand as it is.
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

/// Whether the kernel of `region` casts one tensor and does nothing else.
static bool isCast(RegionOp region) {
  Operation &cast = region.getBody().front().front();
  return isa<amp::CastOp>(cast) && region->getNumOperands() == 1 &&
         region->getNumResults() == 1 &&
         cast.getNextNode() == region.getBody().front().getTerminator();
}

/// Lets the kernel of a transpose cast what it stores, where nothing else reads
/// what another kernel casts for it: images, on their way to be channels last,
/// or the gradients of filters, on their way back.
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
  // Products first, which take strides; then kernels over rows.
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    transposeInFrontOfView(region);
  foldProducts(block, target);
  foldTransposesIntoKernels(block);
  // Calls of a GPU's library cost more where they are several.
  if (target.isGPU()) {
    for (auto product : llvm::make_early_inc_range(block.getOps<MatMulOp>()))
      GPUProduct(product, target).fold();
    eraseUnread(block);
    for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
      foldCastIntoTranspose(region);
  }
  // What is left of slices may be views.
  for (auto region : llvm::make_early_inc_range(block.getOps<RegionOp>()))
    foldSection(region, target);
}
