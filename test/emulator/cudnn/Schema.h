// The attributes that each type of descriptor has.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDNN_SCHEMA_H
#define MPC_TEST_EMULATOR_CUDNN_SCHEMA_H

#include "test/emulator/cudnn/ABI.h"

#include <cstddef>
#include <vector>

namespace mpc::emulator {

constexpr int kAnyOperation = -1;

struct Schema {
  int name;
  cudnnBackendAttributeType_t type;
  int64_t mostValues;
  bool isRequired;
  /// The type of the referenced descriptor; kAnyOperation for an operation.
  int referent = kAnyOperation;
};

/// Returns the attributes that a program may set.
const std::vector<Schema> &schemaOf(cudnnBackendDescriptorType_t type);

/// Returns the bytes of a value of this type.
size_t bytesOf(cudnnBackendAttributeType_t type);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDNN_SCHEMA_H
