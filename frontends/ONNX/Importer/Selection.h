// Handles rows that a mask selects, where the mask is computed from data. The
// data determines how many rows are selected, but shapes in the IR are static.
// So values keep all rows, selected or not, and the importer records the mask
// beside each value.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H
#define MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

struct Selection;
using SelectionPtr = std::shared_ptr<const Selection>;

/// A selection of rows by a mask. A row is one element of the mask, in
/// row-major order.
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
  /// Set if the mask itself is a value with selected rows: the selection of the
  /// mask's rows, and the axis of the mask on which these rows lie.
  SelectionPtr outer;
  int64_t outerAxis = 0;

  int64_t getNumRows() const {
    assert(mask && NodeImporter::shapeOf(mask).size() == 1 &&
           "a mask has an element per row");
    return NodeImporter::shapeOf(mask).front();
  }
};

/// Special entries of SelectedRows::places. kRowNumber: the numbers count
/// selected rows only, so 0 is the first selected row. kNoPlace: the numbers
/// are no positions.
inline constexpr int64_t kRowNumber = -1, kNoPlace = -2;

/// Returns the selection of the elements of `mask`, which has the shape `shape`
/// and the name `source` in the model. Reuses an equal selection. `outer`
/// describes the selected rows of the mask itself; null if it has none. Null
/// after an error.
SelectionPtr findSelection(NodeImporter &node, mlir::Value mask,
                           llvm::ArrayRef<int64_t> shape,
                           llvm::StringRef source,
                           const SelectedRows *outer = nullptr);

/// True if `a` and `b` select the same rows.
inline bool selectSame(const SelectionPtr &a, const SelectionPtr &b) {
  return a == b || (a && b && a->mask == b->mask);
}

/// True if the value's numbers count selected rows only, in the model. The
/// numbers in the function count all rows. So they may only serve as indices of
/// values whose rows the same mask selects.
bool hasRowNumbers(const SelectedRows &rows);

/// Records that the rows of output `output` along `axis` are selected rows. The
/// output must be defined already.
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
/// the first selected row. If no row is selected, fills in 1 for floats and 0
/// otherwise: functions such as log have a value and a derivative at 1.
mlir::Value selectRows(NodeImporter &node, const Selection &selection,
                       int64_t axis, mlir::Value value);

/// The ONNX name of the mask that selects the rows.
std::string getSourceName(const SelectedRows &rows);

/// True if an input of the node has selected rows.
bool readsSelectedRows(NodeImporter &node);

/// Imports a node that reads selected rows. Reports an error for an op that mpc
/// cannot restrict to the selected rows.
mlir::LogicalResult importSelected(NodeImporter &node, const OpEntry &entry);

/// Defines the result of a NonZero of data. `outer` describes the selected rows
/// of the input; null if it has none.
mlir::LogicalResult defineNonZero(NodeImporter &node,
                                  const SelectedRows *outer);

/// Returns the axis along which Compress selects elements of `x`. If the node
/// names no axis, flattens `x` first.
mlir::FailureOr<int64_t> prepareCompress(NodeImporter &node, mlir::Value &x);

/// Import a NonZero whose input, and a Compress whose condition, is computed
/// from data.
mlir::LogicalResult importNonZero(NodeImporter &node);
mlir::LogicalResult importDataCompress(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H
