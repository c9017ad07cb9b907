// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/ProductBounds.h"

#include "compiler/Support/ExitCode.h"
#include "runtime/ArtifactFormat.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

namespace {
/// Computes the number of elements from the first to the last element of
/// strided matrices in a buffer. The number is unknown if it exceeds 64 bits or
/// a stride is negative.
class Reach {
public:
  explicit Reach(int64_t elements) : elements(elements) {}

  /// Adds an axis: `extent` copies of everything so far, `stride` elements
  /// apart.
  void addAxis(int64_t extent, int64_t stride) {
    int64_t way = 0;
    isKnown &= stride >= 0 && !llvm::MulOverflow(extent - 1, stride, way) &&
               !llvm::AddOverflow(elements, way, elements);
  }

  bool isWithin(int64_t limit) const { return isKnown && elements <= limit; }

private:
  int64_t elements;
  bool isKnown = true;
};

/// The layout in memory of an operand or the result of a batched product. Each
/// matrix has `rows` rows of `columns` elements, and rows start `ld` elements
/// apart. Matrices are `stride` elements apart along the last batch axis, and
/// as `outer` lists along the other batch axes.
struct Matrices {
  StringRef name;
  Value buffer; ///< null if an epilogue takes the result
  int64_t offset, rows, columns, ld, stride;
  ArrayRef<int64_t> outer;
};
} // namespace

/// Returns the number of elements of the result, over all batches; nullopt if
/// the number exceeds 64 bits or an extent is below 1.
static std::optional<int64_t> countResults(plan::MatMulOp op) {
  SmallVector<int64_t> extents = {op.getAxes().batch, op.getShape().m,
                                  op.getShape().n};
  llvm::append_range(extents, op.getAxes().outer.extents);
  int64_t elements = 1;
  for (int64_t extent : extents)
    if (extent < 1 || llvm::MulOverflow(elements, extent, elements))
      return std::nullopt;
  return elements;
}

static LogicalResult verifyMatrices(plan::MatMulOp op,
                                    const Matrices &matrices) {
  std::optional<int64_t> results = countResults(op);
  if (!results)
    return op.emitOpError("expected extents of at least 1, and fewer than 2^63 "
                          "results, found a batch of ")
           << op.getAxes().batch << ", outer axes ["
           << ArrayRef<int64_t>(op.getAxes().outer.extents)
           << "] and a product of " << op.getShape().m << " x "
           << op.getShape().n;
  // Count from the start of the buffer to the last element of the last matrix:
  // the offset counts as an axis with two positions.
  Reach reach(matrices.columns);
  reach.addAxis(2, matrices.offset);
  reach.addAxis(matrices.rows, matrices.ld);
  const runtime::BatchAxes &axes = op.getAxes();
  reach.addAxis(axes.batch, matrices.stride);
  for (auto [extent, stride] :
       llvm::zip_equal(axes.outer.extents, matrices.outer))
    reach.addAxis(extent, stride);
  // Without a buffer for c, the bound is the number of results.
  int64_t limit =
      matrices.buffer
          ? cast<MemRefType>(matrices.buffer.getType()).getNumElements()
          : *results;
  if (matrices.ld >= matrices.columns && reach.isWithin(limit))
    return success();
  return op.emitOpError("expected the matrices of ")
         << matrices.name << " to lie within " << limit
         << " elements, found a batch of " << axes.batch << " with "
         << matrices.rows << " rows of " << matrices.columns
         << ", leading dimension " << matrices.ld << ", offset "
         << matrices.offset << " and stride " << matrices.stride;
}

LogicalResult mpc::plan::verifyBounds(plan::MatMulOp op) {
  const runtime::ProductShape &s = op.getShape();
  const runtime::BatchAxes &axes = op.getAxes();
  // In memory, a is m x k, or k x m if transposed; b is k x n, or n x k.
  const Matrices all[] = {
      {"a", op.getA(), s.offsetA, s.transA ? s.k : s.m, s.transA ? s.m : s.k,
       s.lda, axes.strideA, axes.outer.a},
      {"b", op.getB(), s.offsetB, s.transB ? s.n : s.k, s.transB ? s.k : s.n,
       s.ldb, axes.strideB, axes.outer.b},
      {"c", op.getC(), 0, s.m, s.n, s.ldc, axes.strideC, axes.outer.c}};
  return success(llvm::all_of(all, [&](const Matrices &matrices) {
    return succeeded(verifyMatrices(op, matrices));
  }));
}

LogicalResult mpc::plan::verifyBounds(plan::ConvOp op) {
  size_t rank = op.getInSpatial().size();
  for (ArrayRef<int64_t> list :
       {op.getPadsBegin(), op.getPadsEnd(), op.getStrides()})
    if (list.size() != rank)
      return op.emitOpError("expected padding and a stride for each of ")
             << rank << " axes, found " << list.size();
  for (auto [extent, before, after, stride] :
       llvm::zip(op.getInSpatial(), op.getPadsBegin(), op.getPadsEnd(),
                 op.getStrides()))
    if (!format::canStepThrough(extent, before, after, stride))
      return withExitCode(op.emitOpError(), ExitCode::Unsupported)
             << "expected an input extent, its padding and the stride to add "
                "up to at most "
             << format::kMaxExtent << ", found " << extent << ", padding of "
             << before << " and " << after << " and a stride of " << stride;
  return success();
}

//===----------------------------------------------------------------------===//
// Epilogues
//===----------------------------------------------------------------------===//

// Verifies that an epilogue kernel was compiled for `elements` results in rows
// of `columns`. A kernel for more rows or columns would access memory past the
// buffers.
static LogicalResult verifyTiles(Operation *op, FlatSymbolRefAttr epilogue,
                                 std::optional<int64_t> elements,
                                 int64_t columns,
                                 SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, epilogue);
  // Succeed without a check if Codegen has lowered the kernel: then its
  // function has no tensor arguments, or is gone.
  auto tiled = kernel && kernel.getNumArguments() > 0
                   ? dyn_cast<RankedTensorType>(kernel.getArgumentTypes()[0])
                   : RankedTensorType();
  if (!tiled)
    return success();
  if (tiled.getRank() > 0 && tiled.getShape().back() == columns &&
      elements == tiled.getNumElements())
    return success();
  return op->emitOpError("expected ")
         << epilogue << " to take " << elements.value_or(0)
         << " elements in rows of " << columns << ", found " << tiled;
}

LogicalResult mpc::plan::verifyTiles(plan::MatMulOp op,
                                     FlatSymbolRefAttr epilogue,
                                     SymbolTableCollection &symbols) {
  return ::verifyTiles(op, epilogue, countResults(op), op.getShape().n,
                       symbols);
}

LogicalResult mpc::plan::verifyTiles(plan::ConvOp op,
                                     FlatSymbolRefAttr epilogue,
                                     SymbolTableCollection &symbols) {
  // The gradient of the input has the extents of the input, the forward result
  // those of the output.
  const bool isForward = op.getKind() == ConvKind::Forward;
  const int64_t channels = isForward ? op.getOutChannels() : op.getInChannels();
  int64_t elements = 1;
  bool isKnown = !llvm::MulOverflow<int64_t>(op.getBatch(), channels, elements);
  for (int64_t extent : isForward ? op.getOutSpatial() : op.getInSpatial())
    isKnown &= !llvm::MulOverflow(elements, extent, elements);
  return ::verifyTiles(op, epilogue,
                       isKnown ? std::optional(elements) : std::nullopt,
                       channels, symbols);
}
