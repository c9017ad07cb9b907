// Operands of a matrix product for oneDNN: as stored, widened to f32, or
// packed. Also the result of such a product.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_MATRIXOPERANDS_H
#define MPC_RUNTIME_CPU_ONEDNN_MATRIXOPERANDS_H

#include "runtime/cpu/Contraction.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/Transpose.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/SlicedReorder.h"

#include <cstring>

namespace mpc::runtime {

/// Approximate number of elements per slice of the widening phase.
inline constexpr int64_t kWidenBlock = 1 << 16;

/// An operand of a matrix product: `matrices` stored matrices of rows x
/// columns. `widened` if the step first copies the operand to f32.
struct MatMulOperand {
  Operand source;
  int64_t matrices = 1, rows = 0, columns = 0, ld = 0;
  bool transposed = false;
  bool widened = false;
  size_t sharedOffset = 0; ///< offset of the widened copy

  MatMulOperand(Operand source, const MatMulStep &step, int64_t first,
                int64_t rows, int64_t columns, int64_t ld, int64_t stride,
                const std::vector<int64_t> &outerStrides, bool transposed)
      : source(source), rows(rows), columns(columns), ld(ld),
        transposed(transposed), first(first), stride(stride), batch(step.batch),
        outer(step.outer), outerStrides(outerStrides) {
    bool repeats = stride == 0;
    for (int64_t elements : outerStrides)
      repeats &= elements == 0;
    matrices = repeats ? 1 : countMatrices(step);
  }

  /// Reserves shared memory for a dense copy in f32.
  void widen(size_t &sharedBytes) {
    widened = true;
    sharedOffset = sharedBytes;
    sharedBytes += alignScratch(elements() * sizeof(float));
  }

  DType type() const { return widened ? DType::F32 : source.type; }
  int64_t leading() const { return widened ? columns : ld; }

  /// Returns the address of element (row, column) of op(matrix) number `index`.
  const std::byte *at(int64_t index, int64_t row, int64_t column,
                      std::byte *shared) const {
    if (transposed)
      std::swap(row, column);
    if (!widened)
      return source.at(offsetOf(index) + row * ld + column);
    int64_t matrix = matrices == 1 ? 0 : index;
    return shared + sharedOffset +
           ((matrix * rows + row) * columns + column) *
               static_cast<int64_t>(sizeof(float));
  }

  dnnl::memory::desc desc(int64_t opRows, int64_t opColumns) const {
    dnnl::memory::dims strides = {leading(), 1};
    if (transposed)
      std::swap(strides[0], strides[1]);
    return {{opRows, opColumns}, dnnlType(type()), strides};
  }

  int64_t elements() const { return matrices * rows * columns; }
  int64_t widenedElements() const { return widened ? elements() : 0; }
  bool isDense() const {
    return ld == columns && (matrices == 1 || (stride == rows * columns &&
                                               outer.extents.empty()));
  }
  /// Returns the offset of matrix `index` in the source, in elements.
  int64_t offsetOf(int64_t index) const {
    return first + offsetOfMatrix(outer, outerStrides, index, batch, stride);
  }

  // Each slice widens a block of whole rows; blocks run through all matrices.
  int64_t rowsPerBlock() const {
    return std::max<int64_t>(1, kWidenBlock / columns);
  }
  int64_t widenSlices() const {
    int64_t block = rowsPerBlock();
    return widened ? (matrices * rows + block - 1) / block : 0;
  }
  void runWiden(int64_t slice, std::byte *shared) const {
    int64_t begin = slice * rowsPerBlock();
    int64_t end = std::min(begin + rowsPerBlock(), matrices * rows);
    auto *result = reinterpret_cast<float *>(shared + sharedOffset);
    if (isDense())
      return runtime::widen(source.type, source.at(first + begin * columns),
                            result + begin * columns, (end - begin) * columns);
    for (int64_t row = begin; row < end; ++row)
      runtime::widen(source.type,
                     source.at(offsetOf(row / rows) + row % rows * ld),
                     result + row * columns, columns);
  }

private:
  int64_t first, stride, batch;
  OuterAxes outer;
  std::vector<int64_t> outerStrides;
};

/// An operand packed in panels, in a layout chosen for oneDNN's primitive. A
/// panel is all that one tile reads: some rows of the left operand, or some
/// columns of the right. An absent operand has no panels.
class PackedPanels {
public:
  PackedPanels() = default;

  /// `from` and `to` are the stored and the packed layout: [0] of a full panel,
  /// and [1] of the last panel if the last panel is smaller.
  PackedPanels(int64_t matrices, int64_t panels,
               const dnnl::memory::desc (&from)[2],
               const dnnl::memory::desc (&to)[2], int workers)
      : matrices(matrices), panels(panels), hasSmaller(!to[1].is_zero()) {
    for (int i = 0; i <= int(hasSmaller); ++i) {
      layouts[i] = to[i];
      reorders[i] = SlicedReorder(from[i], to[i], workers);
      panelBytes = std::max(panelBytes, alignScratch(to[i].get_size()));
    }
  }

  explicit operator bool() const { return panels > 0; }
  const dnnl::memory::desc &layout(bool isSmaller) const {
    return layouts[isSmaller];
  }
  size_t scratchBytes() const {
    return std::max(reorders[0].scratchBytes(), reorders[1].scratchBytes());
  }

  /// Reserves memory for all panels, behind the first `bytes` bytes, and adds
  /// the size to `bytes`.
  void reserve(size_t &bytes) {
    offset = bytes;
    bytes += panelBytes * size_t(matrices * panels);
  }
  std::byte *at(int64_t index, int64_t panel, std::byte *memory) const {
    const int64_t matrix = matrices == 1 ? 0 : index;
    return memory + offset + panelBytes * size_t(matrix * panels + panel);
  }

  // Each slice packs part of a panel.
  int64_t slices() const { return matrices * slicesPerMatrix(); }
  struct Part {
    int64_t matrix, panel, slice;
  };
  Part partOf(int64_t slice) const {
    const int64_t matrix = slice / slicesPerMatrix();
    const int64_t inMatrix = slice % slicesPerMatrix();
    const int64_t panel =
        std::min(inMatrix / reorders[0].slices(), panels - hasSmaller);
    return {matrix, panel, inMatrix - panel * reorders[0].slices()};
  }
  /// Packs one part. `memory` is the start of the memory in which reserve()
  /// reserved room; `scratch` has scratchBytes() bytes.
  Status run(const Part &part, int worker, const std::byte *from,
             std::byte *memory, std::byte *scratch) {
    const bool isSmaller = hasSmaller && part.panel + 1 == panels;
    return reorders[isSmaller].run(
        part.slice, worker, from, at(part.matrix, part.panel, memory), scratch);
  }

private:
  int64_t slicesPerMatrix() const {
    return (panels - hasSmaller) * reorders[0].slices() +
           (hasSmaller ? reorders[1].slices() : 0);
  }

  int64_t matrices = 0, panels = 0;
  bool hasSmaller = false; ///< the last panel is smaller
  dnnl::memory::desc layouts[2];
  SlicedReorder reorders[2];
  size_t panelBytes = 0, offset = 0;
};

/// A dense row-major copy of matrices of rows x depth. The source is
/// column-major, or row-major with gaps between rows. An absent operand has no
/// matrices.
class DenseRows {
public:
  DenseRows() = default;
  DenseRows(int64_t matrices, int64_t rows, int64_t depth, DType type,
            bool inColumns)
      : matrices(matrices), rows(rows), depth(depth), type(type),
        inColumns(inColumns) {}

  explicit operator bool() const { return matrices > 0; }

  /// Reserves memory for all matrices, behind the first `bytes` bytes, and adds
  /// the size to `bytes`.
  void reserve(size_t &bytes) {
    offset = bytes;
    bytes += alignScratch(size_t(matrices * rows * depth * sizeOf(type)));
  }
  std::byte *at(int64_t index, int64_t row, std::byte *memory) const {
    const int64_t matrix = matrices == 1 ? 0 : index;
    return memory + offset + (matrix * rows + row) * depth * sizeOf(type);
  }

  // Each slice copies a block of rows and depth. Blocks of the same rows follow
  // each other.
  int64_t slices() const { return matrices * rowBlocks() * depthBlocks(); }
  struct Part {
    int64_t matrix, row, depth;
  };
  Part partOf(int64_t slice) const {
    const int64_t block = slice / depthBlocks();
    return {block / rowBlocks(), block % rowBlocks() * kBlockRows,
            slice % depthBlocks() * kBlockDepth};
  }
  /// Copies one part. `from` is the first element of the part; `leading` is the
  /// leading dimension of the source. `memory` is the start of the memory in
  /// which reserve() reserved room.
  void run(const Part &part, const std::byte *from, int64_t leading,
           std::byte *memory) const {
    std::byte *to =
        at(part.matrix, part.row, memory) + part.depth * sizeOf(type);
    if (!inColumns)
      copyRows(part, from, leading, to);
    else if (type == DType::F32)
      turn<uint32_t>(part, from, leading, to);
    else
      turn<uint16_t>(part, from, leading, to);
  }

private:
  /// The block that one slice transposes. The block has long runs of the
  /// result's rows, and whole cache lines of the source.
  static constexpr int64_t kBlockRows = 128, kBlockDepth = 512;

  int64_t rowBlocks() const { return (rows + kBlockRows - 1) / kBlockRows; }
  int64_t depthBlocks() const {
    return (depth + kBlockDepth - 1) / kBlockDepth;
  }
  int64_t rowsOf(const Part &part) const {
    return std::min(kBlockRows, rows - part.row);
  }
  int64_t depthOf(const Part &part) const {
    return std::min(kBlockDepth, depth - part.depth);
  }
  template <typename T>
  void turn(const Part &part, const std::byte *from, int64_t leading,
            std::byte *to) const {
    transpose(reinterpret_cast<const T *>(from), leading,
              reinterpret_cast<T *>(to), depth, depthOf(part), rowsOf(part));
  }
  void copyRows(const Part &part, const std::byte *from, int64_t leading,
                std::byte *to) const {
    for (int64_t row = 0; row < rowsOf(part); ++row)
      std::memcpy(to + row * depth * sizeOf(type),
                  from + row * leading * sizeOf(type),
                  size_t(depthOf(part) * sizeOf(type)));
  }

  int64_t matrices = 0, rows = 0, depth = 0;
  DType type = DType::F32;
  bool inColumns = false;
  size_t offset = 0;
};

/// The result matrices of a product, or the epilogue that reads them.
struct ProductResult {
  Operand operand;
  EpilogueCall epilogue;

  ProductResult(const MatMulStep &step, Operand operand, EpilogueCall epilogue)
      : operand(operand), epilogue(std::move(epilogue)),
        alpha(static_cast<float>(step.alpha)), n(step.n), ldc(step.ldc),
        strideC(step.strideC), batch(step.batch), outer(step.outer) {}

  std::byte *at(int64_t index, int64_t row, int64_t column) const {
    return operand.at(offsetOfRow(index, row) + column);
  }

  /// Scales `accumulators`, then passes them to the epilogue, or converts them
  /// to the result's type. The accumulators are rows [row, row + rows) and
  /// columns [column, column + columns) of matrix `index`, with leading
  /// dimension `leading`.
  void finish(float *accumulators, int64_t leading, int64_t index, int64_t row,
              int64_t rows, int64_t column, int64_t columns) const {
    // One call scales all rows, including the gaps between rows.
    if (alpha != 1)
      scale(accumulators, rows * leading, alpha);
    // An epilogue gets all rows at once if they are adjacent, else one row at a
    // time.
    if (epilogue) {
      const int64_t atOnce = ldc == n ? rows : 1;
      for (int64_t i = 0; i < rows; i += atOnce)
        epilogue(accumulators + i * leading, offsetOfRow(index, row + i) / n,
                 atOnce, column, columns, leading);
      return;
    }
    for (int64_t i = 0; i < rows; ++i)
      narrow(operand.type, accumulators + i * leading,
             at(index, row + i, column), columns);
  }

private:
  /// Returns the offset of row `row` of matrix `index`, in elements.
  int64_t offsetOfRow(int64_t index, int64_t row) const {
    return offsetOfMatrix(outer, outer.c, index, batch, strideC) + row * ldc;
  }

  float alpha;
  int64_t n, ldc, strideC, batch;
  OuterAxes outer;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_MATRIXOPERANDS_H
