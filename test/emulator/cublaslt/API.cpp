// Entry points of cuBLASLt.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cublaslt/Product.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>

using namespace mpc::emulator;

namespace {

struct Handle {};

struct Preference {
  int32_t searchMode = 0;
  uint64_t maxWorkspace = 0;
  uint32_t reductionSchemes = 0;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

/// The contents of an algorithm's opaque bytes.
struct Algorithm {
  uint64_t problem; ///< a hash of its problem
  uint64_t workspace;
  uint32_t alignments[4];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

/// The location of an attribute's value.
struct Field {
  void *address = nullptr;
  size_t bytes = 0;
};

template <class T>
Field field(T &value) {
  return {&value, sizeof(T)};
}

Field fieldOf(MatrixLayout &layout, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return field(layout.type);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return field(layout.order);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return field(layout.rows);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return field(layout.columns);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return field(layout.ld);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return field(layout.batch);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return field(layout.batchStride);
  default:
    return {};
  }
}

Field fieldOf(Product &product, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return field(product.compute);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return field(product.scale);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return field(product.pointerMode);
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return field(product.transA);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return field(product.transB);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return field(product.epilogue);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return field(product.bias);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return field(product.aux);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return field(product.auxLd);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return field(product.biasType);
  default:
    return {};
  }
}

Field fieldOf(Preference &preference, int attribute) {
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    return field(preference.searchMode);
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return field(preference.maxWorkspace);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return field(preference.reductionSchemes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return field(
        preference.alignments[attribute -
                              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  default:
    return {};
  }
}

/// The frame of every entry point: injects faults and logs.
template <class F>
cublasStatus_t call(const char *name, const std::string &arguments, F f) {
  cublasStatus_t status;
  if (std::optional<int> fault = libraryFault(name))
    status = static_cast<cublasStatus_t>(*fault);
  else
    status = f();
  libraryLog(std::string(name) + "(" + arguments +
             ") = " + std::to_string(status));
  return status;
}

template <class T>
cublasStatus_t destroy(const char *name, T *object) {
  return call(name, "", [&] {
    if (!object)
      return CUBLAS_STATUS_INVALID_VALUE;
    delete object;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T>
cublasStatus_t setAttribute(const char *name, T *object, int attribute,
                            const void *value, size_t bytes) {
  return call(name, "attribute=" + std::to_string(attribute), [&] {
    Field field = object ? fieldOf(*object, attribute) : Field();
    if (!field.address || !value || bytes != field.bytes)
      return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(field.address, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
  });
}

uint64_t hashOf(const Product &product, const Layouts &layouts) {
  uint64_t hash = 14695981039346656037ull;
  auto mix = [&hash](uint64_t value) {
    hash = (hash ^ value) * 1099511628211ull;
  };
  for (const MatrixLayout *each :
       {&layouts.a, &layouts.b, &layouts.c, &layouts.d}) {
    mix(static_cast<uint64_t>(each->type));
    mix(each->rows);
    mix(each->columns);
    mix(static_cast<uint64_t>(each->ld));
    mix(static_cast<uint64_t>(each->batch));
  }
  mix(static_cast<uint64_t>(product.compute));
  mix(static_cast<uint64_t>(product.transA));
  mix(static_cast<uint64_t>(product.transB));
  mix(product.epilogue);
  return hash;
}

std::string describe(const Product &product, const Layouts &layouts) {
  auto operand = [](const char *name, const MatrixLayout &layout) {
    return std::string(name) + "=" + std::to_string(layout.rows) + "x" +
           std::to_string(layout.columns) + ":" + std::to_string(layout.type);
  };
  return operand("a", layouts.a) + ", " + operand("b", layouts.b) + ", " +
         operand("d", layouts.d) +
         ", batch=" + std::to_string(layouts.d.batch) +
         ", transa=" + std::to_string(product.transA) +
         ", transb=" + std::to_string(product.transB) +
         ", compute=" + std::to_string(product.compute) +
         ", epilogue=" + std::to_string(product.epilogue);
}

bool isAligned(const void *address, uint64_t alignment) {
  return alignment && reinterpret_cast<uintptr_t>(address) % alignment == 0;
}

/// Checks pointers and the algorithm, then enqueues the product.
cublasStatus_t enqueue(const Product &product, const Layouts &layouts,
                       const Operands &operands, const Algorithm *algorithm,
                       void *workspace, size_t workspaceBytes,
                       CUstream stream) {
  if (Refusal refusal = check(product, layouts); refusal.status) {
    libraryLog(std::string("  refused: ") + refusal.reason);
    return refusal.status;
  }
  bool needsBias = product.addsBias() || product.givesBiasGradient();
  if ((needsBias && !product.bias) || (product.hasAux() && !product.aux))
    return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm) {
    const void *pointers[4] = {operands.a, operands.b,
                               operands.beta != 0 ? operands.c : operands.d,
                               operands.d};
    bool fits = algorithm->problem == hashOf(product, layouts) &&
                algorithm->workspace <= workspaceBytes &&
                isAligned(workspace, 16);
    for (unsigned i = 0; i < 4; ++i)
      fits &= isAligned(pointers[i], algorithm->alignments[i]);
    if (!fits)
      return CUBLAS_STATUS_INVALID_VALUE;
  }
  size_t scratch = algorithm ? algorithm->workspace : 0;
  std::vector<Access> accesses = accessesOf(product, layouts, operands);
  if (scratch)
    accesses.push_back({workspace, scratch});
  CUresult result = enqueueWork(
      stream, "cublasLtMatmul " + describe(product, layouts), accesses, [=] {
        // The workspace's contents are lost.
        if (scratch)
          std::memset(workspace, 0xff, scratch);
        multiply(product, layouts, operands);
        return CUDA_SUCCESS;
      });
  return result ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

} // namespace

extern "C" {

MPC_EXPORT size_t cublasLtGetVersion() { return 130100; }

MPC_EXPORT const char *cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
  case CUBLAS_STATUS_SUCCESS:
    return "CUBLAS_STATUS_SUCCESS";
  case CUBLAS_STATUS_NOT_INITIALIZED:
    return "CUBLAS_STATUS_NOT_INITIALIZED";
  case CUBLAS_STATUS_ALLOC_FAILED:
    return "CUBLAS_STATUS_ALLOC_FAILED";
  case CUBLAS_STATUS_INVALID_VALUE:
    return "CUBLAS_STATUS_INVALID_VALUE";
  case CUBLAS_STATUS_ARCH_MISMATCH:
    return "CUBLAS_STATUS_ARCH_MISMATCH";
  case CUBLAS_STATUS_EXECUTION_FAILED:
    return "CUBLAS_STATUS_EXECUTION_FAILED";
  case CUBLAS_STATUS_INTERNAL_ERROR:
    return "CUBLAS_STATUS_INTERNAL_ERROR";
  case CUBLAS_STATUS_NOT_SUPPORTED:
    return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "CUBLAS_STATUS_UNKNOWN";
}

MPC_EXPORT cublasStatus_t cublasLtCreate(Handle **handle) {
  return call("cublasLtCreate", "", [&] {
    if (!hasContext())
      return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new Handle;
    return CUBLAS_STATUS_SUCCESS;
  });
}

MPC_EXPORT cublasStatus_t cublasLtDestroy(Handle *handle) {
  return destroy("cublasLtDestroy", handle);
}

MPC_EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(MatrixLayout **layout,
                                                     cudaDataType type,
                                                     uint64_t rows,
                                                     uint64_t columns,
                                                     int64_t ld) {
  return call("cublasLtMatrixLayoutCreate", "", [&] {
    *layout = new MatrixLayout;
    (*layout)->type = type;
    (*layout)->rows = rows;
    (*layout)->columns = columns;
    (*layout)->ld = ld;
    return CUBLAS_STATUS_SUCCESS;
  });
}

MPC_EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(MatrixLayout *layout) {
  return destroy("cublasLtMatrixLayoutDestroy", layout);
}

MPC_EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(MatrixLayout *layout,
                                                           int attribute,
                                                           const void *value,
                                                           size_t bytes) {
  return setAttribute("cublasLtMatrixLayoutSetAttribute", layout, attribute,
                      value, bytes);
}

MPC_EXPORT cublasStatus_t cublasLtMatmulDescCreate(Product **product,
                                                   cublasComputeType_t compute,
                                                   cudaDataType scale) {
  return call("cublasLtMatmulDescCreate", "", [&] {
    *product = new Product;
    (*product)->compute = compute;
    (*product)->scale = scale;
    return CUBLAS_STATUS_SUCCESS;
  });
}

MPC_EXPORT cublasStatus_t cublasLtMatmulDescDestroy(Product *product) {
  return destroy("cublasLtMatmulDescDestroy", product);
}

MPC_EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(Product *product,
                                                         int attribute,
                                                         const void *value,
                                                         size_t bytes) {
  return setAttribute("cublasLtMatmulDescSetAttribute", product, attribute,
                      value, bytes);
}

MPC_EXPORT cublasStatus_t
cublasLtMatmulPreferenceCreate(Preference **preference) {
  return call("cublasLtMatmulPreferenceCreate", "", [&] {
    *preference = new Preference;
    return CUBLAS_STATUS_SUCCESS;
  });
}

MPC_EXPORT cublasStatus_t
cublasLtMatmulPreferenceDestroy(Preference *preference) {
  return destroy("cublasLtMatmulPreferenceDestroy", preference);
}

MPC_EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    Preference *preference, int attribute, const void *value, size_t bytes) {
  return setAttribute("cublasLtMatmulPreferenceSetAttribute", preference,
                      attribute, value, bytes);
}

/// True if MPC_EMULATOR_NO_ALGORITHM lists the product's epilogue by the name
/// in the library's constant: "RELU_BIAS,BGRADA".
static bool lacksAlgorithm(const Product &product) {
  static const std::map<uint32_t, std::string> names = {
      {CUBLASLT_EPILOGUE_DEFAULT, "DEFAULT"},
      {CUBLASLT_EPILOGUE_BIAS, "BIAS"},
      {CUBLASLT_EPILOGUE_RELU_BIAS, "RELU_BIAS"},
      {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, "RELU_AUX_BIAS"},
      {CUBLASLT_EPILOGUE_DRELU, "DRELU"},
      {CUBLASLT_EPILOGUE_DRELU_BGRAD, "DRELU_BGRAD"},
      {CUBLASLT_EPILOGUE_BGRADA, "BGRADA"},
      {CUBLASLT_EPILOGUE_BGRADB, "BGRADB"}};
  const char *listed = std::getenv("MPC_EMULATOR_NO_ALGORITHM");
  auto name = names.find(product.epilogue);
  if (!listed || name == names.end())
    return false;
  return ("," + std::string(listed) + ",").find("," + name->second + ",") !=
         std::string::npos;
}

MPC_EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    Handle *handle, Product *product, MatrixLayout *a, MatrixLayout *b,
    MatrixLayout *c, MatrixLayout *d, Preference *preference, int requested,
    cublasLtMatmulHeuristicResult_t *results, int *count) {
  if (!handle || !product || !a || !b || !c || !d || !preference ||
      requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  Layouts layouts{*a, *b, *c, *d};
  return call(
      "cublasLtMatmulAlgoGetHeuristic", describe(*product, layouts), [&] {
        *count = 0;
        if (Refusal refusal = check(*product, layouts); refusal.status) {
          libraryLog(std::string("  refused: ") + refusal.reason);
          return refusal.status;
        }
        if (lacksAlgorithm(*product)) {
          libraryLog("  refused: there is no algorithm, as asked");
          return CUBLAS_STATUS_NOT_SUPPORTED;
        }
        constexpr uint64_t kUsefulWorkspace = 1 << 20;
        Algorithm algorithm{};
        algorithm.problem = hashOf(*product, layouts);
        algorithm.workspace =
            std::min(preference->maxWorkspace, kUsefulWorkspace);
        std::copy_n(preference->alignments, 4, algorithm.alignments);
        results[0] = {};
        std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
        results[0].workspaceSize = algorithm.workspace;
        results[0].state = CUBLAS_STATUS_SUCCESS;
        results[0].wavesCount = 1;
        *count = 1;
        return CUBLAS_STATUS_SUCCESS;
      });
}

MPC_EXPORT cublasStatus_t cublasLtMatmul(
    Handle *handle, Product *product, const void *alpha, const void *a,
    MatrixLayout *aLayout, const void *b, MatrixLayout *bLayout,
    const void *beta, const void *c, MatrixLayout *cLayout, void *d,
    MatrixLayout *dLayout, const cublasLtMatmulAlgo_t *chosen, void *workspace,
    size_t workspaceBytes, CUstream stream) {
  if (!handle || !product || !alpha || !beta || !a || !b || !d || !aLayout ||
      !bLayout || !cLayout || !dLayout)
    return CUBLAS_STATUS_INVALID_VALUE;
  Layouts layouts{*aLayout, *bLayout, *cLayout, *dLayout};
  auto factor = [&](const void *value) {
    double wide;
    float narrow;
    std::memcpy(&narrow, value, sizeof(narrow));
    if (product->scale != CUDA_R_64F)
      return static_cast<double>(narrow);
    std::memcpy(&wide, value, sizeof(wide));
    return wide;
  };
  Operands operands{factor(alpha), factor(beta), a, b, c, d};
  Algorithm algorithm{};
  if (chosen)
    std::memcpy(&algorithm, chosen, sizeof(algorithm));
  return call("cublasLtMatmul", describe(*product, layouts), [&] {
    return enqueue(*product, layouts, operands, chosen ? &algorithm : nullptr,
                   workspace, workspaceBytes, stream);
  });
}

} // extern "C"
