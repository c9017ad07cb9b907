// Reads tables of numbers: comma-separated values under a line of column names.
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

/// True if `path` has the extension .csv, in any case, so that it is read as a
/// table.
bool isCSV(const std::string &path);
/// True if the name says that a file to read is a table, perhaps compressed:
/// .csv or .csv.gz.
bool isReadableCSV(const std::string &path);

/// Parses a table (RFC 4180). Each column is an array [N] of f64, named after
/// the column. A column with a missing value or with text gets a `fault`, which
/// is an error only if the column is used. Leaves out a first column without a
/// name, which is pandas' index.
StatusOr<std::vector<Array>> parseCSV(std::string_view text,
                                      const std::string &path);

/// Returns the columns that `names` lists, in this order. `names` has names and
/// ranges with commas between them: "x,a:c" means x and all columns from a to
/// c. InvalidInput for an unknown column.
StatusOr<std::vector<Array>> chooseColumns(const std::vector<Array> &columns,
                                           std::string_view names);

/// Joins columns of one file side by side to an array [N, columns] called
/// `name`. InvalidInput if a column has a fault.
StatusOr<Array> stackColumns(const std::vector<Array> &columns,
                             const std::string &name);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_CSV_H
