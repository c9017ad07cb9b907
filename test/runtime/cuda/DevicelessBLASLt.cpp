// The real cuBLASLt for a GPU that is not there: a library in front of it,
// loaded in its place. Descriptors and attributes are those of the real one,
// which this library needs; a handle and the choice of an algorithm, which take
// a GPU, are not.
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
