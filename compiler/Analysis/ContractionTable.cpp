// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/ContractionTable.h"

#include "compiler/Analysis/TensorCoreTiling.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

StringRef mpc::stringifyProvider(ContractionProvider provider) {
  return provider == ContractionProvider::Library ? "library" : "generated";
}

std::optional<ContractionProvider> mpc::symbolizeProvider(StringRef name) {
  for (auto provider :
       {ContractionProvider::Library, ContractionProvider::Generated})
    if (stringifyProvider(provider) == name)
      return provider;
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

namespace {
enum class Machine { Any, CPU, GPU };
enum class Types { Any, F64, Low };
enum class Product { Any, MatMul };

/// What a row applies to, and whom it chooses.
struct Row {
  Machine machine;
  Product product;
  Types types;
  std::optional<ContractionTail> tail;
  ContractionProvider provider;
};
} // namespace

static constexpr auto kLibrary = ContractionProvider::Library;
static constexpr auto kGenerated = ContractionProvider::Generated;

/// The first row that fits decides. Without measurements on a GPU the library
/// does what it does in one go. Otherwise a kernel that holds the tail saves a
/// pass over memory; an optimizer's update stays a kernel of its own.
static constexpr Row kTable[] = {
    {Machine::CPU, Product::Any, Types::F64, std::nullopt, kGenerated},
    {Machine::GPU, Product::MatMul, Types::Low, ContractionTail::Other,
     kGenerated},
    {Machine::Any, Product::Any, Types::Any, std::nullopt, kLibrary},
};

static bool hasType(Operation *contraction, llvm::function_ref<bool(Type)> is) {
  auto matches = [&](Type type) {
    return is(cast<RankedTensorType>(type).getElementType());
  };
  return llvm::any_of(contraction->getOperandTypes(), matches) ||
         llvm::any_of(contraction->getResultTypes(), matches);
}

static bool isF64(Operation *contraction) {
  return hasType(contraction, [](Type type) { return type.isF64(); });
}

// Whether every operand is f16 or bf16.
static bool isLow(Operation *contraction) {
  return llvm::all_of(contraction->getOperandTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getElementTypeBitWidth() == 16;
  });
}

static bool fits(const Row &row, Operation *contraction, ContractionTail tail,
                 const TargetInfo &target) {
  if (row.machine != Machine::Any &&
      (row.machine == Machine::GPU) != target.isGPU())
    return false;
  if (row.product == Product::MatMul && !isa<MatMulOp>(contraction))
    return false;
  if (row.types == Types::F64 && !isF64(contraction))
    return false;
  if (row.types == Types::Low && !isLow(contraction))
    return false;
  return !row.tail || *row.tail == tail;
}

//===----------------------------------------------------------------------===//
// What each can do
//===----------------------------------------------------------------------===//

static bool canDo(ContractionProvider provider, Operation *contraction,
                  const TargetInfo &target) {
  if (provider == ContractionProvider::Library)
    return target.isGPU() || !isF64(contraction);
  return !target.isGPU() || getTensorCoreTiling(contraction, target);
}

ContractionProvider
mpc::getContractionProvider(Operation *contraction, ContractionTail tail,
                            const TargetInfo &target,
                            std::optional<ContractionProvider> override) {
  const Row *row = llvm::find_if(kTable, [&](const Row &candidate) {
    return fits(candidate, contraction, tail, target);
  });
  ContractionProvider chosen = override.value_or(row->provider);
  if (canDo(chosen, contraction, target))
    return chosen;
  return chosen == kLibrary ? kGenerated : kLibrary;
}

bool mpc::takesInputChannelsLast(const TargetInfo &target) {
  return target.isGPU();
}
