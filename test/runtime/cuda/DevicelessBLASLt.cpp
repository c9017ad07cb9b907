// Wraps the real cuBLASLt for machines without a GPU, and is loaded in its
// place. Descriptors and attributes go to the real library, which must exist.
// Handles and the choice of an algorithm need a GPU and are replaced.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/BLASLtABI.h"

#include <cstdlib>

using namespace mpc::runtime::cuda;

extern "C" {

BLASStatus cublasLtCreate(BLASHandle *handle) {
  static int place;
  *handle = reinterpret_cast<BLASHandle>(&place);
  return BLASStatus::Success;
}

BLASStatus cublasLtDestroy(BLASHandle) { return BLASStatus::Success; }

BLASStatus cublasLtMatmulAlgoGetHeuristic(BLASHandle, BLASMatMul, BLASLayout,
                                          BLASLayout, BLASLayout, BLASLayout,
                                          BLASPreference, int,
                                          BLASHeuristic *results, int *found) {
  results[0] = {};
  *found = 1;
  return BLASStatus::Success;
}

BLASStatus cublasLtMatmul(BLASHandle, BLASMatMul, const void *, const void *,
                          BLASLayout, const void *, BLASLayout, const void *,
                          const void *, BLASLayout, void *, BLASLayout,
                          const BLASAlgorithm *, void *, size_t, Stream) {
  std::abort();
}
}
