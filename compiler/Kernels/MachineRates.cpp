// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/MachineRates.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

double TypeRates::get(Type type) const {
  Type element = getElementTypeOrSelf(type);
  return element.isF64()    ? f64
         : element.isTF32() ? tf32
         : element.isBF16() ? bf16
         : element.isF16()  ? f16
                            : f32;
}

const MachineRates &mpc::getMachineRates(const TargetInfo &target) {
#define MPC_MACHINE(CONDITION, ...)                                            \
  if (static const MachineRates rates{__VA_ARGS__}; CONDITION)                 \
    return rates;
#include "compiler/Kernels/MachineRates.def"
  llvm_unreachable("the last row holds for all targets");
}

// Returns the number of bf16 products of AMX that make a product of `type`; 0
// if vectors of f32 multiply instead (prepareAMXMatMul in runtime/cpu). A short
// side leaves tiles empty, and splitting f32 operands pays only if each element
// is multiplied often.
static double countTileProducts(const ProductSize &size, Type type) {
  constexpr int64_t kShortest = 16, kFewestUses = 80;
  if (std::min({size.m, size.n, size.k}) < kShortest)
    return 0;
  if (type.isBF16())
    return 1;
  if (type.isF16())
    return 4;
  const bool pays = size.m * size.n >= kFewestUses * (size.m + size.n);
  return type.isF32() && pays ? 6 : 0;
}

static double countOperations(const ProductSize &size) {
  return 2 * static_cast<double>(size.m) * static_cast<double>(size.n) *
         static_cast<double>(size.k);
}

double mpc::getProductTime(const ProductSize &size, Type type,
                           const TargetInfo &target) {
  const Type element = getElementTypeOrSelf(type);
  const TypeRates &products = getMachineRates(target).products;
  if (target.isGPU()) {
    // Tensor Cores are slow if rows are not multiples of 16 bytes.
    constexpr int64_t kUnit = 8;
    const bool isAligned = size.n % kUnit == 0 && size.k % kUnit == 0;
    return element.getIntOrFloatBitWidth() == 16
               ? target.getTensorCoreTime(countOperations(size), isAligned)
               : countOperations(size) / products.get(element);
  }
  if (target.hasAMX())
    if (double factor = countTileProducts(size, element)) {
      constexpr int64_t kTile = 32;
      auto whole = [](int64_t extent) {
        return static_cast<int64_t>(llvm::alignTo(extent, kTile));
      };
      return countOperations({whole(size.m), whole(size.n), whole(size.k)}) *
             factor / products.bf16;
    }
  // Vectors hold columns, and pairs of bf16 numbers along the depth.
  const int64_t lanes = target.getVectorBits() / 32;
  const bool hasPairs =
      element.isBF16() && target.hasNativeContraction(element);
  return countOperations(
             {size.m, static_cast<int64_t>(llvm::alignTo(size.n, lanes)),
              hasPairs ? static_cast<int64_t>(llvm::alignTo(size.k, 2))
                       : size.k}) /
         products.get(element);
}

double mpc::getConvolutionTime(const ConvolutionSize &size, Type type,
                               const TargetInfo &target) {
  const Type element = getElementTypeOrSelf(type);
  const TypeRates &convolutions = getMachineRates(target).convolutions;
  auto countOperations = [&](int64_t in, int64_t out) {
    return 2 * size.windows * static_cast<double>(size.groups) *
           static_cast<double>(in) * static_cast<double>(out);
  };
  if (target.isGPU())
    return countOperations(size.in, size.out) / convolutions.get(element);
  // Vectors of a convolution with groups hold groups, in f32.
  if (size.groups > 1)
    return countOperations(size.in, size.out) / convolutions.f32;
  // Vectors hold channels of the result. Pairs of bf16 numbers are channels of
  // the source, or for a gradient of filters pixels. With partly empty vectors,
  // bf16 takes longer than f32 (LeNet in docs/measured/modes.md). AMX needs
  // many channels.
  constexpr int64_t kFewest = 16;
  constexpr double kPartlyEmpty = 0.75;
  const int64_t lanes = target.getVectorBits() / 32;
  const bool isImageGradient = size.kind == ConvKind::InputGrad;
  const int64_t result = isImageGradient ? size.in : size.out;
  int64_t source = isImageGradient ? size.out : size.in;
  const bool hasPairs =
      element.isBF16() && target.hasNativeContraction(element);
  double rate = convolutions.get(element);
  if (target.hasAMX() && std::min(result, source) < kFewest)
    rate = convolutions.f32;
  if (hasPairs && result < lanes && size.kind != ConvKind::WeightGrad)
    rate = kPartlyEmpty * convolutions.f32;
  if (hasPairs && size.kind != ConvKind::WeightGrad)
    source = static_cast<int64_t>(llvm::alignTo(source, 2));
  return countOperations(source,
                         static_cast<int64_t>(llvm::alignTo(result, lanes))) /
         rate;
}
