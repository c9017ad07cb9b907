// Reads and prints the record of its training that a trained model has:
// classes, preparation, loss, metrics and precision, as values of flags.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MODELRECORD_H
#define MPC_TOOLS_MPC_MODEL_MODELRECORD_H

#include "llvm/ADT/StringRef.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::tools {

/// Values of flags, by the flag's name without dashes.
using FlagValues = std::map<std::string, std::vector<std::string>>;

/// Metadata entries of a model, value by key.
using RecordEntries = std::map<std::string, std::string>;

/// The record of a trained model. Parts that the model does not record are
/// empty.
struct ModelRecord {
  std::vector<std::string> classes; ///< names, in the order of the labels
  FlagValues loss, metrics, precision, preparation;

  bool isEmpty() const {
    return classes.empty() && loss.empty() && metrics.empty() &&
           precision.empty() && preparation.empty();
  }
};

/// The flags of losses that a record holds as the user gives them. The weights
/// of classes and of positive targets are recorded as numbers.
inline constexpr llvm::StringLiteral kTypedLossFlags[] = {
    "loss",        "reduction",   "ignore-index", "label-smoothing",
    "focal-gamma", "focal-alpha", "dice-smooth",  "target-array"};

/// Parses a record. Anybody may have written the entries, so warns of damaged
/// ones and leaves them out. `where` names the file for warnings.
ModelRecord parseRecord(const RecordEntries &entries, const std::string &where);

/// Reads the record of the ONNX file at `path`. Empty if there is none, or for
/// standard input and artifacts.
ModelRecord readModelRecord(const std::string &path);

/// Prints `record` as entries of metadata. `preparation` is the text of
/// describePreparation, which takes the place of `record.preparation`. Warns of
/// an entry that is too large, and leaves it out.
RecordEntries printRecord(const ModelRecord &record,
                          const std::string &preparation);

/// Prints flags as on a command line: "--loss nll --ignore-index 255". A policy
/// is abbreviated.
std::string printFlags(const FlagValues &flags);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MODELRECORD_H
