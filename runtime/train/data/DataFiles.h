// Reads the files and folders of --data: arrays, tables, and folders of images
// or arrays.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_DATAFILES_H
#define MPC_RUNTIME_TRAIN_DATA_DATAFILES_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/ReadObserver.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

struct DataFileOptions {
  /// The flag --csv-columns. "NAME=a,b:d" joins the columns a and b to d of a
  /// table to one array NAME.
  std::vector<std::string> csvColumns;
  /// The name to give the labels of a folder of samples.
  std::string targetArray = "target";
  /// True if the folder of a label may be empty.
  bool allowsEmpty = false;
  /// Is told which files are read; null if nobody wants to know.
  ReadObserver *observer = nullptr;
};

/// Expands patterns like "part-*.npy" and "NAME=part-*.npy" to matching files,
/// in order of their names. IO if no file matches.
StatusOr<std::vector<std::string>>
expandPatterns(const std::vector<std::string> &arguments);

/// Reads the arrays of the arguments, "PATH" or "NAME=PATH", in this order.
/// NAME renames the array of a file with one array, and names the samples of a
/// folder or an image. "PATH:ARRAY" takes one array of a file. Samples of a
/// folder, and images, without NAME= have an empty name. Several arrays of one
/// name are parts of one array. Members of archives stay packed.
StatusOr<std::vector<Array>>
readDataFiles(const std::vector<std::string> &files,
              const DataFileOptions &options = {});

/// Counts the samples that `arrays` have for the input `name`, along `axis`. 0
/// if unknown, for example because the input takes an array of another name.
int64_t countSamples(const std::vector<Array> &arrays, const std::string &name,
                     size_t axis = 0);

/// Returns an invalid-input error if `first` and `second` have folders of
/// labels with different names: label 1 would mean another folder in each.
Status checkSameLabels(const std::vector<Array> &first,
                       const std::vector<Array> &second);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_DATAFILES_H
