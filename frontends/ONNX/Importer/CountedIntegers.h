// Handles counted integers: integer tensors, usually shapes, that are known at
// import except for the count of rows that a mask selects. The mask is computed
// from data, so the count varies from step to step. For example, the rows of x
// at NonZero(mask) have the shape [count, 64].
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H

#include "frontends/ONNX/Importer/Selection.h"

namespace mpc::onnx_frontend {

struct CountedIntegers {
  /// The selection whose rows the count counts. Null if the count is the sum of
  /// a mask that no NonZero has read yet. Then `mask` is the mask, and `source`
  /// its ONNX name.
  SelectionPtr selection;
  mlir::Value mask;
  std::string source;
  /// `elements` holds the integers, with the number of all rows in place of the
  /// count. `isCount` is 1 at the count and 0 elsewhere. For [count, 64] and a
  /// mask of 128 elements: `elements` is [128, 64], `isCount` is [1, 0].
  HostTensor elements, isCount;
};

/// While an object lives, counted integers in input `index` of the node look
/// like a constant, with the number of all rows as the count. So a builder that
/// reads a shape from the input finds a known shape.
class KnownCounts {
public:
  KnownCounts(NodeImporter &node, unsigned index);
  ~KnownCounts();

private:
  ImportedValue *value = nullptr;
};

/// The counted integers in input `index` of the node; null if the input holds
/// none.
std::shared_ptr<const CountedIntegers> findCounts(NodeImporter &node,
                                                  unsigned index);

/// Returns the selection that the count in `integers` counts. Creates the
/// selection if the count is the sum of a mask. Null after an error.
SelectionPtr findCounted(NodeImporter &node, const CountedIntegers &integers);

/// Call after a node is built. Marks the node's output as counted integers if
/// the node only moves counted integers (Concat, Slice, Reshape) or sums a
/// mask.
void passOnCounts(NodeImporter &node, const OpEntry &entry);

/// The position of the count in `integers`, from the end (1 is the last);
/// nullopt unless there is exactly one.
std::optional<int64_t> findCountFromEnd(const CountedIntegers &integers);

/// Builds an Expand, ConstantOfShape or Range that makes as many rows as a mask
/// selects. Returns false for any other node.
mlir::FailureOr<bool> importCounted(NodeImporter &node, const OpEntry &entry);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_COUNTEDINTEGERS_H
