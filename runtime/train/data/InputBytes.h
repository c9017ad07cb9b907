// Makes arrays of the bytes that a calling program passes for inputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_INPUTBYTES_H
#define MPC_RUNTIME_TRAIN_DATA_INPUTBYTES_H

#include "runtime/Status.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"

#include <cstddef>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// The samples of one input, dense and row-major, in the input's type.
struct InputBytes {
  std::string name;
  const void *bytes = nullptr;
  size_t size = 0; ///< in bytes
};

/// Returns an array for each element of `given`, in the type and shape of the
/// input of `ports` with that name. The size decides the number of samples. The
/// arrays refer to the caller's bytes.
///
/// Usage if an input of data or labels has no bytes, if a name occurs twice, or
/// if no input of samples has the name. InvalidInput if a size is no whole
/// number of samples.
StatusOr<std::vector<Array>> toArrays(const std::vector<InputBytes> &given,
                                      const FunctionPorts &ports);

/// Returns samples [begin, end) of an array whose samples lie along axis
/// `axis`, as a copy. Returns a copy of the whole array if `axis` is negative.
Array copySamples(const Array &array, int64_t axis, int64_t begin, int64_t end);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_INPUTBYTES_H
