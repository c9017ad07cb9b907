// One way in for every file of arrays: .npy, .npz, .safetensors, checkpoints of
// ONNX Runtime.
//
// Files are hostile until proven otherwise: every length is checked against the
// file before it is used, nothing is allocated from a declared size alone, and
// a failure names the file, the array and what was expected.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/support/FileSystem.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

struct ReadLimits {
  /// What the arrays of one compressed archive may take in memory.
  uint64_t archiveBytes = uint64_t(8) << 30;
};

/// All arrays of `path`, by the name each has in the file; the array of a .npy
/// file is named after the file. The format is told by the content.
StatusOr<std::vector<Array>> readArrays(const std::string &path,
                                        const ReadLimits &limits = {});

/// The same, for those who use some of them: members of archives stay packed.
StatusOr<std::vector<Array>> readPackedArrays(const std::string &path,
                                              const ReadLimits &limits = {});

/// Usage where writeArrays knows no such extension, or a file of it cannot have
/// an array of one of the names: control characters in .npz, what .safetensors
/// reserves.
Status checkArrayNames(const std::string &path,
                       const std::vector<std::string> &names);

/// Writes `arrays` in the format of the path's extension, .npz, .safetensors,
/// or .npy for a single array. The file appears whole or not at all.
Status writeArrays(const std::string &path, const std::vector<Array> &arrays,
                   mode_t mode = kForAll);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYFILE_H
