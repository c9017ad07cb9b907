// What the compiler calls labels, and the loader of data knows them by.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_LABELNAME_H
#define MPC_RUNTIME_LABELNAME_H

#include <string>

namespace mpc::runtime {

/// The label input that takes the array of an input that the model reads as
/// well, such as "x.target" of an autoencoder's "x".
inline std::string labelNameOf(const std::string &input) {
  return input + ".target";
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_LABELNAME_H
