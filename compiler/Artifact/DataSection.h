// An artifact's .mpc.data section: where each entry lies in it, and where its
// bytes are until they are written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_DATASECTION_H
#define MPC_COMPILER_ARTIFACT_DATASECTION_H

#include "compiler/Artifact/ELFAppender.h"

#include "mlir/IR/BuiltinAttributes.h"

#include <forward_list>
#include <string>

namespace mpc {

/// Where an entry lies in the section.
struct DataEntry {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Weights stay where the attributes hold them: the MLIR context must outlive
/// the section.
class DataSection {
public:
  /// Appends the elements of `value`, raw and little-endian, booleans one byte
  /// each, at a multiple of 64 bytes. The same attribute is stored once.
  mlir::FailureOr<DataEntry> add(mlir::ElementsAttr value);

  /// The section, piece by piece.
  llvm::ArrayRef<SectionPiece> getPieces() const { return pieces; }
  int64_t getSize() const { return size; }

private:
  void append(llvm::StringRef bytes, uint64_t repeat = 1);
  void appendDense(mlir::DenseElementsAttr value);

  std::vector<SectionPiece> pieces;
  int64_t size = 0;
  /// Bytes of constants that had to be converted, for example packed booleans
  /// to a byte each; `pieces` point to them.
  std::forward_list<std::string> converted;
  llvm::DenseMap<mlir::Attribute, DataEntry> entries;
};

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_DATASECTION_H
