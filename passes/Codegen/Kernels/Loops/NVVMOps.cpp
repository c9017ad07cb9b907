// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"

#include "compiler/Kernels/TensorCoreTiling.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

void codegen::registerNVVMDialect(DialectRegistry &registry) {
  registry.insert<NVVM::NVVMDialect>();
}

//===----------------------------------------------------------------------===//
// Threads
//===----------------------------------------------------------------------===//

static Value createI32(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value codegen::createThreadId(ImplicitLocOpBuilder &b,
                              std::optional<int64_t> threads) {
  LLVM::ConstantRangeAttr range;
  if (threads)
    range = LLVM::ConstantRangeAttr::get(b.getContext(), APInt(32, 0),
                                         APInt(32, *threads));
  return NVVM::ThreadIdXOp::create(b, b.getI32Type(), range);
}

Value codegen::createBlockId(ImplicitLocOpBuilder &b) {
  return NVVM::BlockIdXOp::create(b, b.getI32Type());
}

void codegen::emitBarrier(ImplicitLocOpBuilder &b) {
  NVVM::Barrier0Op::create(b);
}

void codegen::emitWarpBarrier(ImplicitLocOpBuilder &b) {
  NVVM::SyncWarpOp::create(b, createI32(b, -1));
}

Value codegen::shuffleWord(ImplicitLocOpBuilder &b, Value members, Value word,
                           int64_t distance) {
  return NVVM::ShflOp::create(
      b, word.getType(), members, word, createI32(b, distance),
      createI32(b, kWarpSize - 1), NVVM::ShflKind::bfly, UnitAttr());
}

Value codegen::collectLanes(ImplicitLocOpBuilder &b, Value condition) {
  return NVVM::VoteSyncOp::create(b, b.getI32Type(), createI32(b, -1),
                                  condition, NVVM::VoteSyncKind::ballot);
}

Value codegen::countBits(ImplicitLocOpBuilder &b, Value word) {
  return LLVM::CtPopOp::create(b, word);
}

//===----------------------------------------------------------------------===//
// Asynchronous copies
//===----------------------------------------------------------------------===//

void codegen::emitCopyAsync(ImplicitLocOpBuilder &b, Value to, Value from,
                            int64_t bytes, Value size) {
  // Only copies of 16 bytes may bypass the first-level cache.
  auto cache = bytes == 16 ? NVVM::LoadCacheModifierKind::CG
                           : NVVM::LoadCacheModifierKind::CA;
  NVVM::CpAsyncOp::create(b, to, from, bytes, cache, size);
}

void codegen::commitCopies(ImplicitLocOpBuilder &b) {
  NVVM::CpAsyncCommitGroupOp::create(b);
}

void codegen::awaitCopies(ImplicitLocOpBuilder &b, int64_t pending) {
  NVVM::CpAsyncWaitGroupOp::create(b, pending);
}

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

/// Returns a struct of four registers, the result type of ldmatrix and mma.
static LLVM::LLVMStructType getFourOf(Type type) {
  return LLVM::LLVMStructType::getLiteral(type.getContext(),
                                          SmallVector<Type>(4, type));
}

SmallVector<Value> codegen::loadMatrices(ImplicitLocOpBuilder &b, Value pointer,
                                         bool transposed) {
  auto layout = transposed ? NVVM::MMALayout::col : NVVM::MMALayout::row;
  auto shape = NVVM::LdStMatrixShapeAttr::get(b.getContext(), 8, 8);
  Value matrices =
      NVVM::LdMatrixOp::create(b, getFourOf(b.getI32Type()), pointer, 4, layout,
                               shape, NVVM::LdStMatrixEltType::B16);
  SmallVector<Value> registers;
  for (int64_t i = 0; i < 4; ++i)
    registers.push_back(LLVM::ExtractValueOp::create(b, matrices, i));
  return registers;
}

void codegen::multiplyFragments(ImplicitLocOpBuilder &b, Type element,
                                ValueRange lhs, ValueRange rhs,
                                MutableArrayRef<Value> sums) {
  bool isF16 = element.isF16();
  auto type = isF16 ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  // The mma op takes a pair of f16 as a vector, and a pair of bf16 as an i32.
  auto operands = [&](ValueRange words) {
    SmallVector<Value> result(words);
    if (isF16)
      for (Value &word : result)
        word = LLVM::BitcastOp::create(b, VectorType::get(2, element), word);
    return result;
  };
  SmallVector<Value> left = operands(lhs), right = operands(rhs);
  Value product = NVVM::MmaOp::create(
      b, getFourOf(b.getF32Type()), left, right, ArrayRef<Value>(sums),
      ArrayRef<int64_t>{TensorCoreTiling::kMmaM, TensorCoreTiling::kMmaN,
                        TensorCoreTiling::kMmaK},
      std::nullopt, std::nullopt, std::array{type, type},
      std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
  for (auto [i, sum] : llvm::enumerate(sums))
    sum = LLVM::ExtractValueOp::create(b, product, i);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void codegen::markKernel(Operation *function, int64_t threads) {
  Builder b(function->getContext());
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    b.getDenseI32ArrayAttr({static_cast<int32_t>(threads)}));
  function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                    b.getI32IntegerAttr(1));
}
