// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ContractionTable.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/ProductBlocks.h"
#include "compiler/Kernels/TensorCoreTiling.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
/// NarrowCPU: a CPU without 512-bit vectors.
enum class Machine { Any, CPU, NarrowCPU };
enum class Types { Any, F64 };
/// Blocks: a single matrix product that runs in blocks (ProductBlocks.h).
enum class Shape { Any, Blocks };

/// A row's conditions, and the provider that the row chooses.
struct Row {
  Machine machine;
  Types types;
  Shape shape;
  ContractionProvider provider;
};
} // namespace

static constexpr auto kLibrary = ContractionProvider::Library;
static constexpr auto kGenerated = ContractionProvider::Generated;

/// Chooses the provider by the first matching row. On a GPU, the library's
/// product plus a separate pass for its epilogue is faster than a generated
/// kernel. On a CPU without 512-bit vectors, generated kernels are faster for
/// large products: oneDNN packs operands only if a tile does not fit the cache,
/// and widens 16-bit operands in a separate pass.
static constexpr Row kTable[] = {
    {Machine::CPU, Types::F64, Shape::Any, kGenerated},
    {Machine::NarrowCPU, Types::Any, Shape::Blocks, kGenerated},
    {Machine::Any, Types::Any, Shape::Any, kLibrary},
};

static bool isMachine(Machine machine, const TargetInfo &target) {
  switch (machine) {
  case Machine::Any:
    return true;
  case Machine::CPU:
    return !target.isGPU();
  case Machine::NarrowCPU:
    return !target.isGPU() && target.getVectorBits() < 512;
  }
  llvm_unreachable("an unknown machine");
}

// Batched products stay with the library, which reads and writes attention
// heads in place.
static bool isOneProductOfBlocks(Operation *contraction) {
  std::optional<ProductBlocks> blocks = getProductBlocks(contraction);
  return blocks && blocks->extents.batch == 1;
}

static bool fits(const Row &row, Operation *contraction,
                 const TargetInfo &target) {
  return isMachine(row.machine, target) &&
         (row.types == Types::Any || isF64(contraction)) &&
         (row.shape == Shape::Any || isOneProductOfBlocks(contraction));
}

//===----------------------------------------------------------------------===//
// Capabilities
//===----------------------------------------------------------------------===//

static bool canDo(ContractionProvider provider, Operation *contraction,
                  const TargetInfo &target) {
  if (provider == ContractionProvider::Library)
    return target.isGPU() || !isF64(contraction);
  return !target.isGPU() || getTensorCoreTiling(contraction, target);
}

ContractionProvider
mpc::getContractionProvider(Operation *contraction, const TargetInfo &target,
                            std::optional<ContractionProvider> override) {
  const Row *row = llvm::find_if(kTable, [&](const Row &candidate) {
    return fits(candidate, contraction, target);
  });
  ContractionProvider chosen = override.value_or(row->provider);
  if (canDo(chosen, contraction, target))
    return chosen;
  return chosen == kLibrary ? kGenerated : kLibrary;
}

/// True if each element of the array attribute `name` is `value`.
static bool allAre(Operation *convolution, StringRef name, int64_t value) {
  return llvm::all_of(
      convolution->getAttrOfType<DenseI64ArrayAttr>(name).asArrayRef(),
      [&](int64_t element) { return element == value; });
}

bool mpc::isMatrixProduct(Operation *convolution) {
  return hasOneTap(convolution) && allAre(convolution, "strides", 1);
}

bool mpc::hasOneTap(Operation *convolution) {
  auto group = convolution->getAttrOfType<IntegerAttr>("group");
  if ((group && group.getInt() != 1) || !allAre(convolution, "pads", 0))
    return false;
  // With one tap, the filter has one element for each pair of channels.
  Value filter = isa<ConvWeightGradOp>(convolution)
                     ? convolution->getResult(0)
                     : convolution->getOperand(1);
  ArrayRef<int64_t> shape = shapeOf(filter);
  int64_t inputs = hasInputChannelsLast(convolution) ? shape.back() : shape[1];
  return ShapedType::getNumElements(shape) == shape[0] * inputs;
}

bool mpc::hasWideWeightGradient(Operation *gradient, const TargetInfo &target) {
  return !target.isGPU() || isMatrixProduct(gradient);
}

bool mpc::takesInputChannelsLast(const TargetInfo &target) {
  return target.isGPU();
}
