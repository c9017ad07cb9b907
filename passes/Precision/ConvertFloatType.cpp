// 64-true: fp32 becomes fp64 in every type and value of the module.
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

// The values of `elements` in f64, exactly.
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

// As above, into a blob of its own.
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

// Records of `op`, whose result has not become f64 with the others, that it is
// stored in f32.
static void storeSingle(Operation *op) {
  if (auto decision = amp::DecisionAttr::of(op))
    op->setAttr(amp::DecisionAttr::attrName,
                decision.withStorage(Float32Type::get(op->getContext())));
}

// Bits of an f32 stay 32 bits: on either side of `op`, whose float has become
// f64, a conversion to the type that it had and back.
static void keepWidth(BitCastOp op) {
  RankedTensorType input = op.getInput().getType(), output = op.getType();
  if (input.getElementTypeBitWidth() == output.getElementTypeBitWidth())
    return;
  OpBuilder builder(op);
  Type f32 = builder.getF32Type();
  auto convert = [&](Value value, RankedTensorType type) {
    auto cast = mpc::CastOp::create(builder, op.getLoc(), type, value);
    // Of its phase, and by its decision.
    cast->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    return cast;
  };
  if (isa<FloatType>(input.getElementType())) {
    mpc::CastOp single = convert(op.getInput(), input.clone(f32));
    storeSingle(single);
    op.getInputMutable().assign(single);
    return;
  }
  builder.setInsertionPointAfter(op);
  op.getOutput().setType(output.clone(f32));
  mpc::CastOp wide = convert(op.getOutput(), output);
  op.getOutput().replaceAllUsesExcept(wide.getOutput(), wide);
  storeSingle(op);
}

void ConvertFloatTypePass::runOnOperation() {
  MLIRContext *context = &getContext();
  // Types, constants in the IR, and constants in resources.
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
  // A resource without its values cannot be widened; the replacer goes on, and
  // the pass fails afterwards.
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
    getOperation().emitError(
        "expected the values of every resource to be present");
    signalPassFailure();
  }
}
