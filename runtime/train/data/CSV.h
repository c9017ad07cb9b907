// Tables of numbers: comma-separated values under a line of column names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_CSV_H
#define MPC_RUNTIME_TRAIN_DATA_CSV_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// Whether a file of that name is read as a table.
bool isCSV(const std::string &path);

/// The columns of a table (RFC 4180), each an array [N] of f64 called by its
/// name. A column in which a value is missing or no number has that as its
/// `fault`: it is an error only where the column is used. A first column
/// without a name, which is pandas' index, is left out.
StatusOr<std::vector<Array>> parseCSV(std::string_view text,
                                      const std::string &path);

/// The columns that `names` chooses, in its order: names and ranges "a:c", both
/// ends included, with commas between them. InvalidInput for one that is not
/// there.
StatusOr<std::vector<Array>> chooseColumns(const std::vector<Array> &columns,
                                           std::string_view names);

/// Columns of one file side by side, [N, columns], called `name`.
StatusOr<Array> stackColumns(const std::vector<Array> &columns,
                             const std::string &name);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_CSV_H
