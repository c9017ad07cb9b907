// Handles shapes that are known at import but for one number: the count of rows
// that a mask of the data selects.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H

#include "frontends/ONNX/Importer/Selection.h"

namespace mpc::onnx_frontend {

struct CountedIntegers {
  /// The selection whose rows are counted. Null for the sum of a mask that
  /// selects nothing yet; `mask` and its name `source` are set instead.
  SelectionPtr selection;
  mlir::Value mask;
  std::string source;
  /// `elements` holds the integers, with the number of all rows in place of the
  /// count. `isCount` is 1 at the count and 0 elsewhere.
  HostTensor elements, isCount;
};

/// While alive, makes a counted input look constant, with the number of all
/// rows as the count. Builders that read shapes then find a known shape.
class KnownCounts {
public:
  KnownCounts(NodeImporter &node, unsigned index);
  ~KnownCounts();

private:
  ImportedValue *value = nullptr;
};

/// The counted integers that input `index` holds; null if none.
std::shared_ptr<const CountedIntegers> findCounts(NodeImporter &node,
                                                  unsigned index);

/// The counted selection; null after an error.
SelectionPtr findCounted(NodeImporter &node, const CountedIntegers &integers);

/// Call after a node is built. Marks its output as counted integers if the node
/// moves counted integers or sums a mask.
void passOnCounts(NodeImporter &node, const OpEntry &entry);

/// The position of the count in `integers`, from the end (1 is the last);
/// nullopt unless there is exactly one.
std::optional<int64_t> findCountFromEnd(const CountedIntegers &integers);

/// Builds an Expand, ConstantOfShape or Range that makes as many rows as a mask
/// selects. Returns false for any other node.
mlir::FailureOr<bool> importCounted(NodeImporter &node, const OpEntry &entry);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
