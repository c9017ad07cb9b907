// Links kernels, plan and data to one .mpc file (runtime/ArtifactFormat.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_TARGET_ARTIFACTWRITER_H
#define MPC_COMPILER_TARGET_ARTIFACTWRITER_H

#include "compiler/Target/TargetInfo.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mpc {

/// What an artifact is made of.
struct ArtifactParts {
  /// The kernels, from `compileKernels`: an object file for a CPU, PTX for a
  /// GPU.
  llvm::StringRef kernels;
  /// The plan, JSON.
  llvm::StringRef plan;
  /// The bytes of `DataSection`.
  llvm::StringRef data;
  /// The kernels assembled for exactly the target; empty where they are not.
  llvm::StringRef cubin = "";
};

/// The bytes of the .mpc file, its digest filled in; the same for the same
/// parts. Fails where a kernel calls a function that no process has.
llvm::Expected<std::string> linkArtifact(const ArtifactParts &parts,
                                         const TargetInfo &target);

/// Writes `bytes` beside `path` and renames: a reader sees the old file or the
/// whole new one.
llvm::Error writeFileAtomically(llvm::StringRef path, llvm::StringRef bytes);

} // namespace mpc

#endif // MPC_COMPILER_TARGET_ARTIFACTWRITER_H
