// Rewrites composite ops, such as softmax, into elementwise ops and reductions.
// The decompositions are in the other files Decompose*.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Decompose.h"
#include "passes/Fusion/Passes.h"

#include "llvm/ADT/StringMap.h"

namespace mpc {
#define GEN_PASS_DEF_DECOMPOSEPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Emitter
//===----------------------------------------------------------------------===//

static bool hasF64(TypeRange types) {
  return llvm::any_of(types, [](Type type) {
    return cast<RankedTensorType>(type).getElementType().isF64();
  });
}

Emitter::Emitter(Operation *op)
    : builder(op->getLoc(), op), phase(op->getAttr(kPhaseAttr)) {
  bool wide = hasF64(op->getOperandTypes()) || hasF64(op->getResultTypes());
  compute = wide ? Type(builder.getF64Type()) : Type(builder.getF32Type());
}

Value Emitter::finish(Operation *op) {
  if (phase)
    op->setAttr(kPhaseAttr, phase);
  return op->getResult(0);
}

SmallVector<int64_t> Emitter::broadcast(ArrayRef<Value> operands) {
  SmallVector<int64_t> shape;
  for (Value operand : operands)
    shape = *broadcastShapes(shape, shapeOf(operand));
  return shape;
}

Value Emitter::constant(ElementsAttr value) {
  return ConstantOp::create(builder, value.getType(), value);
}

Value Emitter::scalar(double value) {
  return constant(DenseElementsAttr::get(RankedTensorType::get({}, compute),
                                         builder.getFloatAttr(compute, value)));
}

Value Emitter::reshape(Value input, ArrayRef<int64_t> shape) {
  if (shapeOf(input) == shape)
    return input;
  return finish(ReshapeOp::create(
      builder, RankedTensorType::get(shape, elementOf(input)), input));
}

Value Emitter::transpose(Value input, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> shape;
  for (int64_t axis : perm)
    shape.push_back(shapeOf(input)[axis]);
  return finish(TransposeOp::create(
      builder, RankedTensorType::get(shape, elementOf(input)), input, perm));
}

Value Emitter::expand(Value input, RankedTensorType type) {
  return finish(ExpandOp::create(builder, type, input));
}

Value Emitter::oneHot(Value labels, int64_t axis, int64_t depth) {
  SmallVector<int64_t> shape(shapeOf(labels));
  shape.insert(shape.begin() + axis, depth);
  return finish(OneHotOp::create(builder, RankedTensorType::get(shape, compute),
                                 labels, static_cast<uint64_t>(axis),
                                 static_cast<uint64_t>(depth)));
}

Value Emitter::isNonZero(Value value) {
  return convert(value, builder.getI1Type());
}

Value Emitter::convert(Value value, Type element) {
  return finish(CastOp::create(
      builder, RankedTensorType::get(shapeOf(value), element), value));
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

namespace {
struct DecomposePass : public mpc::impl::DecomposePassBase<DecomposePass> {
  void runOnOperation() override;
};
} // namespace

using Decomposition = SmallVector<Value> (*)(Operation *, Emitter &);

// Returns the function that decomposes `op`; null if Decompositions.def does
// not list `op`.
static Decomposition findDecomposition(Operation *op) {
  static const llvm::StringMap<Decomposition> table = {
#define MPC_DECOMPOSITION(OpTy)                                                \
  {OpTy::getOperationName(), [](Operation *composite, Emitter &emitter) {      \
     return decompose(cast<OpTy>(composite), emitter);                         \
   }},
#include "passes/Fusion/Decompositions.def"
  };
  return table.lookup(op->getName().getStringRef());
}

void DecomposePass::runOnOperation() {
  // A seed is the gradient of the loss with respect to itself. Seeds that
  // remain here have no loss scale, so they are 1.
  getOperation().walk([](GradientSeedOp seed) {
    OpBuilder builder(seed);
    RankedTensorType type = seed.getType();
    Attribute one = builder.getFloatAttr(type.getElementType(), 1.0);
    seed.replaceAllUsesWith(
        ConstantOp::create(builder, seed.getLoc(), type,
                           DenseElementsAttr::get(type, one))
            .getOutput());
    seed.erase();
  });
  // Collect the ops before rewriting. The replacements contain no composite
  // ops.
  SmallVector<Operation *> composites;
  getOperation().walk([&](RegionOpInterface op) {
    if (op.getRegionRole() == RegionRole::Composite)
      composites.push_back(op);
  });
  for (Operation *op : composites) {
    Decomposition decomposition = findDecomposition(op);
    if (!decomposition) {
      op->emitOpError("has no decomposition into primitive ops");
      return signalPassFailure();
    }
    Emitter emitter(op);
    op->replaceAllUsesWith(decomposition(op, emitter));
    op->erase();
  }
}
