// Hands the arrays of --data to the inputs.
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
  /// Returns all arrays of that name in the order of the files; empty if none.
  std::vector<Array> take(const std::string &name);

  bool hasColumns() const;
  /// Returns one array `name` per table, with all columns side by side except
  /// `others`. InvalidInput unless a table has `count` such columns.
  StatusOr<std::vector<Array>>
  takeColumns(const std::string &name, int64_t count,
              const std::vector<std::string> &others);

  /// Returns an error: no array is called like `port` or, if given, like
  /// `target`.
  Status missing(const Port &port,
                 const std::optional<std::string> &target) const;

  /// Describes arrays that no input took, in one line per file, or one line for
  /// all files with equal arrays.
  std::vector<std::string> describeUnused() const;

private:
  std::vector<Array> arrays;
  std::set<std::string> taken;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYPOOL_H
