// Reads and writes the two files of a checkpoint. Digests prove that the
// contents read are the contents written.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFILES_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFILES_H

#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/data/Array.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// The contents of a checkpoint. The arrays may lie in a mapped file.
struct CheckpointContents {
  Progress progress;
  RunIdentity identity;
  std::vector<Array> arrays;
};

/// A checkpoint in memory, ready to be written. `chunks` refer to the arrays of
/// the CheckpointContents, which must outlive the image.
struct CheckpointImage {
  std::string header;                   ///< the header of state.safetensors
  std::vector<std::string_view> chunks; ///< the header and the arrays
  uint64_t stateBytes = 0;              ///< the size of all chunks
  std::string train;                    ///< the text of train.json
};

StatusOr<std::unique_ptr<CheckpointImage>>
makeCheckpointImage(const CheckpointContents &contents);

/// Creates both files in `directory`, and flushes the files and the directory.
Status writeCheckpointFiles(const std::string &directory,
                            const CheckpointImage &image);

/// Replaces the run's progress in train.json of `directory`, whole or not at
/// all. Checkpoint if the file is damaged.
Status amendCheckpointFiles(const std::string &directory,
                            const Progress &progress);

/// Returns the counts and evaluations of a run's progress as JSON text, without
/// settings and record.
std::string printProgress(const Progress &progress);
/// Reads the text of `printProgress`.
StatusOr<Progress> parseProgress(const std::string &text);

/// Reads both files. Checkpoint unless they are bit for bit what was written,
/// except for white space in JSON.
StatusOr<CheckpointContents> readCheckpointFiles(const std::string &directory);

/// Reads only train.json, without arrays and their digests.
StatusOr<CheckpointContents> readCheckpointHeader(const std::string &directory);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFILES_H
