// Hides 16-bit floats from a CPU that has no instructions for them.
//
// The pass runs when all arithmetic on 16-bit floats has been expanded, and the
// remaining ops only move them. To broadcast such a float to a vector, LLVM
// would convert to f32, with a function call per lane. LLVM moves 16-bit
// integers without conversions.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Passes.h"

#include "compiler/Dialect/MPC/Target.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_CONVERTHALVESTOBITSPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class ConvertHalvesToBitsPass
    : public mpc::impl::ConvertHalvesToBitsPassBase<ConvertHalvesToBitsPass> {
public:
  using ConvertHalvesToBitsPassBase::ConvertHalvesToBitsPassBase;
  void runOnOperation() override;
};
} // namespace

void ConvertHalvesToBitsPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  // True for a 16-bit float type that the target has no instructions for.
  auto isHidden = [&](Type type) {
    return (type.isBF16() && !target.hasNativeBF16Conversion()) ||
           (type.isF16() && !target.hasNativeF16Conversion());
  };
  // Replace the float types that the target lacks by i16, and constants of
  // these types by their bits.
  auto word = IntegerType::get(&getContext(), 16);
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FloatType type) -> std::optional<Type> {
    return isHidden(type) ? std::optional<Type>(word) : std::nullopt;
  });
  replacer.addReplacement([&](FloatAttr value) -> std::optional<Attribute> {
    if (!isHidden(value.getType()))
      return std::nullopt;
    return IntegerAttr::get(word, value.getValue().bitcastToAPInt());
  });
  replacer.addReplacement(
      [&](DenseElementsAttr values) -> std::optional<Attribute> {
        if (!isHidden(values.getElementType()))
          return std::nullopt;
        return values.bitcast(word);
      });
  for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
    replacer.recursivelyReplaceElementsIn(function, /*replaceAttrs=*/true,
                                          /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
}
