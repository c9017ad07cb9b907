// The record of a trained model: metadata entries that say how the model was
// trained. docs/exporting-trained.md documents the keys.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_TRAININGRECORD_H
#define MPC_FRONTENDS_ONNX_MODEL_TRAININGRECORD_H

#include "frontends/ONNX/Model/Metadata.h"

#include <map>
#include <string>

namespace mpc::onnx_frontend {

/// The keys of the record, besides kPreparation. Readers ignore a record of a
/// newer version.
inline constexpr llvm::StringLiteral kRecordVersion = "mpc.version",
                                     kRecordClasses = "mpc.classes",
                                     kRecordLoss = "mpc.loss",
                                     kRecordMetrics = "mpc.metrics",
                                     kRecordPrecision = "mpc.precision";
inline constexpr int kNewestRecord = 1;

/// The largest entry of a record, in bytes. Larger entries are not written, and
/// are ignored in files.
inline constexpr size_t kLargestRecordEntry = size_t(1) << 20;

/// True if `key` belongs to the record of a trained model.
bool isRecordKey(llvm::StringRef key);

/// The entries of a record, value by key.
struct TrainingRecord {
  std::map<std::string, std::string> entries;
  /// True if the file has an entry that is too large to be read.
  bool hasOversized = false;
};

/// Reads the record of the ONNX file at `path`, and skips the graph unread.
/// Empty if the file has no record, is no regular file, or cannot be read. In a
/// damaged file, finds the entries before the damage.
TrainingRecord readTrainingRecord(llvm::StringRef path);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_TRAININGRECORD_H
