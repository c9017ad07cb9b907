// The two files of a checkpoint: what is written into them, and proof that what
// is read is what was written.
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

/// What a checkpoint says; the arrays' bytes may be those of a mapped file.
struct CheckpointContents {
  Progress progress;
  RunIdentity identity;
  std::vector<Array> arrays;
};

/// A checkpoint in memory, ready to be written. The bytes of the state are
/// those of `contents.arrays`, which must outlive it.
struct CheckpointImage {
  std::string header;                   ///< of state.safetensors
  std::vector<std::string_view> chunks; ///< the header and the arrays
  uint64_t stateBytes = 0;              ///< of all chunks
  std::string train;                    ///< train.json
};

StatusOr<std::unique_ptr<CheckpointImage>>
makeCheckpointImage(const CheckpointContents &contents);

/// Creates both files in `directory` and flushes them and their names.
Status writeCheckpointFiles(const std::string &directory,
                            const CheckpointImage &image);

/// Replaces what train.json in `directory` says of the run's progress, whole or
/// not at all. StatusCode::Checkpoint where the file is damaged.
Status amendCheckpointFiles(const std::string &directory,
                            const Progress &progress);

/// Reads both files. StatusCode::Checkpoint where they are not, bit for bit
/// (white space in JSON apart), what was written.
StatusOr<CheckpointContents> readCheckpointFiles(const std::string &directory);

/// The same of train.json alone, without arrays and their digests.
StatusOr<CheckpointContents> readCheckpointHeader(const std::string &directory);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_CHECKPOINTFILES_H
