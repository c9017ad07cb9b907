// The bytes of an artifact's .mpc.data section while it is filled.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_TARGET_DATASECTION_H
#define MPC_COMPILER_TARGET_DATASECTION_H

#include "mlir/IR/BuiltinAttributes.h"

#include <string>

namespace mpc {

/// Where an entry lies in the section.
struct DataEntry {
  int64_t offset = 0;
  int64_t bytes = 0;
};

class DataSection {
public:
  /// Appends the elements of `value`, raw and little-endian, booleans one byte
  /// each, at a multiple of 64 bytes. The same attribute is stored once.
  mlir::FailureOr<DataEntry> add(mlir::ElementsAttr value);

  llvm::StringRef getBytes() const { return bytes; }

private:
  std::string bytes;
  llvm::DenseMap<mlir::Attribute, DataEntry> entries;
};

} // namespace mpc

#endif // MPC_COMPILER_TARGET_DATASECTION_H
