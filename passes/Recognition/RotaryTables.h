// Handles the tables of rotary embeddings: cosines and sines of every position,
// with one element for each pair of a row, or for each element.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_ROTARYTABLES_H
#define MPC_PASSES_RECOGNITION_ROTARYTABLES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// The positions of a pair in a row of `2 * pairs` elements: neighbours if
/// `interleaved`, else [a, b, c, d] has the pairs (a, c) and (b, d).
struct PairLayout {
  int64_t pairs = 0;
  bool interleaved = false;

  bool operator==(const PairLayout &other) const {
    return pairs == other.pairs && interleaved == other.interleaved;
  }
};

/// True if `table`, with an element for each element of a row, has equal angles
/// for the elements of each pair. Either the table repeats a table of pairs, or
/// its values are known, equal and never trained.
bool hasEqualPairs(mlir::Value table, PairLayout layout);

/// Creates the table of pairs behind `table` at the insertion point. Returns
/// `table` if it is a table of pairs.
mlir::Value takePairs(mlir::Value table, PairLayout layout,
                      mlir::OpBuilder &builder, mlir::Location location);

/// True if two tables have the same elements: computed alike, or known, equal
/// and never trained.
bool areEqualTables(mlir::Value a, mlir::Value b);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_ROTARYTABLES_H
