// Builds the .mpc.data section of an artifact: the offset of each entry
// (weights, constants), and the bytes to write.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_DATASECTION_H
#define MPC_COMPILER_ARTIFACT_DATASECTION_H

#include "compiler/Artifact/ELFAppender.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <forward_list>
#include <string>

namespace mpc {

/// The position of an entry in the section.
struct DataEntry {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Collects the entries. Weights stay in their attributes, so the MLIR context
/// must outlive the section.
class DataSection {
public:
  /// Appends the elements of `value` at a multiple of 64 bytes: raw,
  /// little-endian, one byte per boolean. Stores equal attributes once. Fails
  /// if `value` has no data.
  mlir::FailureOr<DataEntry> add(mlir::ElementsAttr value);

  /// Appends `bytes` at a multiple of 64 bytes.
  DataEntry add(std::string bytes);

  /// Returns the contents of the section, in order.
  llvm::ArrayRef<SectionPiece> getPieces() const { return pieces; }
  int64_t getSize() const { return size; }

private:
  void append(llvm::StringRef bytes, uint64_t repeat = 1);
  void align();
  void appendDense(mlir::DenseElementsAttr value);

  std::vector<SectionPiece> pieces;
  int64_t size = 0;
  /// Owns bytes that differ from the attribute's, such as booleans as bytes.
  /// `pieces` refer to these bytes.
  std::forward_list<std::string> converted;
  llvm::DenseMap<mlir::Attribute, DataEntry> entries;
};

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_DATASECTION_H
