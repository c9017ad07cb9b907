// Replaces kernel functions on tensors by loops over flat buffers.
//
// Emit<Kind>.cpp holds the loop nests, EmitElementwise*.cpp the formulas of the
// ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/MatrixOperand.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"
#include "passes/Codegen/Kernels/EmitSegments.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Passes.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace mpc {
#define GEN_PASS_DEF_EMITKERNELSPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class EmitKernelsPass : public mpc::impl::EmitKernelsPassBase<EmitKernelsPass> {
public:
  using EmitKernelsPassBase::EmitKernelsPassBase;
  void getDependentDialects(DialectRegistry &registry) const override {
    EmitKernelsPassBase::getDependentDialects(registry);
    registerNVVMDialect(registry);
  }
  void runOnOperation() override;

private:
  LogicalResult emitKernel(func::FuncOp kernel, const TargetInfo &target);
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static MemRefType flatBuffer(Type type, const TargetInfo &target) {
  auto tensor = cast<RankedTensorType>(type);
  Attribute space;
  if (target.isGPU())
    space = Builder(type.getContext()).getI64IntegerAttr(kGlobalMemory);
  return MemRefType::get({tensor.getNumElements()},
                         getStorageType(tensor.getElementType()),
                         MemRefLayoutAttrInterface(), space);
}

/// Counts the arguments of an emitted function that bound its slice: begin and
/// end, or five bounds of a tile for an epilogue. There are none on a GPU,
/// where a block derives its slice from the block number.
static unsigned countBounds(KernelKind kind, const TargetInfo &target) {
  if (target.isGPU())
    return 0;
  return KernelHero::get(kind).isCalledPerTile() ? 5 : 2;
}

/// Returns the type of the emitted function. Its arguments are the buffers of
/// the kernel's arguments and results, then the bounds of `kind`, then
/// `scratch` bytes of scratch memory unless `scratch` is 0.
static FunctionType getBufferSignature(func::FuncOp kernel, KernelKind kind,
                                       int64_t scratch,
                                       const TargetInfo &target) {
  SmallVector<Type> inputs;
  for (Type type : kernel.getArgumentTypes())
    inputs.push_back(flatBuffer(type, target));
  for (Type type : kernel.getResultTypes())
    inputs.push_back(flatBuffer(type, target));
  Builder b(kernel.getContext());
  inputs.append(countBounds(kind, target), b.getIndexType());
  if (scratch > 0)
    inputs.push_back(MemRefType::get({scratch}, b.getI8Type()));
  return FunctionType::get(kernel.getContext(), inputs, {});
}

/// True if `op` needs no code because it only moves elements and only
/// contractions read the result. A contraction reads the operand of `op` in
/// place, with other strides.
static bool isFolded(Operation *op) {
  bool isTransposed = isa<TransposeOp>(op) && !op->use_empty() &&
                      llvm::all_of(op->getUsers(), [](Operation *user) {
                        return hasRole(user, RegionRole::Contraction);
                      });
  return isTransposed || movesOperand(op);
}

/// True if `op` computes nothing in a kernel of `kind`, and only decides where
/// an operand is loaded or a result stored. The loops load and store such
/// values by strides. Operands of contractions are left to isFolded.
static bool isPlacement(Operation *op, KernelKind kind) {
  const KernelHero &hero = KernelHero::get(kind);
  return (hero.loadsInAnyOrder() && keepsRows(op)) ||
         (hero.loadsByElement() && isLoadedPart(op)) ||
         (hero.storesArranged() && isArrangement(op)) ||
         (hero.storesPlaced() && isStoredPlaced(op)) ||
         (hero.storesJoined() && isStoredJoin(op));
}

/// Checks that the kernel contains the op that its kind requires, such as a
/// reduction in a row-reduce kernel. A kernel of segments or of elementwise ops
/// needs none.
static LogicalResult checkHero(Block &body, KernelKind kind) {
  const KernelHero &hero = KernelHero::get(kind);
  bool isOfSegments = isa<RegionOp>(body.front());
  if (isOfSegments || hero.getRole() == RegionRole::Elementwise ||
      llvm::any_of(body,
                   [&](Operation &op) { return hasRole(&op, hero.getRole()); }))
    return success();
  return body.getParentOp()->emitOpError("has no ")
         << stringifyRegionRole(hero.getRole());
}

/// True if `op` has a formula, or reads elements at computed indices.
static bool hasFormula(Operation *op) {
  return findTable(op) || isa<RotaryEmbeddingOp>(op) ||
         ElementwiseTable::get().find(op);
}

static LogicalResult checkOps(Block &body, KernelKind kind) {
  for (Operation &op : body.without_terminator()) {
    // A segment is checked like the body of a kernel.
    if (auto segment = dyn_cast<RegionOp>(op)) {
      if (failed(checkOps(segment.getBody().front(), kind)))
        return failure();
      continue;
    }
    // Views, and ops folded into loads and stores, need no code. All other ops
    // must be allowed in a kernel of this kind.
    if (isFolded(&op) || hasRole(&op, RegionRole::View) ||
        isPlacement(&op, kind))
      continue;
    if (!mayHold(kind, &op))
      return op.emitOpError("cannot be part of a kernel of kind '")
             << stringify(kind) << "'";
    // Elementwise ops also need a formula in ElementwiseTable.
    if (hasRole(&op, RegionRole::Elementwise) && !hasFormula(&op))
      return op.emitOpError("has no formula to generate code from");
    auto constant = dyn_cast<ConstantOp>(op);
    if (constant && !constant.getValue().isSplat())
      return op.emitOpError("in a kernel must be the same value everywhere; "
                            "other constants are arguments");
  }
  return checkHero(body, kind);
}

/// Emits the loops of a kernel by calling emit<Kind>, such as emitPointwise
/// (Kernels/).
static LogicalResult emitLoops(KernelKind kind, KernelContext &context) {
  if (isSegmented(context.kernel))
    return emitSegments(context);
  switch (kind) {
#define MPC_KERNEL_KIND(KIND, WORD)                                            \
  case KernelKind::KIND:                                                       \
    return emit##KIND(context);
#include "compiler/Dialect/MPC/KernelKinds.def"
  }
  llvm_unreachable("unknown kernel kind");
}

/// Fills the GPU fields of `context`: the thread's ranks within its block, and
/// the slice [begin, end) that the block processes.
static void enterBlock(KernelContext &context) {
  ImplicitLocOpBuilder &b = context.b;
  const KernelPartition &partition = context.partition;
  Value thread = getThread(b, partition.threads);
  int64_t teams = partition.threads / partition.lanes;
  SmallVector<Value> ranks = splitIndex(b, thread, {teams, partition.lanes});
  context.rows = {ranks[0], teams};
  context.columns = {ranks[1], partition.lanes};

  Value begin = mulIndex(b, getBlock(b), partition.grain);
  Value end = addIndex(b, begin, partition.grain);
  if (partition.extent % partition.grain != 0)
    end = arith::MinUIOp::create(b, end, createIndex(b, partition.extent));
  context.bounds = {begin, end};
}

/// Returns the buffers that may overlap, as bits: arguments whose memory a
/// result may reuse, and all results of such an argument's type.
static llvm::SmallBitVector findShared(func::FuncOp kernel,
                                       const TargetInfo &target) {
  unsigned inputs = kernel.getNumArguments();
  llvm::SmallBitVector shared(inputs + kernel.getNumResults());
  for (BlockArgument argument : kernel.getArguments()) {
    if (!mayBeWrittenOver(argument, target))
      continue;
    shared.set(argument.getArgNumber());
    for (auto [i, type] : llvm::enumerate(kernel.getResultTypes()))
      if (type == argument.getType())
        shared.set(inputs + i);
  }
  return shared;
}

/// Sets the number of threads, and the alignment and aliasing of the buffers,
/// for the driver and ptxas.
static void setGPUAttributes(func::FuncOp emitted, func::FuncOp kernel,
                             const TargetInfo &target, int64_t threads) {
  Builder b(emitted.getContext());
  emitted->setAttr(kThreadsAttr, b.getI32IntegerAttr(threads));
  unsigned inputs = kernel.getNumArguments();
  llvm::SmallBitVector shared = findShared(kernel, target);
  for (unsigned i = 0; i < emitted.getNumArguments(); ++i) {
    emitted.setArgAttr(i, LLVM::LLVMDialect::getAlignAttrName(),
                       b.getI64IntegerAttr(TargetInfo::kGPUAlignment));
    // If two buffers may overlap, each is also written through the pointer of
    // the other. Attributes noalias and readonly would be wrong.
    if (shared.test(i))
      continue;
    emitted.setArgAttr(i, LLVM::LLVMDialect::getNoAliasAttrName(),
                       b.getUnitAttr());
    if (i < inputs)
      emitted.setArgAttr(i, LLVM::LLVMDialect::getReadonlyAttrName(),
                         b.getUnitAttr());
  }
}

/// Verifies that the kernel's static shared arrays fit the size that every GPU
/// grants without a request.
static LogicalResult verifySharedMemory(func::FuncOp emitted) {
  constexpr int64_t kMaxStaticBytes = 48 << 10;
  llvm::SmallDenseMap<StringRef, int64_t, 4> arrays;
  emitted.walk([&](memref::GetGlobalOp array) {
    auto type = cast<MemRefType>(array.getType());
    if (type.getMemorySpaceAsInt() == kSharedMemory)
      arrays[array.getName()] =
          type.getNumElements() *
          llvm::divideCeil(type.getElementTypeBitWidth(), 8);
  });
  int64_t total = 0;
  for (const auto &[name, bytes] : arrays)
    total += bytes;
  if (total <= kMaxStaticBytes)
    return success();
  return emitted.emitOpError("declares ")
         << total << " bytes of shared memory, expected at most "
         << kMaxStaticBytes << ", the static limit of a block";
}

LogicalResult EmitKernelsPass::emitKernel(func::FuncOp kernel,
                                          const TargetInfo &target) {
  std::optional<KernelKind> kind = getKernelKind(kernel);
  assert(kind && "the dialect checks the attribute");
  // Reject kernels that no code can be generated for.
  if (kernel.isExternal() || kernel.getNumResults() == 0)
    return kernel.emitOpError(
               "is a kernel and must have a body and results, found ")
           << (kernel.isExternal() ? "no body" : "no results");
  if (failed(checkOps(kernel.getBody().front(), *kind)))
    return failure();
  bool isPerTile = KernelHero::get(*kind).isCalledPerTile();
  if (target.isGPU() && isPerTile)
    return kernel.emitOpError("is called per tile, but no library on target '")
           << target.getName() << "' calls kernels";

  KernelPartition partition;
  if (!isPerTile)
    partition = getKernelPartition(kernel, target);
  OpBuilder builder(kernel);
  auto emitted = func::FuncOp::create(
      builder, kernel.getLoc(), kernel.getName(),
      getBufferSignature(kernel, *kind, partition.scratch, target));
  emitted->setAttr(kKernelAttr, kernel->getAttr(kKernelAttr));
  Block *entry = emitted.addEntryBlock();
  auto b = ImplicitLocOpBuilder::atBlockEnd(kernel.getLoc(), entry);
  unsigned bufferCount = kernel.getNumArguments() + kernel.getNumResults();
  unsigned boundCount = countBounds(*kind, target);
  // Emitters get the function's arguments in two lists: buffers (of the
  // kernel's arguments, then results) and bounds.
  KernelContext context{
      kernel,
      b,
      SmallVector<Value>(entry->getArguments().take_front(bufferCount)),
      SmallVector<Value>(entry->getArguments().slice(bufferCount, boundCount)),
      target,
      partition,
      {},
      {}};
  if (partition.scratch > 0)
    context.scratch = entry->getArguments().back();
  if (target.isGPU()) {
    setGPUAttributes(emitted, kernel, target, context.partition.threads);
    enterBlock(context);
  }
  // Emit the loops into the new function, then erase the kernel on tensors.
  if (failed(emitLoops(*kind, context)))
    return failure();
  b.setInsertionPointToEnd(entry);
  func::ReturnOp::create(b);
  kernel.erase();
  return target.isGPU() ? verifySharedMemory(emitted) : success();
}

void EmitKernelsPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  for (func::FuncOp kernel :
       llvm::to_vector(getOperation().getOps<func::FuncOp>()))
    if (kernel->hasAttr(kKernelAttr) && failed(emitKernel(kernel, target)))
      return signalPassFailure();
}
