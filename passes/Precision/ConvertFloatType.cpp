// Converts a module for mode 64-true: fp32 becomes fp64 in all types and
// values.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Precision/Passes.h"

#include "mlir/IR/AsmState.h"
#include "mlir/IR/AttrTypeSubElements.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectResourceBlobManager.h"

namespace mpc {
#define GEN_PASS_DEF_CONVERTFLOATTYPEPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct ConvertFloatTypePass
    : mpc::impl::ConvertFloatTypePassBase<ConvertFloatTypePass> {
  using ConvertFloatTypePassBase::ConvertFloatTypePassBase;
  void runOnOperation() override;
};
} // namespace

// Returns the elements converted from f32 to f64, which is exact.
static DenseElementsAttr widen(DenseFPElementsAttr elements) {
  Type f64 = Float64Type::get(elements.getContext());
  return elements.mapValues(f64, [](const APFloat &value) {
    APFloat wide = value;
    bool losesInfo;
    wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
    return wide.bitcastToAPInt();
  });
}

// Returns a resource's elements converted to f64; null if the resource has no
// values.
static DenseResourceElementsAttr widen(DenseF32ResourceElementsAttr elements) {
  std::optional<ArrayRef<float>> values = elements.tryGetAsArrayRef();
  if (!values)
    return {};
  auto blob = HeapAsmResourceBlob::allocateAndCopyInferAlign<double>(
      llvm::to_vector_of<double>(*values));
  auto type = cast<ShapedType>(elements.getType())
                  .clone(Float64Type::get(elements.getContext()));
  return DenseResourceElementsAttr::get(type, elements.getRawHandle().getKey(),
                                        std::move(blob));
}

// Changes the types in the decision record of `op`.
static void setDecidedTypes(Operation *op, ArrayRef<Type> operands,
                            ArrayRef<Type> results) {
  if (auto decision = amp::DecisionAttr::of(op))
    op->setAttr(amp::DecisionAttr::attrName,
                decision.withTypes(operands, results));
}

// Restores the width of a bit cast between f32 and a 32-bit integer. The float
// side of `op` has become f64, so converts the operand to f32 before `op`, or
// the result from f32 to f64 after `op`.
static void keepWidth(BitCastOp op) {
  RankedTensorType input = op.getInput().getType(), output = op.getType();
  if (input.getElementTypeBitWidth() == output.getElementTypeBitWidth())
    return;
  OpBuilder builder(op);
  Type f32 = builder.getF32Type(), f64 = builder.getF64Type();
  auto convert = [&](Value value, RankedTensorType type) {
    auto cast = mpc::CastOp::create(builder, op.getLoc(), type, value);
    cast->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return cast;
  };
  if (isa<FloatType>(input.getElementType())) {
    mpc::CastOp single = convert(op.getInput(), input.clone(f32));
    setDecidedTypes(single, f64, f32);
    setDecidedTypes(op, f32, {});
    op.getInputMutable().assign(single);
    return;
  }
  builder.setInsertionPointAfter(op);
  op.getOutput().setType(output.clone(f32));
  mpc::CastOp wide = convert(op.getOutput(), output);
  op.getOutput().replaceAllUsesExcept(wide.getOutput(), wide);
  setDecidedTypes(wide, f32, f64);
  setDecidedTypes(op, {}, f32);
}

void ConvertFloatTypePass::runOnOperation() {
  MLIRContext *context = &getContext();
  // Replace f32 types, the elements of constants in the IR, and the elements of
  // constants in resources.
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](Float32Type) -> std::optional<Type> {
    return Float64Type::get(context);
  });
  replacer.addReplacement(
      [&](DenseFPElementsAttr elements)
          -> std::optional<std::pair<Attribute, WalkResult>> {
        if (!elements.getElementType().isF32())
          return std::nullopt;
        return std::make_pair(Attribute(widen(elements)), WalkResult::skip());
      });
  bool resourcesRead = true;
  // A resource without values cannot be converted. A replacement function
  // cannot fail, so remember the failure for the end of the pass.
  replacer.addReplacement(
      [&](DenseF32ResourceElementsAttr elements)
          -> std::optional<std::pair<Attribute, WalkResult>> {
        Attribute wide = widen(elements);
        if (!wide) {
          resourcesRead = false;
          return std::make_pair(Attribute(elements), WalkResult::skip());
        }
        return std::make_pair(wide, WalkResult::skip());
      });
  replacer.recursivelyReplaceElementsIn(getOperation(), /*replaceAttrs=*/true,
                                        /*replaceLocs=*/false,
                                        /*replaceTypes=*/true);
  getOperation()->walk(keepWidth);
  if (!resourcesRead) {
    getOperation().emitError("expected the values of every dense_resource in "
                             "the text; mpc compile --emit-data prints them");
    signalPassFailure();
  }
}
