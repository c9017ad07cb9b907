// The arrays that --data gave, from which each input takes its own.
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
  /// InvalidInput where one file has two arrays of a name, or is there twice.
  static StatusOr<ArrayPool> create(std::vector<Array> arrays);

  bool has(const std::string &name) const;
  /// All arrays of that name in the order of the files; empty where there is
  /// none.
  std::vector<Array> take(const std::string &name);

  bool hasColumns() const;
  /// One array `name` for each table, of all its columns side by side except
  /// those in `others`. InvalidInput if they are not `count`.
  StatusOr<std::vector<Array>>
  takeColumns(const std::string &name, int64_t count,
              const std::vector<std::string> &others);

  /// That nothing feeds `port`, which would take `target` as well if given.
  Status missing(const Port &port,
                 const std::optional<std::string> &target) const;

  /// A line for each file with arrays that nothing took, or for all files of
  /// the same ones.
  std::vector<std::string> describeUnused() const;

private:
  std::vector<Array> arrays;
  std::set<std::string> taken;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_ARRAYPOOL_H
