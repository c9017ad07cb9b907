// The 16-bit types that the kernels made from an op may load and store.
//
// The Precision stage decides a type for every value; the Fusion stage then
// replaces ops by others. Before, each op gets limits: the 16-bit types of its
// operands and results. The limits are metadata of the op's location. Every new
// op needs a location, usually that of the op it replaces, so rewrites hand the
// limits on without knowing them. An op whose location has no limits must not
// touch 16-bit values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_TYPELIMITS_H
#define MPC_PASSES_FUSION_TYPELIMITS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// Returns the element type of a tensor if it is a float of fewer than 32 bits;
/// null otherwise.
mlir::FloatType toNarrowType(mlir::Type tensor);
inline mlir::FloatType getNarrowType(mlir::Value value) {
  return toNarrowType(value.getType());
}

/// True if the Precision stage has decided types of fewer than 32 bits for some
/// values of `module`.
bool isMixed(mlir::ModuleOp module);

class TypeLimits {
public:
  /// Keys of the metadata. `op` numbers the op among all ops of the module, so
  /// that the ops that replace an op are known to belong together.
  static constexpr llvm::StringLiteral kOp = "op";
  /// Lists of the 16-bit types of operands and results.
  static constexpr llvm::StringLiteral kLoads = "loads", kStores = "stores";
  /// The numbers of elements of the 16-bit results, if other results are wide.
  static constexpr llvm::StringLiteral kElements = "elements";
  /// The 16-bit types that an op with products inside, such as an attention,
  /// multiplies.
  static constexpr llvm::StringLiteral kFactors = "factors";
  /// The 16-bit types of values that a loop carries.
  static constexpr llvm::StringLiteral kCarries = "carries";
  /// The low copies of parameters that the op reads.
  static constexpr llvm::StringLiteral kCopies = "copies";
  /// Present if the op is a cast that rounds.
  static constexpr llvm::StringLiteral kRounds = "rounds";
  /// Present if the op reads the result of a cast that rounds, but does not
  /// multiply.
  static constexpr llvm::StringLiteral kLoadsRounded = "loads_rounded";
  /// The reason for which the Precision stage has kept the op wide.
  static constexpr llvm::StringLiteral kReason = "reason";

  TypeLimits() = default;
  explicit TypeLimits(mlir::DictionaryAttr attributes)
      : attributes(attributes) {}

  /// Returns the limits in `location`; empty if there are none, or if several
  /// ops with different limits share the location.
  static TypeLimits of(mlir::LocationAttr location);

  /// Returns `location` with these limits.
  mlir::Location addTo(mlir::Location location) const;

  explicit operator bool() const { return attributes != nullptr; }
  mlir::DictionaryAttr getAttributes() const { return attributes; }

  bool has(llvm::StringRef key) const {
    return attributes && attributes.contains(key);
  }
  /// True if the list `key` contains `element`.
  bool contains(llvm::StringRef key, mlir::Attribute element) const;
  bool contains(llvm::StringRef key, mlir::Type type) const;
  /// True if a result with `count` elements may be 16 bits wide.
  bool allowsElements(int64_t count) const;
  /// True if both ops replace the same op of the Precision stage.
  bool isOfSameOp(TypeLimits other) const;
  /// Returns the reason for wide types; empty if none is known.
  llvm::StringRef getReason() const;

private:
  mlir::DictionaryAttr attributes;
};

/// Removes limits from locations.
class LimitRemover {
public:
  /// Returns `location` without limits.
  mlir::Location remove(mlir::Location location);

private:
  llvm::DenseMap<mlir::Attribute, mlir::LocationAttr> known;
};

} // namespace mpc

#endif // MPC_PASSES_FUSION_TYPELIMITS_H
