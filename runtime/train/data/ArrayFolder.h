// Reads a folder of .npy files with one sample each: in a subfolder per label,
// as in torchvision's DatasetFolder, or without labels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

/// True if the alphabetically first file in `path`, or in its first subfolder
/// that has files, is a .npy file.
StatusOr<bool> isArrayFolder(const std::string &path);

/// Reshapes samples [N,...] to the shape of `input` if only axes of extent 1
/// differ: spectrograms [N,40,60] become images [N,1,40,60].
void addOnes(const Shape &input, Shape &samples);

/// Advice for messages about the folder of a label without samples.
inline constexpr char kEmptyLabelHelp[] =
    "; remove the folder, or say --allow-empty if the label has no samples "
    "here";

/// Describes labels by number and name, at most 20: "3 labels: 0 clap, 1 dog, 2
/// rain". Also names the labels for which `isUsed` is false: "; no sample of 1
/// dog".
std::string describeLabels(const std::vector<std::string> &classes,
                           const std::vector<bool> &isUsed);

/// Reads the samples under `path` into memory, ordered by label and then by
/// file, as one array [N,...] called `name`. With folders of labels, also
/// returns the labels, i64 [N], as `labels`. InvalidInput if a file is no .npy,
/// if a sample differs from the first in shape or type, or, without
/// `allowsEmpty`, if a label has no samples.
StatusOr<std::vector<Array>> readArrayFolder(const std::string &path,
                                             const std::string &name,
                                             const std::string &labels,
                                             bool allowsEmpty = false);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H
