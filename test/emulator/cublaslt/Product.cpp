// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cublaslt/Product.h"

#include "test/emulator/Element.h"
#include "test/emulator/ptx/Half.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::emulator;

static Element elementOf(cudaDataType type) {
  switch (type) {
  case CUDA_R_64F:
    return Element::F64;
  case CUDA_R_16F:
    return Element::F16;
  case CUDA_R_16BF:
    return Element::BF16;
  case CUDA_R_32F:
    break;
  }
  return Element::F32;
}

size_t MatrixLayout::bytes() const {
  uint64_t elements = static_cast<uint64_t>(ld) * (columns - 1) + rows;
  elements +=
      static_cast<uint64_t>(batchStride) * static_cast<uint64_t>(batch - 1);
  return elements * sizeOf(elementOf(type));
}

//===----------------------------------------------------------------------===//
// Restrictions of the library
//===----------------------------------------------------------------------===//

static bool isKnown(cudaDataType type) {
  return type == CUDA_R_32F || type == CUDA_R_64F || type == CUDA_R_16F ||
         type == CUDA_R_16BF;
}

static Refusal checkTypes(const Product &product, const Layouts &layouts) {
  cudaDataType a = layouts.a.type, d = layouts.d.type;
  for (const MatrixLayout *each : {&layouts.a, &layouts.b, &layouts.d})
    if (!isKnown(each->type))
      return {CUBLAS_STATUS_NOT_SUPPORTED, "an unknown element type"};
  if (a != layouts.b.type || d != layouts.c.type)
    return {CUBLAS_STATUS_NOT_SUPPORTED, "A and B, or C and D, differ in type"};
  bool fits = false;
  switch (product.compute) {
  case CUBLAS_COMPUTE_32F:
    fits = a != CUDA_R_64F && (d == a || d == CUDA_R_32F);
    break;
  case CUBLAS_COMPUTE_32F_FAST_TF32:
    fits = a == CUDA_R_32F && d == CUDA_R_32F;
    break;
  case CUBLAS_COMPUTE_64F:
    fits = a == CUDA_R_64F && d == CUDA_R_64F;
    break;
  }
  if (!fits)
    return {CUBLAS_STATUS_NOT_SUPPORTED,
            "the compute type does not go with the element types"};
  cudaDataType scale =
      product.compute == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F;
  if (product.scale != scale)
    return {CUBLAS_STATUS_NOT_SUPPORTED, "the factors' type"};
  return {};
}

static Refusal checkShapes(const Product &product, const Layouts &layouts) {
  for (const MatrixLayout *each :
       {&layouts.a, &layouts.b, &layouts.c, &layouts.d}) {
    if (!each->rows || !each->columns || each->batch < 1 ||
        each->ld < static_cast<int64_t>(each->rows))
      return {CUBLAS_STATUS_INVALID_VALUE,
              "an empty matrix, or a leading dimension less than its rows"};
    if (each->order)
      return {CUBLAS_STATUS_NOT_SUPPORTED, "an order other than columns"};
    if (each->batch != layouts.d.batch)
      return {CUBLAS_STATUS_INVALID_VALUE, "batch counts differ"};
  }
  auto rows = [](const MatrixLayout &layout, int32_t op) {
    return op == CUBLAS_OP_T ? layout.columns : layout.rows;
  };
  auto columns = [](const MatrixLayout &layout, int32_t op) {
    return op == CUBLAS_OP_T ? layout.rows : layout.columns;
  };
  const MatrixLayout &d = layouts.d;
  if (rows(layouts.a, product.transA) != d.rows ||
      columns(layouts.b, product.transB) != d.columns ||
      columns(layouts.a, product.transA) != rows(layouts.b, product.transB) ||
      layouts.c.rows != d.rows || layouts.c.columns != d.columns)
    return {CUBLAS_STATUS_INVALID_VALUE, "the matrices' shapes do not match"};
  return {};
}

static Refusal checkEpilogue(const Product &product, const Layouts &layouts) {
  switch (product.epilogue) {
  case CUBLASLT_EPILOGUE_DEFAULT:
  case CUBLASLT_EPILOGUE_RELU:
  case CUBLASLT_EPILOGUE_BIAS:
  case CUBLASLT_EPILOGUE_RELU_BIAS:
    break;
  case CUBLASLT_EPILOGUE_RELU_AUX:
  case CUBLASLT_EPILOGUE_RELU_AUX_BIAS:
  case CUBLASLT_EPILOGUE_DRELU:
  case CUBLASLT_EPILOGUE_DRELU_BGRAD:
  case CUBLASLT_EPILOGUE_BGRADA:
  case CUBLASLT_EPILOGUE_BGRADB:
    if (product.compute == CUBLAS_COMPUTE_64F)
      return {CUBLAS_STATUS_NOT_SUPPORTED, "this epilogue in f64"};
    if (layouts.d.batch > 1)
      return {CUBLAS_STATUS_NOT_SUPPORTED, "this epilogue of a batch"};
    break;
  default:
    return {CUBLAS_STATUS_NOT_SUPPORTED, "an unknown epilogue"};
  }
  // The library sums an operand along k only in the order in which it reads it.
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADA &&
      product.transA != CUBLAS_OP_N)
    return {CUBLAS_STATUS_NOT_SUPPORTED, "BGRADA of a transposed A"};
  if (product.epilogue == CUBLASLT_EPILOGUE_BGRADB &&
      product.transB != CUBLAS_OP_T)
    return {CUBLAS_STATUS_NOT_SUPPORTED,
            "BGRADB of a B that is not transposed"};
  if (product.hasAux() &&
      (product.auxLd % 128 ||
       product.auxLd < static_cast<int64_t>(layouts.d.rows)))
    return {CUBLAS_STATUS_INVALID_VALUE,
            "the mask's leading dimension is not a multiple of 128 bits, or "
            "less than the rows of D"};
  if ((product.addsBias() || product.givesBiasGradient()) &&
      product.biasType != -1 && product.biasType != layouts.d.type)
    return {CUBLAS_STATUS_NOT_SUPPORTED, "the bias' type is not that of D"};
  return {};
}

Refusal mpc::emulator::check(const Product &product, const Layouts &layouts) {
  if (product.pointerMode)
    return {CUBLAS_STATUS_NOT_SUPPORTED, "factors in device memory"};
  for (int32_t op : {product.transA, product.transB})
    if (op != CUBLAS_OP_N && op != CUBLAS_OP_T)
      return {CUBLAS_STATUS_NOT_SUPPORTED, "an unknown operation"};
  for (auto *checkPart : {checkTypes, checkShapes, checkEpilogue})
    if (Refusal refusal = checkPart(product, layouts); refusal.status)
      return refusal;
  return {};
}

std::vector<Access> mpc::emulator::accessesOf(const Product &product,
                                              const Layouts &layouts,
                                              const Operands &operands) {
  std::vector<Access> accesses = {{operands.a, layouts.a.bytes()},
                                  {operands.b, layouts.b.bytes()},
                                  {operands.d, layouts.d.bytes()}};
  if (operands.beta != 0)
    accesses.push_back({operands.c, layouts.c.bytes()});
  uint64_t length = product.epilogue == CUBLASLT_EPILOGUE_BGRADB
                        ? layouts.d.columns
                        : layouts.d.rows;
  if (product.addsBias() || product.givesBiasGradient())
    accesses.push_back(
        {product.bias, length * sizeOf(elementOf(layouts.d.type))});
  if (product.hasAux())
    accesses.push_back({product.aux, static_cast<size_t>(product.auxLd) / 8 *
                                         layouts.d.columns});
  return accesses;
}

//===----------------------------------------------------------------------===//
// The product
//===----------------------------------------------------------------------===//

namespace {

/// One batch of a product, computed in T. Sums run in the order of k.
template <class T>
class Multiplier {
public:
  Multiplier(const Product &product, const Layouts &layouts,
             const Operands &operands, int32_t batch)
      : product(product), layouts(layouts), operands(operands), batch(batch),
        m(layouts.d.rows), n(layouts.d.columns), k(layouts.depth(product)) {}

  void run() {
    // A is packed by columns, B by rows, so that the inner loop is dense.
    std::vector<T> a(m * k), b(k * n);
    for (uint64_t l = 0; l < k; ++l)
      for (uint64_t i = 0; i < m; ++i)
        a[l * m + i] = operand(layouts.a, operands.a, product.transA, i, l);
    for (uint64_t j = 0; j < n; ++j)
      for (uint64_t l = 0; l < k; ++l)
        b[j * k + l] = operand(layouts.b, operands.b, product.transB, l, j);
    sumOperands(a, b);
    std::vector<T> rowSums(m);
    std::vector<T> column(m);
    for (uint64_t j = 0; j < n; ++j) {
      std::fill(column.begin(), column.end(), T(0));
      for (uint64_t l = 0; l < k; ++l) {
        T factor = b[j * k + l];
        const T *from = &a[l * m];
        for (uint64_t i = 0; i < m; ++i)
          column[i] += from[i] * factor;
      }
      for (uint64_t i = 0; i < m; ++i)
        rowSums[i] += finish(i, j, column[i]);
    }
    if (product.epilogue == CUBLASLT_EPILOGUE_DRELU_BGRAD)
      for (uint64_t i = 0; i < m; ++i)
        store(product.bias, i, elementOf(layouts.d.type), rowSums[i]);
  }

private:
  uint64_t offset(const MatrixLayout &layout, uint64_t row,
                  uint64_t column) const {
    return static_cast<uint64_t>(layout.batchStride) *
               static_cast<uint64_t>(batch) +
           static_cast<uint64_t>(layout.ld) * column + row;
  }

  T operand(const MatrixLayout &layout, const void *memory, int32_t op,
            uint64_t row, uint64_t column) const {
    if (op == CUBLAS_OP_T)
      std::swap(row, column);
    T value =
        load<T>(memory, offset(layout, row, column), elementOf(layout.type));
    if (product.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
      return static_cast<T>(
          ptx::roundTo(value, ptx::kTF32Shape, ptx::Rounding::NearestAway));
    return value;
  }

  /// BGRADA and BGRADB: sums of an operand over k.
  void sumOperands(const std::vector<T> &a, const std::vector<T> &b) const {
    bool ofA = product.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    if (!ofA && product.epilogue != CUBLASLT_EPILOGUE_BGRADB)
      return;
    for (uint64_t i = 0; i < (ofA ? m : n); ++i) {
      T sum = 0;
      for (uint64_t l = 0; l < k; ++l)
        sum += ofA ? a[l * m + i] : b[i * k + l];
      store(product.bias, i, elementOf(layouts.d.type), sum);
    }
  }

  /// The epilogue: stores an element of D and returns its unrounded value.
  T finish(uint64_t i, uint64_t j, T sum) const {
    T value = static_cast<T>(operands.alpha) * sum;
    if (operands.beta != 0)
      value += static_cast<T>(operands.beta) *
               load<T>(operands.c, offset(layouts.c, i, j),
                       elementOf(layouts.c.type));
    if (product.addsBias())
      value += load<T>(product.bias, i, elementOf(layouts.d.type));
    uint64_t bit = static_cast<uint64_t>(product.auxLd) * j + i;
    auto *mask = static_cast<uint8_t *>(product.aux) + bit / 8;
    auto in = static_cast<uint8_t>(1u << bit % 8);
    if (product.epilogue & CUBLASLT_EPILOGUE_RELU) {
      bool isPositive = value > 0;
      value = isPositive ? value : T(0);
      if (product.hasAux())
        *mask = static_cast<uint8_t>(isPositive ? *mask | in : *mask & ~in);
    } else if (product.hasAux() && !(*mask & in)) {
      value = 0;
    }
    store(operands.d, offset(layouts.d, i, j), elementOf(layouts.d.type),
          value);
    return value;
  }

  const Product &product;
  const Layouts &layouts;
  const Operands &operands;
  int32_t batch;
  uint64_t m, n, k;
};

} // namespace

void mpc::emulator::multiply(const Product &product, const Layouts &layouts,
                             const Operands &operands) {
  for (int32_t batch = 0; batch < layouts.d.batch; ++batch) {
    if (product.compute == CUBLAS_COMPUTE_64F)
      Multiplier<double>(product, layouts, operands, batch).run();
    else
      Multiplier<float>(product, layouts, operands, batch).run();
  }
}
