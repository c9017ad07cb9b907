// Which initializers of a forward model are trained unless the user says
// otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// The names of the initializers, and of the inputs in `given`, that are
/// trained by default; `origins` are those that findOrigins() finds.
///
/// Where the exporter says of a value what it was in the program, that holds:
/// PyTorch writes PARAMETER or BUFFER into the metadata of each. Otherwise what
/// the nodes do with it decides. Trained is, of any size:
///   - an operand of a product (MatMul, Conv, Gemm, LSTM, ...), scale and bias
///     of a normalization, the slope of PRelu, a table that Gather looks up;
///   - what is added to the result of one of these, as a bias is, or joined to
///     it, as a class token is;
///   - what such an operand is computed from, as that of weight normalization;
///   - what Exp, Sigmoid, Clip or the like reads, as the logarithm of a
///     temperature is;
///   - of PyTorch's older exporter, a number of a module that scales a branch,
///     and one number for each channel of what is learned, where that is a
///     branch, is read by a Softmax, or is shifted by such a vector as well;
///     vectors that numbers of the data are multiplied by, that stand for
///     hidden places or are added within the network, periods of a Snake, and
///     exponents.
/// Not trained is what only scales or shifts data, such as the mean and the
/// standard deviation in `(x - mean) / std`, another scalar in a sum or
/// product, and frequencies of angles, of which only sines and cosines are
/// taken.
llvm::StringSet<> findTrainable(const Graph &graph, const TensorMap &given,
                                const llvm::StringMap<std::string> &origins);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAINABLE_H
