// What a target can execute, answered by question: passes ask here and never
// compare CPU names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_TARGET_TARGETINFO_H
#define MPC_COMPILER_TARGET_TARGETINFO_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mpc {

/// A CPU to compile for. Code is generated for a baseline x86-64 plus the
/// listed features and only scheduled for a CPU, so an artifact's needs are
/// exactly that list.
class TargetInfo {
public:
  /// The target of a `--target` name: native, x86-64, x86-64-v3, x86-64-v4,
  /// zen5 or sapphirerapids. `native` is what this machine offers, which on a
  /// virtual machine may be less than its CPU's name promises.
  static llvm::Expected<TargetInfo> get(llvm::StringRef name);

  /// All names `get` knows.
  static llvm::ArrayRef<llvm::StringLiteral> getNames();

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getTriple() const { return "x86_64-unknown-linux-gnu"; }

  /// The CPU whose instruction costs the scheduler assumes.
  llvm::StringRef getTuneCPU() const { return tuneCPU; }

  /// Features that generated code and contraction libraries may use, sorted, by
  /// LLVM's names; what the machine that runs the artifact must have.
  llvm::ArrayRef<std::string> getFeatures() const { return features; }
  bool hasFeature(llvm::StringRef feature) const;

  /// The features as LLVM's target machine takes them: "+avx,+avx2,...".
  std::string getFeatureString() const;

  /// Bits of the widest vector register that pays.
  unsigned getVectorBits() const;

  /// Whether f32 -> bf16 is one instruction (else an integer sequence).
  bool hasNativeBF16Conversion() const;

  /// Whether f16 <-> f32 are instructions (else library calls).
  bool hasNativeF16Conversion() const;

  /// Whether f32 fused multiply-add is an instruction (else a library call).
  bool hasNativeFMA() const;

  /// Whether products of matrices of this element type are faster than, or as
  /// fast as, those of f32 (f32 and f64 count as native everywhere).
  bool hasNativeContraction(mlir::Type elementType) const;

  /// Whether there are products of bf16 tiles.
  bool hasAMX() const { return hasFeature("amx-bf16"); }

private:
  std::string name, tuneCPU;
  llvm::SmallVector<std::string> features;
};

} // namespace mpc

#endif // MPC_COMPILER_TARGET_TARGETINFO_H
