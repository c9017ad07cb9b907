// Handles rows that a mask of the data selects. The data determines the number
// of rows, but shapes are static, so values keep all rows, and the mask travels
// with them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

struct Selection;
using SelectionPtr = std::shared_ptr<const Selection>;

/// The elements that NonZero found in a mask.
struct Selection {
  /// A boolean for each row: true if it is selected.
  mlir::Value mask;
  /// The index of the first selected row, a scalar; 0 if none is selected.
  mlir::Value first;
  /// True if any row is selected, a scalar.
  mlir::Value any;
  /// The ONNX name of the mask, and its shape.
  std::string source;
  llvm::SmallVector<int64_t> shape;
  /// If the mask itself has selected rows: their selection, and the axis of the
  /// rows.
  SelectionPtr outer;
  int64_t outerAxis = 0;

  int64_t getNumRows() const {
    assert(mask && NodeImporter::shapeOf(mask).size() == 1 &&
           "a mask has an element per row");
    return NodeImporter::shapeOf(mask).front();
  }
};

/// Special entries of SelectedRows::places. kRowNumber: the column holds row
/// numbers among the selected rows. kNoPlace: the column is no position.
inline constexpr int64_t kRowNumber = -1, kNoPlace = -2;

/// Returns the selection by `mask`, whose elements are in row-major order of
/// `shape`. `outer`, if given, describes the selected rows of the mask. Null
/// after an error.
SelectionPtr findSelection(NodeImporter &node, mlir::Value mask,
                           llvm::ArrayRef<int64_t> shape,
                           llvm::StringRef source,
                           const SelectedRows *outer = nullptr);

/// True if both select equal rows.
inline bool selectSame(const SelectionPtr &a, const SelectionPtr &b) {
  return a == b || (a && b && a->mask == b->mask);
}

/// True if the value holds row numbers among the selected rows. The function
/// holds numbers among all rows instead, which is equivalent only for indexing
/// such rows.
bool hasRowNumbers(const SelectedRows &rows);

/// Records that an output, already defined, has selected rows.
void selectOutput(
    NodeImporter &node, unsigned output, SelectionPtr selection, int64_t axis,
    std::optional<llvm::SmallVector<int64_t>> places = std::nullopt);

/// The shape of the first output, which is already defined.
llvm::ArrayRef<int64_t> getOutputShape(NodeImporter &node);

/// Reshapes the mask to broadcast along `axis` of a tensor of rank `rank`.
mlir::Value maskAlong(NodeImporter &node, const Selection &selection,
                      int64_t rank, int64_t axis);

/// Counts the selected rows, as an i64 scalar.
mlir::Value countRows(NodeImporter &node, const Selection &selection);

/// Returns `value` with `number` in the unselected rows.
mlir::Value fillRows(NodeImporter &node, const Selection &selection,
                     int64_t axis, mlir::Value value, double number);

/// Returns `value` with each unselected row along `axis` replaced by a copy of
/// the first selected row. If no row is selected, fills in a number at which
/// functions have a value and a derivative.
mlir::Value selectRows(NodeImporter &node, const Selection &selection,
                       int64_t axis, mlir::Value value);

/// The ONNX name of the mask that selects the rows.
std::string getSourceName(const SelectedRows &rows);

/// True if an input of the node has selected rows.
bool readsSelectedRows(NodeImporter &node);

/// Imports a node that reads selected rows. Reports an error if the op's
/// meaning for selected rows alone is unknown.
mlir::LogicalResult importSelected(NodeImporter &node, const OpEntry &entry);

/// Defines NonZero of a data mask, or of selected rows (`outer`).
mlir::LogicalResult defineNonZero(NodeImporter &node,
                                  const SelectedRows *outer);

/// Returns the axis along which Compress selects elements of `x`. If the node
/// names no axis, flattens `x` first.
mlir::FailureOr<int64_t> prepareCompress(NodeImporter &node, mlir::Value &x);

/// Import NonZero of data, and Compress by a data condition.
mlir::LogicalResult importNonZero(NodeImporter &node);
mlir::LogicalResult importDataCompress(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H
