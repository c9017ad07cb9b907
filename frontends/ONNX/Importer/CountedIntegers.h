// Shapes, and parts of shapes, that hold the number of rows which a mask of the
// data selects, and are known but for that.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H

#include "frontends/ONNX/Importer/Selection.h"

namespace mpc::onnx_frontend {

struct CountedIntegers {
  /// The selection whose rows are counted; of the sum of a mask that selects
  /// nothing yet, null, and the mask with its name.
  SelectionPtr selection;
  mlir::Value mask;
  std::string source;
  /// The integers, with the number of all rows in the place of that of the
  /// selected ones, and 1 in these places, 0 elsewhere.
  HostTensor elements, isCount;
};

/// An input that holds such a number has the number of all rows for as long as
/// this lives, so that what reads a shape finds it known.
class KnownCounts {
public:
  KnownCounts(NodeImporter &node, unsigned index);
  ~KnownCounts();

private:
  ImportedValue *value = nullptr;
};

/// Such numbers that an input holds; null where it holds none.
std::shared_ptr<const CountedIntegers> findCounts(NodeImporter &node,
                                                  unsigned index);

/// The selection that is counted; null after an error.
SelectionPtr findCounted(NodeImporter &node, const CountedIntegers &integers);

/// Notes that the output of the node, which is built, holds a number of
/// selected rows: it moves such integers, or adds up a mask.
void passOnCounts(NodeImporter &node, const OpEntry &entry);

/// The place of the number in a shape that holds one, counted from the end:
/// 1 is the last.
std::optional<int64_t> findCountFromEnd(const CountedIntegers &integers);

/// Builds a node that makes as many rows as a mask selects: Expand,
/// ConstantOfShape and Range. False where it is none.
mlir::FailureOr<bool> importCounted(NodeImporter &node, const OpEntry &entry);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
