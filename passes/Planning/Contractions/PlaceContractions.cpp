// Decides who computes each contraction, and hands a GPU's library the
// epilogues it supports.
//
// Every region of kind contraction gets the attribute `provider`. A CPU's
// library calls an epilogue kernel on its tiles, so nothing else changes. A
// GPU's library fuses only a few kinds of epilogues. All other regions are
// split here, and only here, into the contraction and a pointwise kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/AMP/TF32.h"
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Planning/Contractions/LibraryEpilogues.h"

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

#include <deque>

namespace mpc {
#define GEN_PASS_DEF_PLACECONTRACTIONSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// A region with a contraction, and how the contraction is computed.
struct Placement {
  RegionOp region;
  LibraryEpilogue epilogue;
  bool generated = false;
  /// The last fused op if the library fuses only a part of the epilogue: the
  /// add of a bias before a relu. Null if the library fuses all or nothing.
  Operation *lastFused = nullptr;
  /// The forward product whose relu mask this product reads, or null.
  Placement *maskedBy = nullptr;
  /// True if a backward product will read the bit mask of this product's relu.
  /// `mask` is the mask, null until the product is created.
  bool makesMask = false;
  Value mask;
};

struct PlaceContractionsPass
    : public mpc::impl::PlaceContractionsPassBase<PlaceContractionsPass> {
  using PlaceContractionsPassBase::PlaceContractionsPassBase;
  void runOnOperation() override;
};

/// Places the contractions of one function.
class Placer {
public:
  Placer(func::FuncOp function, const TargetInfo &target,
         std::optional<ContractionProvider> override, bool isBare)
      : function(function), target(target), override(override), isBare(isBare),
        builder(function.getContext()) {}
  LogicalResult run();

private:
  void decide(Placement &placement);
  bool isFused(Placement &placement);
  Placement *findMask(Placement &placement);

  void emitForLibrary(Placement &placement);
  Value emitProduct(Placement &placement, MatMulOp matmul);
  Block *addUnfused(plan::ProductOp product);
  void addUnfusedEpilogue(plan::ProductOp product, Placement &placement);
  void addUnfusedSum(plan::ProductOp product, Value sum);
  void emitSplit(RegionOp region, Operation *hero, Value product);
  Value emitHero(Placement &placement, Operation *hero);
  Value emitWithBiasGrad(RegionOp region, MatMulOp matmul);
  Value castTo(RegionOp region, Value value, Type element, StringRef suffix);

  func::FuncOp function;
  const TargetInfo &target;
  std::optional<ContractionProvider> override;
  bool isBare; ///< true if libraries get contractions without their epilogues
  OpBuilder builder;
  std::deque<Placement> placements;
  DenseMap<Operation *, Placement *> placementOf;
  /// Values cast to a type that the library supports, by original value and
  /// type.
  DenseMap<std::pair<Value, Type>, Value> casts;
};
} // namespace

static bool isF32(Value value) { return elementOf(value).isF32(); }

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

// A GPU's library multiplies operands of one type only. Returns this type for
// `hero`: the wider operand type, so that no operand is rounded. If the result
// of a convolution has another type, returns f32.
static Type operandType(Operation *hero) {
  assert(hero->getNumOperands() >= 2 && "a contraction has two factors");
  Builder builder(hero->getContext());
  Type first = elementOf(hero->getOperand(0));
  Type second = elementOf(hero->getOperand(1));
  Type result = elementOf(hero->getResult(0));
  if (first.isF64() || second.isF64() || result.isF64())
    return builder.getF64Type();
  bool fits = isa<MatMulOp>(hero) || result == first;
  return first == second && fits ? first : builder.getF32Type();
}

// Returns the type in which the library writes the result: the operands' type
// if the IR asks for it, else f32, the accumulator's type.
static Type resultType(Operation *hero) {
  Builder builder(hero->getContext());
  Type operand = operandType(hero), result = elementOf(hero->getResult(0));
  if (operand.isF64())
    return operand;
  return result == operand ? result : builder.getF32Type();
}

static bool hasLibraryTypes(Operation *hero) {
  return llvm::all_of(hero->getOperands(),
                      [&](Value operand) {
                        return elementOf(operand) == operandType(hero);
                      }) &&
         elementOf(hero->getResult(0)) == resultType(hero);
}

// Drops the add of a bias of constant zeros. PyTorch's exporter adds zeros to
// convolutions without a bias, and no GPU library fuses a bias with a
// convolution. Dropping is exact except for the sign of zero (-0 + 0 = 0),
// which libraries do not guarantee for a sum of products anyway. If the add
// rounds, a cast replaces it.
static void dropZeroBias(RegionOp region) {
  assert(region.getContraction() && "a region of a contraction");
  // Find a sum of the result and zeros.
  Value result = region.getContraction()->getResult(0);
  if (!result.hasOneUse())
    return;
  auto add = dyn_cast<AddOp>(*result.user_begin());
  if (!add || add.getType().getShape() != shapeOf(result))
    return;
  Value bias = add.getLhs() == result ? add.getRhs() : add.getLhs();
  if (!matchPattern(bias, m_AnyZeroFloat()))
    return;
  // The sum equals the result, cast to the type of the sum.
  OpBuilder builder(add);
  add.getOutput().replaceAllUsesWith(
      add.getType() == result.getType()
          ? result
          : amp::CastOp::create(builder, add.getLoc(), add.getType(), result)
                .getOutput());
  Operation *zeros = bias.getDefiningOp();
  add.erase();
  if (zeros->use_empty())
    zeros->erase();
}

// If a cast is the only user of the contraction's result, makes the contraction
// produce the type of the cast, and erases the cast.
static void foldCast(RegionOp region) {
  Operation *hero = region.getContraction();
  Value result = hero->getResult(0);
  if (!result.hasOneUse() || !elementOf(result).isF32())
    return;
  auto cast = dyn_cast<amp::CastOp>(*result.user_begin());
  if (!cast || !llvm::all_of(hero->getOperands(), [&](Value operand) {
        return elementOf(operand) == elementOf(cast.getOutput());
      }))
    return;
  result.setType(cast.getType());
  cast.getOutput().replaceAllUsesWith(result);
  cast.erase();
}

//===----------------------------------------------------------------------===//
// Decisions
//===----------------------------------------------------------------------===//

// Returns the forward product whose relu mask `placement` can use, or null.
// cuBLASLt makes the mask before rounding the product, so the product must be
// f32.
Placement *Placer::findMask(Placement &placement) {
  Operation *producer = placement.epilogue.operand.getDefiningOp();
  Placement *forward = producer ? placementOf.lookup(producer) : nullptr;
  if (!forward || forward->generated ||
      forward->epilogue.kind != LibraryEpilogue::Kind::ReluBias ||
      !elementOf(placement.epilogue.operand).isF32())
    return nullptr;
  auto matmul = cast<MatMulOp>(placement.region.getContraction());
  auto other = cast<MatMulOp>(forward->region.getContraction());
  ProductExtents own = getProductExtents(matmul);
  ProductExtents its = getProductExtents(other);
  return own.batch == 1 && own.m == its.m && own.n == its.n ? forward : nullptr;
}

// True if the library may fuse an epilogue with `matmul`. False for products
// with an extent of 1: the release notes of cuBLASLt 11.3 to 12.8 list wrong
// results and out-of-bounds accesses for fused epilogues on such products.
static bool mayHaveEpilogue(MatMulOp matmul) {
  ProductExtents extents = getProductExtents(matmul);
  return hasLibraryTypes(matmul) && extents.batch == 1 && extents.m != 1 &&
         extents.n != 1 && extents.k != 1;
}

// True if the library fuses the epilogue of `placement` with the product.
bool Placer::isFused(Placement &placement) {
  auto matmul = dyn_cast<MatMulOp>(placement.region.getContraction());
  if (!matmul || !mayHaveEpilogue(matmul) || elementOf(matmul).isF64())
    return false;
  // The library must be able to write the type of the region's result. A fused
  // relu does not change the type.
  Type written = elementOf(placement.region.getResult(0));
  if (written != operandType(matmul) && !written.isF32())
    return false;
  switch (placement.epilogue.kind) {
  case LibraryEpilogue::Kind::Bias:
    return true;
  case LibraryEpilogue::Kind::ReluBias:
    // The library's relu turns NaN into 0, which hides that training diverged.
    // Unless the user asks for the library, it adds only the bias, and a kernel
    // computes the relu.
    if (override == ContractionProvider::Library)
      return true;
    placement.epilogue.kind = LibraryEpilogue::Kind::Bias;
    placement.lastFused = *matmul.getOutput().user_begin();
    return true;
  case LibraryEpilogue::Kind::ReluGrad:
    placement.maskedBy = findMask(placement);
    return placement.maskedBy;
  default:
    return false;
  }
}

void Placer::decide(Placement &placement) {
  if (!target.callsEpilogues()) {
    dropZeroBias(placement.region);
    foldCast(placement.region);
  }
  assert(placement.region.getContraction() && "a region of a contraction");
  placement.epilogue = getLibraryEpilogue(placement.region);
  const bool isEmpty = placement.epilogue.kind == LibraryEpilogue::Kind::None;
  const bool canBeFused = !target.callsEpilogues() && !isBare && !isEmpty;
  if (!isEmpty && !(canBeFused && isFused(placement)))
    placement.epilogue.kind = LibraryEpilogue::Kind::Other;
  ContractionProvider provider = getContractionProvider(
      placement.region.getContraction(), target, override);
  placement.generated = provider == ContractionProvider::Generated;
  placement.region.setProvider(provider);
  if (placement.maskedBy && !placement.generated)
    placement.maskedBy->makesMask = true;
}

//===----------------------------------------------------------------------===//
// For a GPU's library
//===----------------------------------------------------------------------===//

// Returns `value` with elements of type `element`, cast by a new kernel if
// needed.
Value Placer::castTo(RegionOp region, Value value, Type element,
                     StringRef suffix) {
  if (elementOf(value) == element)
    return value;
  // One kernel casts a value for all users.
  Value &known = casts[{value, element}];
  if (known)
    return known;
  Location location = region.getLoc();
  auto type = typeOf(value).clone(element);
  auto cast =
      RegionOp::create(builder, location, type, KernelKind::Pointwise, value);
  if (std::optional<StringRef> name = region.getKernel())
    cast.setKernel((*name + suffix).str());
  OpBuilder::InsertionGuard guard(builder);
  Block *body = builder.createBlock(&cast.getBody());
  Value input = body->addArgument(value.getType(), location);
  Value result = amp::CastOp::create(builder, location, type, input);
  YieldOp::create(builder, location, result);
  known = cast.getResult(0);
  return known;
}

// Creates the fallback body of a product: the kernels that run if the library
// computes only the product, without the fused ops. The body's argument is the
// product.
Block *Placer::addUnfused(plan::ProductOp product) {
  assert(product.getUnfused().empty() && "a product has one fallback");
  return builder.createBlock(&product.getUnfused(), {},
                             product.getOutput().getType(), product.getLoc());
}

// Adds a kernel for the ops that the library fuses with the product of
// `placement`.
void Placer::addUnfusedEpilogue(plan::ProductOp product, Placement &placement) {
  // The kernel reads the product and the bias, and computes the fused result.
  OpBuilder::InsertionGuard guard(builder);
  RegionOp region = placement.region;
  Block *unfused = addUnfused(product);
  auto type = product.getOutput().getType();
  auto epilogue =
      RegionOp::create(builder, region.getLoc(), type, KernelKind::Pointwise,
                       {unfused->getArgument(0), placement.epilogue.operand});
  if (std::optional<StringRef> name = region.getKernel())
    epilogue.setKernel((*name + "_bias").str());
  plan::YieldOp::create(builder, region.getLoc(), epilogue.getResult(0));

  // Clone the ops after the contraction. Their operands become the kernel's
  // arguments: the product and the bias.
  Block *body = builder.createBlock(&epilogue.getBody());
  Block &original = region.getBody().front();
  Operation *hero = region.getContraction();
  IRMapping mapping;
  for (Value input : epilogue.getInputs())
    body->addArgument(input.getType(), region.getLoc());
  mapping.map(hero->getResult(0), body->getArgument(0));
  for (BlockArgument argument : original.getArguments())
    if (region.getTiedInput(argument) == placement.epilogue.operand)
      mapping.map(argument, body->getArgument(1));
  Value last;
  // Stop after the last op that the library fuses; another kernel computes the
  // rest.
  for (Operation &op : original.without_terminator()) {
    if (&op == hero)
      continue;
    last = builder.clone(op, mapping)->getResult(0);
    if (&op == placement.lastFused)
      break;
  }
  YieldOp::create(builder, region.getLoc(), last);
}

// Adds clones of the kernels that compute `sum` from an operand of the product,
// as the fallback if the library cannot compute the sum.
void Placer::addUnfusedSum(plan::ProductOp product, Value sum) {
  OpBuilder::InsertionGuard guard(builder);
  addUnfused(product);
  SmallVector<Operation *> kernels;
  for (Value value = sum;
       value != product.getLhs() && value != product.getRhs();
       value = kernels.back()->getOperand(0))
    kernels.push_back(value.getDefiningOp());
  IRMapping mapping;
  for (Operation *kernel : llvm::reverse(kernels))
    builder.clone(*kernel, mapping);
  plan::YieldOp::create(builder, product.getLoc(), mapping.lookup(sum));
}

// Creates the product with the fused epilogue, before the region. Returns the
// output.
Value Placer::emitProduct(Placement &placement, MatMulOp matmul) {
  RegionOp region = placement.region;
  // The product writes the result of the last op that the library fuses.
  auto type = typeOf(placement.lastFused ? placement.lastFused->getResult(0)
                                         : region.getResult(0));
  // A relu's mask has a bit per element, in rows padded for cuBLASLt.
  ProductExtents extents = getProductExtents(matmul);
  Type maskType =
      RankedTensorType::get({extents.m, plan::getAuxRowBytes(extents.n)},
                            builder.getIntegerType(8, /*isSigned=*/false));
  FusedKind fused;
  Value bias, mask, sum;
  Type newMask;
  // With the bit mask of a relu, the product computes the gradient of the relu,
  // and possibly the gradient of a bias. Without a mask, the fused epilogue is
  // a bias, with or without a relu.
  if (placement.maskedBy) {
    mask = placement.maskedBy->mask;
    sum = findSumOfRows(region.getResult(0), extents.n);
    if (sum && elementOf(sum) != type.getElementType())
      sum = Value();
    fused = sum ? FusedKind::DReluBGrad : FusedKind::DRelu;
  } else {
    bias = placement.epilogue.operand;
    newMask = placement.makesMask ? maskType : Type();
    fused = placement.epilogue.kind == LibraryEpilogue::Kind::Bias
                ? FusedKind::Bias
            : placement.makesMask ? FusedKind::ReluAuxBias
                                  : FusedKind::ReluBias;
  }
  auto product = plan::ProductOp::create(
      builder, region.getLoc(), type, newMask, sum ? sum.getType() : Type(),
      fused, region.getTiedInput(matmul.getLhs()),
      region.getTiedInput(matmul.getRhs()), bias, mask, matmul.getTransA(),
      matmul.getTransB(), matmul.getAlpha());
  amp::copyTF32(matmul, product);
  placement.mask = product.getNewAux();
  // The fallback kernels would need the bit mask in cuBLASLt's private layout.
  // So a product that reads or writes a mask has no fallback.
  if (!mask && !newMask)
    addUnfusedEpilogue(product, placement);
  if (sum)
    sum.replaceAllUsesWith(product.getBiasGrad());
  return product.getOutput();
}

// Creates the product together with the sum of an operand's rows (the gradient
// of a bias), if other kernels compute this sum now. Returns null if no kernel
// does, or if a user of the sum comes before the operands of the product.
Value Placer::emitWithBiasGrad(RegionOp region, MatMulOp matmul) {
  Value lhs = region.getTiedInput(matmul.getLhs());
  Value rhs = region.getTiedInput(matmul.getRhs());
  if (!mayHaveEpilogue(matmul) || typeOf(lhs).getRank() != 2 ||
      typeOf(rhs).getRank() != 2 || !elementOf(matmul).isF32())
    return Value();
  // The sum must run along the contraction axis k. The rows of an operand lie
  // along k in a transposed lhs, and in an rhs that is not transposed.
  Value sum;
  FusedKind fused = FusedKind::BGradA;
  if (matmul.getTransA() &&
      (sum = findSumOfRows(lhs, typeOf(lhs).getShape().back())))
    fused = FusedKind::BGradA;
  else if (!matmul.getTransB() &&
           (sum = findSumOfRows(rhs, typeOf(rhs).getShape().back())))
    fused = FusedKind::BGradB;
  if (!sum || elementOf(sum) != elementOf(matmul))
    return Value();

  // Insert before all users of the sum, but after the product's operands.
  Operation *place = region;
  for (Operation *user : sum.getUsers())
    if (user->isBeforeInBlock(place))
      place = user;
  for (Value operand : {lhs, rhs})
    if (Operation *producer = operand.getDefiningOp())
      if (!producer->isBeforeInBlock(place))
        return Value();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(place);
  auto product = plan::ProductOp::create(
      builder, region.getLoc(), matmul.getType(), Type(), sum.getType(), fused,
      lhs, rhs, Value(), Value(), matmul.getTransA(), matmul.getTransB(),
      matmul.getAlpha());
  amp::copyTF32(matmul, product);
  addUnfusedSum(product, sum);
  sum.replaceAllUsesWith(product.getBiasGrad());
  return product.getOutput();
}

// Creates the contraction without its epilogue, with operands and result in the
// types that the library supports.
Value Placer::emitHero(Placement &placement, Operation *hero) {
  RegionOp region = placement.region;
  auto matmul = dyn_cast<MatMulOp>(hero);
  if (matmul && !isBare)
    if (Value product = emitWithBiasGrad(region, matmul))
      return product;
  Type element = operandType(hero);
  IRMapping mapping;
  static constexpr llvm::StringLiteral suffixes[] = {"_lhs", "_rhs"};
  for (auto [operand, suffix] : llvm::zip(hero->getOperands(), suffixes))
    if (!mapping.contains(operand))
      mapping.map(operand, castTo(region, region.getTiedInput(operand), element,
                                  suffix));
  Operation *alone = builder.clone(*hero, mapping);
  alone->setLoc(region.getLoc());
  // All operands were f16 or bf16, and are now f32. tf32 represents every such
  // value exactly, so Tensor Cores may multiply in tf32 without loss.
  if (element.isF32() && !llvm::any_of(hero->getOperands(), isF32))
    alone->setAttr(plan::kComputeAttr,
                   plan::ComputeAttr::get(alone->getContext(), Compute::TF32));
  Value result = alone->getResult(0);
  result.setType(typeOf(result).clone(resultType(hero)));
  return result;
}

// Moves the ops after `hero` to a kernel that reads `product`. `hero` is the
// contraction, or the last op that the library fuses.
void Placer::emitSplit(RegionOp region, Operation *hero, Value product) {
  Block &body = region.getBody().front();
  Operation *contraction = region.getContraction();
  auto isDone = [&](Operation *op) { return op == hero || op == contraction; };
  // Collect the operands of the remaining ops; the product comes first.
  SmallVector<Value> inputs = {product}, arguments;
  for (auto [argument, input] :
       llvm::zip(body.getArguments(), region.getInputs()))
    if (!llvm::all_of(argument.getUsers(), isDone)) {
      inputs.push_back(input);
      arguments.push_back(argument);
    }
  auto epilogue =
      RegionOp::create(builder, region.getLoc(), region.getResultTypes(),
                       KernelKind::Pointwise, inputs);
  epilogue.setKernelAttr(region.getKernelAttr());
  copyPhase(region, epilogue);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&epilogue.getBody());
  IRMapping mapping;
  for (Value input : inputs)
    block->addArgument(input.getType(), region.getLoc());
  mapping.map(arguments, block->getArguments().drop_front());
  // The library may return a wider type than the contraction has in the IR.
  Value exact = block->getArgument(0);
  Type type = hero->getResult(0).getType();
  mapping.map(hero->getResult(0),
              exact.getType() == type
                  ? exact
                  : amp::CastOp::create(builder, hero->getLoc(), type, exact)
                        .getOutput());
  for (Operation &op : body)
    if (!isDone(&op))
      builder.clone(op, mapping);
  region.replaceAllUsesWith(epilogue.getResults());
}

void Placer::emitForLibrary(Placement &placement) {
  RegionOp region = placement.region;
  Operation *hero = region.getContraction();
  builder.setInsertionPoint(region);
  // If the library does not fuse the epilogue, a separate kernel computes the
  // epilogue.
  bool fused = placement.epilogue.kind == LibraryEpilogue::Kind::Bias ||
               placement.epilogue.kind == LibraryEpilogue::Kind::ReluBias ||
               placement.epilogue.kind == LibraryEpilogue::Kind::ReluGrad;
  Value product = fused ? emitProduct(placement, cast<MatMulOp>(hero))
                        : emitHero(placement, hero);
  // isAll: the product computes everything the region did. Otherwise, a kernel
  // computes the rest of the epilogue.
  const bool isAll =
      fused ? !placement.lastFused
            : placement.epilogue.kind == LibraryEpilogue::Kind::None &&
                  product.getType() == hero->getResult(0).getType();
  if (isAll)
    region.getResult(0).replaceAllUsesWith(product);
  else
    emitSplit(region, placement.lastFused ? placement.lastFused : hero,
              product);
  region.erase();
}

// Verifies that the filters of a convolution have the layout that the target's
// library takes. mpc-convert-layout of the Fusion stage inserts the transposes.
static LogicalResult verifyFilterLayout(Operation *contraction,
                                        const TargetInfo &target) {
  if (isa<MatMulOp>(contraction) ||
      hasInputChannelsLast(contraction) == takesInputChannelsLast(target))
    return success();
  return contraction->emitOpError("has a filter layout that target '")
         << target.getName()
         << "' does not take, run mpc-convert-layout for it";
}

LogicalResult Placer::run() {
  for (auto region : function.getBody().front().getOps<RegionOp>()) {
    Operation *contraction = region.getContraction();
    if (!contraction)
      continue;
    if (failed(verifyFilterLayout(contraction, target)))
      return failure();
    Placement &placement = placements.emplace_back();
    placement.region = region;
    placementOf[region] = &placement;
    decide(placement);
  }
  if (target.callsEpilogues())
    return success();
  for (Placement &placement : placements)
    if (!placement.generated)
      emitForLibrary(placement);
  // Products now compute some sums, so erase the kernels of these sums.
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(function.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  return success();
}

void PlaceContractionsPass::runOnOperation() {
  func::FuncOp function = getOperation();
  if (function.isExternal() || getKernelKind(function))
    return;
  TargetInfo target = getTarget(function);
  std::optional<ContractionProvider> override =
      symbolizeContractionProvider(contractions);
  bool isBare = contractions == "bare";
  if (!override && !isBare && contractions != "table") {
    function.emitError("expected --contractions table, library, generated or "
                       "bare, found ")
        << contractions;
    return signalPassFailure();
  }
  if (failed(Placer(function, target, override, isBare).run()))
    signalPassFailure();
}
