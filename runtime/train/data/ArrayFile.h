// Reads and writes files of arrays: .npy, .npz, .safetensors, idx, and
// checkpoints of ONNX Runtime.
//
// Files are untrusted: every length is checked against the file before use,
// nothing is allocated from a declared size alone, and errors name the file,
// the array and what was expected.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/support/FileSystem.h"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::train {

struct ReadLimits {
  /// The memory in bytes that the contents of one compressed file may take.
  uint64_t archiveBytes = uint64_t(8) << 30;
};

/// The bytes of a file: mapped, or in memory if the file was compressed.
struct FileBytes {
  const std::byte *data = nullptr;
  size_t size = 0;
  std::shared_ptr<const void> owner;
};

/// Returns the bytes of a file. Decompresses a gzip file.
StatusOr<FileBytes> readBytes(const std::string &path,
                              const ReadLimits &limits = {});

/// Reads all arrays of `path` under their names in the file. The array of a
/// .npy or idx file is named after the file. The content decides the format. A
/// gzip file may have any format inside.
StatusOr<std::vector<Array>> readArrays(const std::string &path,
                                        const ReadLimits &limits = {});

/// Like `readArrays`, for callers that use only some of the arrays:
/// decompresses a member of an archive only when `unpack` is called.
StatusOr<std::vector<Array>> readPackedArrays(const std::string &path,
                                              const ReadLimits &limits = {});

/// Returns a usage error if writeArrays does not know the extension of `path`,
/// or if the format cannot hold an array of one of the names. .npz has no names
/// with control characters, .safetensors no reserved name.
Status checkArrayNames(const std::string &path,
                       const std::vector<std::string> &names);

/// Writes `arrays` in the format of the path's extension: .npz, .safetensors,
/// or .npy for a single array. The file appears whole or not at all.
Status writeArrays(const std::string &path, const std::vector<Array> &arrays,
                   mode_t mode = kForAll);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H
