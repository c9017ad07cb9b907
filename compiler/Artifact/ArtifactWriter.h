// Links kernels, plan and data to one .mpc file (runtime/ArtifactFormat.h).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_ARTIFACTWRITER_H
#define MPC_COMPILER_ARTIFACT_ARTIFACTWRITER_H

#include "compiler/Artifact/ELFAppender.h"
#include "compiler/Target/TargetInfo.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"

namespace mpc {

/// What an artifact is made of.
struct ArtifactParts {
  /// The kernels: an object file or an archive of them for a CPU, PTX for a
  /// GPU.
  llvm::StringRef kernels;
  /// The plan, JSON.
  llvm::StringRef plan;
  /// The pieces of `DataSection`.
  llvm::ArrayRef<SectionPiece> data;
  /// The kernels assembled for exactly the target; empty where they are not.
  llvm::StringRef cubin = "";
};

/// Writes the .mpc file to `out`; the same bytes for the same parts. Fails
/// where a kernel calls a function that no process has. Whether `out` could be
/// written is for its owner to ask.
llvm::Error writeArtifact(const ArtifactParts &parts, const TargetInfo &target,
                          llvm::raw_ostream &out);

/// Writes the bytes of a file to a stream.
using ByteWriter = llvm::function_ref<llvm::Error(llvm::raw_ostream &)>;

/// An artifact is a program: others may run it where the umask lets them read
/// it, and write it never.
inline constexpr auto kProgramRights = static_cast<llvm::sys::fs::perms>(0644);

/// Lets `write` fill a file beside `path` and renames it: a reader sees the old
/// file or the whole new one. The umask takes of `rights` what it takes.
llvm::Error
writeFileAtomically(llvm::StringRef path, ByteWriter write,
                    llvm::sys::fs::perms rights = llvm::sys::fs::all_read |
                                                  llvm::sys::fs::all_write);

/// Lets `write` fill a temporary file without a name, which is gone when its
/// descriptor, the result, is closed.
llvm::Expected<int> writeUnnamedFile(ByteWriter write);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_ARTIFACTWRITER_H
