// A folder of .npy files, each a sample: a subfolder for each label, as
// torchvision's DatasetFolder has them, or samples alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Whether the first file in `path`, or in the folders there, by name, is a
/// .npy file.
StatusOr<bool> isArrayFolder(const std::string &path);

/// Gives samples [N,...] the axes of 1 that an input has, or has not, where
/// they are alike otherwise: spectrograms [N,40,60] are images [N,1,40,60].
void addOnes(const Shape &input, Shape &samples);

/// "3 labels: 0 clap, 1 dog, 2 rain", the first twenty.
std::string describeLabels(const std::vector<std::string> &classes);

/// The samples under `path`, in the order of the labels' names and then their
/// own, as one array [N,...] called `name`, in memory; and their labels, i64
/// [N], as `labels`, where there are folders of them. InvalidInput where a file
/// is no .npy, or a sample of another shape or type than the first.
StatusOr<std::vector<Array>> readArrayFolder(const std::string &path,
                                             const std::string &name,
                                             const std::string &labels);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYFOLDER_H
