// The grammar of losses and their targets on the command line.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H
#define MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H

#include "compiler/Dialect/MPC/Recipe/Recipe.h"

#include "llvm/Support/Error.h"

namespace mpc {

/// Returns the names that `--loss` accepts, with PyTorch's cross_entropy.
std::vector<std::string> getLossNames();

/// Returns "softmax_cross_entropy, cross_entropy, nll, ..." for help and
/// messages.
std::string listLosses();

/// Parses NAME, NAME@OUTPUT or output:NAME, each with an optional prefix
/// FACTOR*.
llvm::Expected<LossSpec> parseLoss(llvm::StringRef text);

/// Prints a loss as `parseLoss` reads it, with the main name.
std::string printLoss(const LossSpec &loss);

/// Returns the name of each of several losses in outputs and metrics, such as
/// "mse@y". Empty for a single loss.
std::vector<std::string> nameLosses(llvm::ArrayRef<LossSpec> losses);

/// Parses ARRAY or OUTPUT=ARRAY.
TargetSpec parseTarget(llvm::StringRef text);
std::string printTarget(const TargetSpec &target);

/// Parses the shape of one sample's labels: "7x5", or "scalar" for a single
/// label. nullopt for other text.
std::optional<std::vector<int64_t>> parseLabelShape(llvm::StringRef text);

/// True if `target` names the array for the loss of `output`. `output` may end
/// in :AXIS.
bool isTargetOf(const TargetSpec &target, llvm::StringRef output);

/// Returns the array with the targets for the loss of `output`, which may end
/// in :AXIS. The default is "target".
std::string findTarget(llvm::ArrayRef<TargetSpec> targets,
                       llvm::StringRef output);

/// Returns ARRAY of a --target-array without OUTPUT: the labels of all losses
/// without a target of their own. The default is "target".
std::string findCommonTarget(llvm::ArrayRef<TargetSpec> targets);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_LOSSSPEC_H
