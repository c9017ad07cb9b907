// A matrix product as cuBLASLt defines it, column-major D = epilogue(alpha
// op(A) op(B) + beta C), and the library's restrictions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUBLASLT_PRODUCT_H
#define MPC_TEST_EMULATOR_CUBLASLT_PRODUCT_H

#include "test/emulator/cublaslt/ABI.h"
#include "test/emulator/cuda/Hooks.h"

namespace mpc::emulator {

struct MatrixLayout {
  cudaDataType type = CUDA_R_32F;
  int32_t order = 0; ///< column-major, the only supported order
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t batchStride = 0;

  /// From the first to the last element of all batches.
  size_t bytes() const;
};

struct Product {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType scale = CUDA_R_32F;
  int32_t pointerMode = 0; ///< factors on the host, the only supported mode
  int32_t transA = CUBLAS_OP_N, transB = CUBLAS_OP_N;
  uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr; ///< or the bias' gradient
  void *aux = nullptr;
  int64_t auxLd = 0;
  int32_t biasType = -1; ///< -1: that of D

  bool addsBias() const { return epilogue & CUBLASLT_EPILOGUE_BIAS; }
  bool givesBiasGradient() const {
    return epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD ||
           epilogue == CUBLASLT_EPILOGUE_BGRADA ||
           epilogue == CUBLASLT_EPILOGUE_BGRADB;
  }
  bool hasAux() const { return epilogue & 128; }
};

struct Layouts {
  MatrixLayout a, b, c, d;
  uint64_t depth(const Product &product) const {
    return product.transA == CUBLAS_OP_T ? a.rows : a.columns;
  }
};

struct Operands {
  double alpha = 1, beta = 0;
  const void *a = nullptr, *b = nullptr, *c = nullptr;
  void *d = nullptr;
};

/// The library's refusal of a product: a status, and the reason.
struct Refusal {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  const char *reason = "";
};
Refusal check(const Product &product, const Layouts &layouts);

/// The memory that a product touches.
std::vector<Access> accessesOf(const Product &product, const Layouts &layouts,
                               const Operands &operands);

void multiply(const Product &product, const Layouts &layouts,
              const Operands &operands);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUBLASLT_PRODUCT_H
