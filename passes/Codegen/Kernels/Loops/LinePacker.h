// Packs operands of a CPU's products into panels of lines
// (compiler/Kernels/ProductBlocks.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_LINEPACKER_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_LINEPACKER_H

#include "compiler/Kernels/MatrixOperand.h"
#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

namespace mpc::codegen {

/// A product's operand as lines along the depth: rows of the left or columns of
/// the right operand.
struct Lines {
  MatrixOperand operand;
  /// Elements between lines, and between neighbours on a line.
  int64_t lineStride = 1, depthStride = 1;
  /// Lines of a panel.
  int64_t panel = 1;
  /// The memory of all packed panels, in the type of the sums. Element (k,
  /// line) of the panel starting at line `first` is at first * blockDepth + k *
  /// panel + line - first.
  mlir::Value packed;
};

class LinePacker {
public:
  /// Elements are converted to the compute type of `lanes`, in vectors of
  /// `width` elements. A panel has room for `blockDepth` elements of each line.
  LinePacker(KernelContext &context, Lanes &lanes, int64_t width,
             int64_t blockDepth)
      : context(context), b(context.b), lanes(lanes), width(width),
        blockDepth(blockDepth) {}

  /// Packs `depth` elements of `count` lines, the first at offset `source` of
  /// the operand. Missing lines of the last panel are zeros.
  void pack(const Lines &lines, mlir::Value source, mlir::Value count,
            mlir::Value depth);

private:
  void packPanels(const Lines &lines, mlir::Value source, mlir::Value target,
                  mlir::Value count, mlir::Value depth);
  void packAlongLines(const Lines &lines, mlir::Value source,
                      mlir::Value target, mlir::Value depth);
  void packTransposed(const Lines &lines, mlir::Value source,
                      mlir::Value target, mlir::Value depth);
  void transposeBlock(const Lines &lines, mlir::Value source,
                      mlir::Value target, int64_t first);
  void packEdge(const Lines &lines, mlir::Value source, mlir::Value target,
                mlir::Value count, mlir::Value depth);
  mlir::Value load(const Lines &lines, mlir::Value offset, int64_t width);
  void store(const Lines &lines, mlir::Value value, mlir::Value offset);

  KernelContext &context;
  mlir::ImplicitLocOpBuilder &b;
  Lanes &lanes;
  int64_t width, blockDepth;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_LINEPACKER_H
