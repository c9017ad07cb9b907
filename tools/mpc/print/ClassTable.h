// Prints the confusion matrix of an evaluation, and metrics of each class.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_CLASSTABLE_H
#define MPC_TOOLS_MPC_PRINT_CLASSTABLE_H

#include "runtime/train/evaluate/ClassReport.h"
#include "runtime/train/record/Metrics.h"

#include "llvm/Support/raw_ostream.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::tools {

/// Maps a label input, or the array of labels, to the names of its classes.
using ClassNames = std::map<std::string, std::vector<std::string>>;

/// Prints a table with a row per class, and the confusion matrix. For many
/// classes, prints the classes with the lowest F1, and the labels that were
/// confused most often.
void printClasses(llvm::raw_ostream &os,
                  const runtime::train::ClassReport &report,
                  const std::vector<std::string> &names);

/// Adds `eval_classes`, an array with an object per class, and the matrix as
/// `eval_confusion`, with a row per label and a column per prediction. For many
/// classes, `eval_confused` has the most frequent confusions instead.
void addClasses(runtime::train::MetricsLine &line,
                const runtime::train::ClassReport &report,
                const std::vector<std::string> &names);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_CLASSTABLE_H
