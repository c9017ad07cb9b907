// A cuBLASLt that cannot create a handle, like that of CUDA 13 with a driver
// for CUDA 12. It has all functions that mpc loads.
//
// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>

enum { NOT_INITIALIZED = 1 };

size_t cublasLtGetVersion(void) { return 130000; }
const char *cublasLtGetStatusString(int status) {
  return status == NOT_INITIALIZED ? "CUBLAS_STATUS_NOT_INITIALIZED"
                                   : "another";
}

#define FAILS(Name)                                                            \
  int Name(void) { return NOT_INITIALIZED; }
FAILS(cublasLtCreate)
FAILS(cublasLtDestroy)
FAILS(cublasLtMatmul)
FAILS(cublasLtMatmulAlgoGetHeuristic)
FAILS(cublasLtMatmulDescCreate)
FAILS(cublasLtMatmulDescDestroy)
FAILS(cublasLtMatmulDescSetAttribute)
FAILS(cublasLtMatmulPreferenceCreate)
FAILS(cublasLtMatmulPreferenceDestroy)
FAILS(cublasLtMatmulPreferenceSetAttribute)
FAILS(cublasLtMatrixLayoutCreate)
FAILS(cublasLtMatrixLayoutDestroy)
FAILS(cublasLtMatrixLayoutSetAttribute)
