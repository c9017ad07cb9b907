// Rows that a mask of the data selects: how many there are the data decides,
// and shapes are static. They get all rows and a mask that travels with them.
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
  /// The number of the first selected row, a scalar; 0 where there is none.
  mlir::Value first;
  /// True if there is one, a scalar.
  mlir::Value any;
  /// The ONNX name of the mask, and its shape.
  std::string source;
  llvm::SmallVector<int64_t> shape;
  /// If the mask is one of selected rows: their selection, and
  /// the axis that they lie along.
  SelectionPtr outer;
  int64_t outerAxis = 0;

  int64_t getNumRows() const { return NodeImporter::shapeOf(mask).front(); }
};

/// Among SelectedRows::places, in place of an axis: the numbers of the rows
/// among those that are selected; and what is no place.
inline constexpr int64_t kRowNumber = -1, kNoPlace = -2;

/// The selection by `mask`, whose elements lie in the order of `shape`, of rows
/// that `outer`, if there is one, selects; null after an error.
SelectionPtr findSelection(NodeImporter &node, mlir::Value mask,
                           llvm::ArrayRef<int64_t> shape,
                           llvm::StringRef source,
                           const SelectedRows *outer = nullptr);

/// True if both select the same rows.
inline bool selectSame(const SelectionPtr &a, const SelectionPtr &b) {
  return a == b || (a && b && a->mask == b->mask);
}

/// True if the value is made of numbers of rows among those that a mask
/// selects. The function has the number among all rows in their place, which
/// means the same only as an index of such rows.
bool hasRowNumbers(const SelectedRows &rows);

/// Notes that an output, which is defined, has selected rows.
void selectOutput(
    NodeImporter &node, unsigned output, SelectionPtr selection, int64_t axis,
    std::optional<llvm::SmallVector<int64_t>> places = std::nullopt);

/// The shape of the first output, which is defined.
llvm::ArrayRef<int64_t> getOutputShape(NodeImporter &node);

/// The mask along `axis` of a tensor of that rank.
mlir::Value maskAlong(NodeImporter &node, const Selection &selection,
                      int64_t rank, int64_t axis);

/// The number of selected rows, a scalar of i64.
mlir::Value countRows(NodeImporter &node, const Selection &selection);

/// `value` with `number` in the rows that are not selected.
mlir::Value fillRows(NodeImporter &node, const Selection &selection,
                     int64_t axis, mlir::Value value, double number);

/// `value`, whose rows along `axis` are those of the mask, with copies of the
/// first selected row in the place of others; where none is selected, a number
/// that functions have a value and a derivative of.
mlir::Value selectRows(NodeImporter &node, const Selection &selection,
                       int64_t axis, mlir::Value value);

/// The ONNX name of the mask that selects the rows.
std::string getSourceName(const SelectedRows &rows);

/// True if an input of the node has selected rows.
bool readsSelectedRows(NodeImporter &node);

/// Imports such a node; unsupported where its op does not say what it is of
/// selected rows alone.
mlir::LogicalResult importSelected(NodeImporter &node, const OpEntry &entry);

/// NonZero of a mask of data, or of such rows.
mlir::LogicalResult defineNonZero(NodeImporter &node,
                                  const SelectedRows *outer);

/// The axis along which Compress chooses elements of `x`; where it names none,
/// `x` becomes a row of all its elements.
mlir::FailureOr<int64_t> prepareCompress(NodeImporter &node, mlir::Value &x);

/// NonZero of data, and Compress by a condition that is data.
mlir::LogicalResult importNonZero(NodeImporter &node);
mlir::LogicalResult importDataCompress(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_SELECTION_H
