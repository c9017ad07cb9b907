// Writes the ONNX model that an artifact was compiled from, with other weights.
//
// The artifact has the bytes of the model file without the values of the
// weights. The plan's "model" has the member "template": {"offset", "bytes":
// the place of these bytes in the data section, "holes": [{"name": a state
// variable, "type": "f32", "position": in these bytes}]}. Holes are in the
// order of positions. Without a template, "no_template" may say why.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_CHECKPOINT_MODELTEMPLATE_H
#define MPC_RUNTIME_TRAIN_CHECKPOINT_MODELTEMPLATE_H

#include "runtime/Artifact.h"
#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Writes the artifact's model to `path` with the values `weights`, converted
/// to the types of the model file. The file appears whole or not at all.
/// Unsupported if the artifact has no template, InvalidInput if it is
/// inconsistent, Numeric if a finite value overflows in the file's type.
Status writeModel(const Artifact &artifact, const std::vector<Array> &weights,
                  const std::string &path);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_CHECKPOINT_MODELTEMPLATE_H
