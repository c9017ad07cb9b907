// Matrix products by oneDNN, one tile of the result per slice.
//
// Phase 0, only where an operand's type is not one the library multiplies on
// this target: the operand widened to f32, once per run, in blocks of rows.
// Phase 1: the tiles. A tile is computed over all of k at once, either into the
// result or into fp32 scratch that stays in the worker's cache, where the
// epilogue, or the final scaling and rounding, takes it from.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/OneDNN.h"
#include "runtime/cpu/OneDNNProvider.h"

namespace mpc::runtime {
namespace {

/// Elements that one slice of the widening phase takes, about.
constexpr int64_t kWidenBlock = 1 << 16;

/// An operand as the primitive reads it: stored matrices of rows x columns.
struct MatrixOperand {
  Operand source;
  int64_t matrices = 1, rows = 0, columns = 0, ld = 0, stride = 0;
  bool transposed = false;
  bool widened = false;
  size_t sharedOffset = 0; ///< of the widened copy

  MatrixOperand(Operand source, int64_t batch, int64_t rows, int64_t columns,
                int64_t ld, int64_t stride, bool transposed)
      : source(source), matrices(stride == 0 ? 1 : batch), rows(rows),
        columns(columns), ld(ld), stride(stride), transposed(transposed) {}

  /// Takes room in shared memory for a dense copy in f32.
  void widen(size_t &sharedBytes) {
    widened = true;
    sharedOffset = sharedBytes;
    sharedBytes += alignScratch(elements() * sizeof(float));
  }

  DType type() const { return widened ? DType::F32 : source.type; }
  int64_t leading() const { return widened ? columns : ld; }

  /// The element (row, column) of op(matrix) number `index` of the batch.
  const std::byte *at(int64_t index, int64_t row, int64_t column,
                      std::byte *shared) const {
    if (transposed)
      std::swap(row, column);
    if (!widened)
      return source.at(index * stride + row * ld + column);
    int64_t matrix = matrices == 1 ? 0 : index;
    return shared + sharedOffset +
           ((matrix * rows + row) * columns + column) *
               static_cast<int64_t>(sizeof(float));
  }

  dnnl::memory::desc desc(int64_t opRows, int64_t opColumns) const {
    dnnl::memory::dims strides = {leading(), 1};
    if (transposed)
      std::swap(strides[0], strides[1]);
    return {{opRows, opColumns}, dnnlType(type()), strides};
  }

  int64_t elements() const { return matrices * rows * columns; }
  int64_t widenedElements() const { return widened ? elements() : 0; }
  bool isDense() const {
    return ld == columns && (matrices == 1 || stride == rows * columns);
  }

  // Widening goes by blocks of whole rows of all matrices.
  int64_t rowsPerBlock() const {
    return std::max<int64_t>(1, kWidenBlock / columns);
  }
  int64_t widenSlices() const {
    int64_t block = rowsPerBlock();
    return widened ? (matrices * rows + block - 1) / block : 0;
  }
  void runWiden(int64_t slice, std::byte *shared) const {
    int64_t begin = slice * rowsPerBlock();
    int64_t end = std::min(begin + rowsPerBlock(), matrices * rows);
    auto *result = reinterpret_cast<float *>(shared + sharedOffset);
    if (isDense())
      return runtime::widen(source.type, source.at(begin * columns),
                            result + begin * columns, (end - begin) * columns);
    for (int64_t row = begin; row < end; ++row)
      runtime::widen(source.type,
                     source.at(row / rows * stride + row % rows * ld),
                     result + row * columns, columns);
  }
};

class OneDNNMatMul : public Contraction {
public:
  OneDNNMatMul(const MatMulStep &step, MatMulOperands operands)
      : step(step), c(operands.c), epilogue(std::move(operands.epilogue)),
        a(operands.a, step.batch, step.transA ? step.k : step.m,
          step.transA ? step.m : step.k, step.lda, step.strideA, step.transA),
        b(operands.b, step.batch, step.transB ? step.n : step.k,
          step.transB ? step.k : step.n, step.ldb, step.strideB, step.transB) {}

  Status prepare(const OneDNNConfig &config);
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;

private:
  void makePrimitive(int64_t rows, int64_t columns, const OneDNNConfig &config);
  int64_t widenSlices() const { return a.widenSlices() + b.widenSlices(); }
  void runWiden(int64_t slice, std::byte *shared) const;
  Status runTile(int64_t tile, const SliceContext &context);
  void finishTile(float *accumulators, int64_t index, int64_t row, int64_t rows,
                  int64_t column, int64_t columns) const;

  int64_t tileRows() const { return std::min(step.tileM, step.m); }
  int64_t tileColumns() const { return std::min(step.tileN, step.n); }
  WorkerPrimitive &primitiveFor(int64_t rows, int64_t columns) {
    return primitives[rows != tileRows()][columns != tileColumns()];
  }

  const MatMulStep step;
  const Operand c;
  const EpilogueCall epilogue;
  MatrixOperand a, b;
  bool direct = false;       ///< the primitive writes c itself
  bool widensAtOnce = false; ///< both operands in one slice
  int64_t tilesM = 0, tilesN = 0;
  WorkerPrimitive primitives[2][2]; ///< [last rows are fewer][last columns]
};

} // namespace

void OneDNNMatMul::makePrimitive(int64_t rows, int64_t columns,
                                 const OneDNNConfig &config) {
  WorkerPrimitive &primitive = primitiveFor(rows, columns);
  if (rows <= 0 || columns <= 0 || primitive)
    return;
  dnnl::memory::desc result({rows, columns},
                            dnnlType(direct ? c.type : DType::F32),
                            dnnl::memory::dims{direct ? step.ldc : columns, 1});
  dnnl::matmul::primitive_desc desc(
      dnnl::matmul::desc(a.desc(rows, step.k), b.desc(step.k, columns), result),
      dnnlAttributes(), dnnlEngine());
  primitive = WorkerPrimitive(dnnl::matmul(desc),
                              {{DNNL_ARG_SRC, desc.src_desc()},
                               {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                               {DNNL_ARG_DST, desc.dst_desc()}},
                              desc.scratchpad_desc(), config.workers);
  scratchSize = std::max(scratchSize, primitive.scratchBytes());
}

Status OneDNNMatMul::prepare(const OneDNNConfig &config) {
  bool narrow = config.nativeBF16 && a.source.type == DType::BF16 &&
                b.source.type == DType::BF16;
  for (MatrixOperand *operand : {&a, &b})
    if (!narrow && operand->source.type != DType::F32)
      operand->widen(sharedSize);
  // Small operands are not worth meeting another thread for.
  widensAtOnce = a.widenedElements() + b.widenedElements() <= kWidenBlock;
  if (int64_t slices = widenSlices())
    phaseSlices.push_back(widensAtOnce ? 1 : slices);

  // A tile of a wide result is written through scratch: the library stores it
  // many times over, and rows far apart would share few lines of the cache.
  direct = !epilogue && step.alpha == 1 && tileColumns() == step.ldc &&
           (c.type == DType::F32 || (narrow && c.type == DType::BF16));
  tilesM = (step.m + step.tileM - 1) / step.tileM;
  tilesN = (step.n + step.tileN - 1) / step.tileN;
  phaseSlices.push_back(step.batch * tilesM * tilesN);

  Status status = catchDNNL("prepare a matrix product", [&] {
    for (int64_t rows : {tileRows(), step.m % step.tileM})
      for (int64_t columns : {tileColumns(), step.n % step.tileN})
        makePrimitive(rows, columns, config);
  });
  if (!direct)
    scratchSize =
        alignScratch(scratchSize) + tileRows() * tileColumns() * sizeof(float);
  return status;
}

Status OneDNNMatMul::runSlice(size_t phase, int64_t slice,
                              const SliceContext &context) {
  if (phase + 1 == phaseSlices.size())
    return runTile(slice, context);
  int64_t end = widensAtOnce ? widenSlices() : slice + 1;
  for (; slice < end; ++slice)
    runWiden(slice, context.shared);
  return Status();
}

void OneDNNMatMul::runWiden(int64_t slice, std::byte *shared) const {
  int64_t slicesOfA = a.widenSlices();
  if (slice < slicesOfA)
    a.runWiden(slice, shared);
  else
    b.runWiden(slice - slicesOfA, shared);
}

/// Tiles of one column of tiles follow each other: they share b's panel.
Status OneDNNMatMul::runTile(int64_t tile, const SliceContext &context) {
  int64_t row = tile % tilesM * step.tileM;
  int64_t column = tile / tilesM % tilesN * step.tileN;
  int64_t index = tile / (tilesM * tilesN);
  int64_t rows = std::min(step.tileM, step.m - row);
  int64_t columns = std::min(step.tileN, step.n - column);

  auto *accumulators = reinterpret_cast<float *>(context.scratch);
  std::byte *result = context.scratch;
  std::byte *scratchpad = context.scratch;
  if (direct)
    result = c.at(index * step.strideC + row * step.ldc + column);
  else
    scratchpad += alignScratch(tileRows() * tileColumns() * sizeof(float));

  Status status = primitiveFor(rows, columns)
                      .run(context.worker,
                           {a.at(index, row, 0, context.shared),
                            b.at(index, 0, column, context.shared), result},
                           scratchpad);
  if (status.ok() && !direct)
    finishTile(accumulators, index, row, rows, column, columns);
  return status;
}

void OneDNNMatMul::finishTile(float *accumulators, int64_t index, int64_t row,
                              int64_t rows, int64_t column,
                              int64_t columns) const {
  auto alpha = static_cast<float>(step.alpha);
  if (alpha != 1)
    for (int64_t i = 0; i < rows * columns; ++i)
      accumulators[i] *= alpha;
  if (epilogue)
    return epilogue(accumulators, index * step.m + row, rows, column, columns,
                    columns);
  for (int64_t i = 0; i < rows; ++i)
    narrow(c.type, accumulators + i * columns,
           c.at(index * step.strideC + (row + i) * step.ldc + column), columns);
}

StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNMatMul(const MatMulStep &step, MatMulOperands operands,
                    const OneDNNConfig &config) {
  auto matmul = std::make_unique<OneDNNMatMul>(step, std::move(operands));
  if (Status status = matmul->prepare(config); !status.ok())
    return status;
  return std::unique_ptr<Contraction>(std::move(matmul));
}

} // namespace mpc::runtime
