// What --data names: files of arrays, tables, folders of images.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_DATAFILES_H
#define MPC_RUNTIME_TRAIN_DATA_DATAFILES_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

struct DataFileOptions {
  /// --csv-columns NAME=a,b:d: columns of a table that are one array together.
  std::vector<std::string> csvColumns;
  /// What the labels of a folder of images are called.
  std::string targetArray = "target";
};

/// Patterns such as "part-*.npy" and "NAME=part-*.npy" as the files that they
/// stand for, by name. IO where there are none.
StatusOr<std::vector<std::string>>
expandPatterns(const std::vector<std::string> &arguments);

/// The arrays of "F" and "NAME=F", the latter for a file of one array and for a
/// folder of samples, in order. The samples of a folder "F" have no name.
/// Arrays of one name are parts of one. Those of archives stay packed.
StatusOr<std::vector<Array>>
readDataFiles(const std::vector<std::string> &files,
              const DataFileOptions &options = {});

/// How many samples there are for an input of that name, along that axis of
/// arrays; 0 where that is not known yet.
int64_t countSamples(const std::vector<Array> &arrays, const std::string &name,
                     size_t axis = 0);

/// InvalidInput where both have folders of images whose labels differ: label 1
/// of one would not be label 1 of the other.
Status checkSameLabels(const std::vector<Array> &first,
                       const std::vector<Array> &second);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_DATAFILES_H
