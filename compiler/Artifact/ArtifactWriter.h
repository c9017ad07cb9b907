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

/// The contents of an artifact.
struct ArtifactParts {
  /// The kernels: for a CPU an object file, or an archive of object files; for
  /// a GPU PTX.
  llvm::StringRef kernels;
  /// The plan as JSON.
  llvm::StringRef plan;
  /// The contents of the data section (DataSection::getPieces).
  llvm::ArrayRef<SectionPiece> data;
  /// A GPU's kernels as machine code for exactly the target; empty if ptxas has
  /// not assembled the PTX.
  llvm::StringRef cubin = "";
  /// The nodes and the work of each step as JSON (runtime/NodesFormat.h); empty
  /// for none.
  llvm::StringRef nodes = "";
};

/// Writes the .mpc file to `out`. Equal parts give equal bytes. Fails if a
/// kernel calls a function that the runtime does not provide. The owner of
/// `out` must check for write errors.
llvm::Error writeArtifact(const ArtifactParts &parts, const TargetInfo &target,
                          llvm::raw_ostream &out);

/// Writes the bytes of a file to a stream.
using ByteWriter = llvm::function_ref<llvm::Error(llvm::raw_ostream &)>;

/// The access rights of an artifact. An artifact is a program: others may read
/// the file if the umask allows, but never write it.
inline constexpr auto kProgramRights = static_cast<llvm::sys::fs::perms>(0644);

/// Writes the file `path`: fills a temporary file beside it with `write`, then
/// renames the temporary file. A reader sees the old file or the whole new
/// file. A pipe or a device is written in place. The umask may reduce `rights`.
llvm::Error
writeFileAtomically(llvm::StringRef path, ByteWriter write,
                    llvm::sys::fs::perms rights = llvm::sys::fs::all_read |
                                                  llvm::sys::fs::all_write);

/// Creates a temporary file that has no name, so nothing is left behind, and
/// fills it with `write`. Returns the descriptor; closing the descriptor
/// deletes the file.
llvm::Expected<int> writeUnnamedFile(ByteWriter write);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_ARTIFACTWRITER_H
