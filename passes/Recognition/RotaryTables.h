// The tables of rotary embeddings: cosines and sines of every position, which
// models write with one element for each pair of a row, or for each element.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_ROTARYTABLES_H
#define MPC_PASSES_RECOGNITION_ROTARYTABLES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

namespace mpc {

/// Where the two elements of a pair are in a row of `2 * pairs` elements: side
/// by side where `interleaved`, else in two halves.
struct PairLayout {
  int64_t pairs = 0;
  bool interleaved = false;

  bool operator==(const PairLayout &other) const {
    return pairs == other.pairs && interleaved == other.interleaved;
  }
};

/// True if `table`, of cosines or sines for each element, has the same angle
/// for both elements of a pair: it repeats a table with one angle a pair, or
/// its values are known, equal, and never trained.
bool hasEqualPairs(mlir::Value table, PairLayout layout);

/// The table of pairs that such a table is made of, created at the insertion
/// point; the table itself where it is one of pairs.
mlir::Value takePairs(mlir::Value table, PairLayout layout,
                      mlir::OpBuilder &builder, mlir::Location location);

/// Whether two tables have the same elements: they are computed alike, or known
/// and never trained.
bool areEqualTables(mlir::Value a, mlir::Value b);

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_ROTARYTABLES_H
