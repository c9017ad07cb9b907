// Handles the tables of rotary embeddings: cosines and sines for every
// position. A table has one element per pair of a row, or one per element.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_ROTARYTABLES_H
#define MPC_PASSES_RECOGNITION_ROTARYTABLES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// The positions of pairs in a row of 2 * `pairs` elements. If `interleaved`,
/// [a, b, c, d] has the pairs (a, b) and (c, d); otherwise (a, c) and (b, d).
struct PairLayout {
  int64_t pairs = 0;
  bool interleaved = false;

  bool operator==(const PairLayout &other) const {
    return pairs == other.pairs && interleaved == other.interleaved;
  }
};

/// True if both elements of each pair in `table` are equal. `table` has one
/// element per element of a row. The model must compute the table by repeating
/// a table of pairs, or the elements must be known.
bool hasEqualPairs(mlir::Value table, PairLayout layout);

/// Returns the table with one element per pair: a slice of `table`, or `table`
/// if it has one element per pair already.
mlir::Value takePairs(mlir::Value table, PairLayout layout,
                      mlir::OpBuilder &builder, mlir::Location location);

/// True if two tables have the same elements: equal ops compute both, or the
/// elements of both are known and equal.
bool areEqualTables(mlir::Value a, mlir::Value b);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_ROTARYTABLES_H
