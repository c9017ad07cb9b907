// Distributes the arrays of --data among the model's inputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_ARRAYPOOL_H
#define MPC_RUNTIME_TRAIN_DATA_ARRAYPOOL_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace mpc::runtime::train {

class ArrayPool {
public:
  /// Returns an invalid-input error if one file has two arrays with the same
  /// name, or occurs twice.
  static StatusOr<ArrayPool> create(std::vector<Array> arrays);

  bool has(const std::string &name) const;
  /// Returns all arrays called `name`, in the order of the files, and marks
  /// them as used. Empty if there are none.
  std::vector<Array> take(const std::string &name);

  bool hasColumns() const;
  /// Stacks the columns of each table, except those called like one of
  /// `others`, side by side. Returns one array `name` per table. InvalidInput
  /// unless each table has `count` such columns.
  StatusOr<std::vector<Array>>
  takeColumns(const std::string &name, int64_t count,
              const std::vector<std::string> &others);

  /// Returns the error that no array is called like `port` or, if set,
  /// `target`.
  Status missing(const Port &port,
                 const std::optional<std::string> &target) const;

  /// Describes the arrays that no input took: one line per file, or a single
  /// line for all files with the same arrays.
  std::vector<std::string> describeUnused() const;

private:
  std::vector<Array> arrays;
  std::set<std::string> taken;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYPOOL_H
