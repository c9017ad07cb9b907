// Reads what --data names: files of arrays, tables, folders of images.
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
  /// --csv-columns NAME=a,b:d: columns of a table that form one array.
  std::vector<std::string> csvColumns;
  /// The name of the labels of a folder of images.
  std::string targetArray = "target";
};

/// Expands patterns like "part-*.npy" and "NAME=part-*.npy" to matching files,
/// in order of their names. IO if no file matches.
StatusOr<std::vector<std::string>>
expandPatterns(const std::vector<std::string> &arguments);

/// Reads the arrays of arguments "F" and "NAME=F", in order. "NAME=F" is for a
/// file of one array or a folder of samples. Samples of a folder "F" have no
/// name. Arrays with equal names are parts of one array. Members of archives
/// stay packed.
StatusOr<std::vector<Array>>
readDataFiles(const std::vector<std::string> &files,
              const DataFileOptions &options = {});

/// Counts the samples for an input called `name`, along `axis` of the arrays; 0
/// if that is not known yet.
int64_t countSamples(const std::vector<Array> &arrays, const std::string &name,
                     size_t axis = 0);

/// Returns an invalid-input error if both have folders of images with different
/// labels: label 1 of the first would not be label 1 of the second.
Status checkSameLabels(const std::vector<Array> &first,
                       const std::vector<Array> &second);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_DATAFILES_H
