// Rows that a mask of the data selects: how many there are the data decides,
// and shapes are static. They get all rows and a mask that travels with them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_SELECTION_H
#define MPC_FRONTENDS_ONNX_OPS_SELECTION_H

#include "frontends/ONNX/Ops/Importer.h"

namespace mpc::onnx_frontend {

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

  int64_t getNumRows() const { return NodeImporter::shapeOf(mask).front(); }
};

using SelectionPtr = std::shared_ptr<const Selection>;

/// The selection by `mask`, whose elements lie in the order of `shape`; null
/// after an error.
SelectionPtr findSelection(NodeImporter &node, mlir::Value mask,
                           llvm::ArrayRef<int64_t> shape,
                           llvm::StringRef source);

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

/// A part of a shape with the number of selected rows in it has it too.
void passOnCount(NodeImporter &node);

/// NonZero of data.
mlir::LogicalResult importNonZero(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_SELECTION_H
