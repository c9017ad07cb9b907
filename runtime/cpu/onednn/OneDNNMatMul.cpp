// Matrix products by oneDNN, one tile of the result per slice.
//
// Up to three phases, each shared among the workers:
//
//   widen  only where an operand's type is not one the library multiplies on
//          this target: the operand in f32, in blocks of rows
//   pack   only where the library has an order of its own for b: b's panels in
//          that order, and a as dense rows where it is stored in columns, or in
//          rows of a wider matrix, and the library would else not take b's
//          order. A panel is packed once, however many tiles read it; where one
//          tile is all of a matrix, as of an attention's head, its slice packs
//          and there is no phase.
//   tiles  each over all of k at once, either into the result or into fp32
//          scratch that stays in the worker's cache, where the epilogue, or the
//          final scaling and rounding, takes it from
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/onednn/MatrixOperands.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <string_view>

namespace mpc::runtime {
namespace {

/// Elements of both operands that a worker packs for one product at most: 2
/// MiB, which its cache holds, and its scratch memory must.
constexpr int64_t kPackedElements = 1 << 20;

class OneDNNMatMul : public Contraction {
public:
  OneDNNMatMul(const MatMulStep &step, MatMulOperands operands)
      : step(step), c(step, operands.c, std::move(operands.epilogue)),
        a(operands.a, step, step.offsetA, step.transA ? step.k : step.m,
          step.transA ? step.m : step.k, step.lda, step.strideA, step.outer.a,
          step.transA),
        b(operands.b, step, step.offsetB, step.transB ? step.n : step.k,
          step.transB ? step.k : step.n, step.ldb, step.strideB, step.outer.b,
          step.transB) {}

  Status prepare(const OneDNNConfig &config);
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&a.source, &b.source, &c.operand}, c.epilogue);
  }

private:
  enum class Phase { Widen, Pack, Tiles };

  dnnl::matmul::primitive_desc describe(const dnnl::memory::desc &left,
                                        const dnnl::memory::desc &right) const;
  dnnl::memory::desc chooseLayoutOfB(bool densifiesA, int64_t columns,
                                     const OneDNNConfig &config) const;
  bool gainsByPackingForOneTile(const OneDNNConfig &config) const;
  bool mustDensifyA(const OneDNNConfig &config) const;
  void choosePacking(const OneDNNConfig &config);
  bool makePrimitive(int64_t rows, int64_t columns, const OneDNNConfig &config);
  bool makePrimitives(const OneDNNConfig &config);
  void addPhase(Phase phase, int64_t slices) {
    phases.push_back(phase);
    phaseSlices.push_back(slices);
  }
  Status runPack(int64_t slice, const SliceContext &context);
  Status packForTile(int64_t index, const SliceContext &context);
  int64_t widenSlices() const { return a.widenSlices() + b.widenSlices(); }
  void runWiden(int64_t slice, std::byte *shared) const;
  Status runTile(int64_t tile, const SliceContext &context);

  int64_t tileRows() const { return std::min(step.tileM, step.m); }
  int64_t tileColumns() const { return std::min(step.tileN, step.n); }
  WorkerPrimitive &primitiveFor(int64_t rows, int64_t columns) {
    return primitives[rows != tileRows()][columns != tileColumns()];
  }

  const MatMulStep step;
  ProductResult c;
  MatrixOperand a, b;
  bool direct = false;       ///< the primitive writes c itself
  bool widensAtOnce = false; ///< both operands in one slice
  DenseRows denseA;
  PackedPanels packedB;
  bool packsForTile = false; ///< into a worker's scratch, one matrix
  size_t padOffset = 0;      ///< of the library's scratch in a worker's
  std::vector<Phase> phases;
  int64_t tilesM = 0, tilesN = 0;
  WorkerPrimitive primitives[2][2]; ///< [last rows are fewer][last columns]
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// The product of two panels, into the result or into scratch.
dnnl::matmul::primitive_desc
OneDNNMatMul::describe(const dnnl::memory::desc &left,
                       const dnnl::memory::desc &right) const {
  const int64_t rows = left.get_dims()[0], columns = right.get_dims()[1];
  dnnl::memory::desc result({rows, columns},
                            dnnlType(direct ? c.operand.type : DType::F32),
                            dnnl::memory::dims{direct ? step.ldc : columns, 1});
  return {dnnlEngine(), left, right, result, dnnlAttributes()};
}

/// Rows of a as they lie side by side.
static dnnl::memory::desc denseRows(int64_t rows, int64_t k, DType type) {
  return {{rows, k}, dnnlType(type), dnnl::memory::dims{k, 1}};
}

static bool isBlocked(const dnnl::memory::desc &desc) {
  return desc.get_inner_nblks() > 0;
}

/// The order in which the library would have a panel of b, where it may choose.
dnnl::memory::desc
OneDNNMatMul::chooseLayoutOfB(bool densifiesA, int64_t columns,
                              const OneDNNConfig &config) const {
  using Tag = dnnl::memory::format_tag;
  const Tag tag = config.packsAlways ? Tag::BA16a16b : Tag::any;
  dnnl::memory::desc right({step.k, columns}, dnnlType(b.type()), tag);
  if (config.packsAlways)
    return right;
  return describe(densifiesA ? denseRows(tileRows(), step.k, a.type())
                             : a.desc(tileRows(), step.k),
                  right)
      .weights_desc();
}

/// Whether the library would else copy the operands of each product itself, in
/// its general routine, which for an attention's head takes longer than the
/// product. Where it reorders, too, nothing is gained.
bool OneDNNMatMul::gainsByPackingForOneTile(const OneDNNConfig &config) const {
  if (tilesM * tilesN > 1)
    return false;
  if (config.packsAlways)
    return true;
  if ((step.m + step.n) * step.k > kPackedElements)
    return false;
  const dnnl::memory::desc stored = b.desc(step.k, step.n);
  const dnnl::matmul::primitive_desc unpacked =
      describe(a.desc(step.m, step.k), stored);
  const bool isGeneral =
      std::string_view(unpacked.impl_info_str()).rfind("gemm", 0) == 0;
  return isGeneral &&
         findPairedLayout(stored, chooseLayoutOfB(true, step.n, config));
}

/// Whether the library has an order of its own for b only where a lies in dense
/// rows. Columns are worth turning for any order, rows worth copying for the
/// one that is packed fast.
bool OneDNNMatMul::mustDensifyA(const OneDNNConfig &config) const {
  if (config.packsAlways)
    return a.transposed;
  const bool isDense = !a.transposed && a.leading() == step.k;
  if (isDense || isBlocked(chooseLayoutOfB(false, tileColumns(), config)))
    return false;
  return a.transposed ||
         findPairedLayout(b.desc(step.k, tileColumns()),
                          chooseLayoutOfB(true, tileColumns(), config));
}

/// Packs where panels of b are read by several tiles and the library has an
/// order of its own for them, or where one tile is all. Such an implementation
/// may want a in rows.
void OneDNNMatMul::choosePacking(const OneDNNConfig &config) {
  // Packing pays where a panel is read more than once.
  const int64_t readers = tilesM * (b.matrices == 1 ? step.batches() : 1);
  packsForTile = readers < 2 && gainsByPackingForOneTile(config);
  if (readers < 2 && !packsForTile && !config.packsAlways)
    return;
  const bool densifiesA = mustDensifyA(config);
  const int64_t lastColumns = step.n % step.tileN;
  const bool hasLastColumns = tilesN > 1 && lastColumns > 0;
  // The order that the library wants for b, also for its last, narrower panel.
  dnnl::memory::desc to[2] = {
      chooseLayoutOfB(densifiesA, tileColumns(), config)};
  if (!isBlocked(to[0]))
    return;
  if (hasLastColumns)
    to[1] = chooseLayoutOfB(densifiesA, lastColumns, config);
  packedB = PackedPanels(
      packsForTile ? 1 : b.matrices, tilesN,
      {b.desc(step.k, tileColumns()),
       hasLastColumns ? b.desc(step.k, lastColumns) : dnnl::memory::desc()},
      to, config.workers);
  if (densifiesA)
    denseA = DenseRows(packsForTile ? 1 : a.matrices, step.m, step.k, a.type(),
                       a.transposed);
}

/// False where only the library's reference takes what was packed.
bool OneDNNMatMul::makePrimitive(int64_t rows, int64_t columns,
                                 const OneDNNConfig &config) {
  // One primitive for each size of tile.
  WorkerPrimitive &primitive = primitiveFor(rows, columns);
  if (rows <= 0 || columns <= 0 || primitive)
    return true;
  dnnl::matmul::primitive_desc desc = describe(
      denseA ? denseRows(rows, step.k, a.type()) : a.desc(rows, step.k),
      packedB ? packedB.layout(columns != tileColumns())
              : b.desc(step.k, columns));
  // The library falls back on slow code for orders that it does not know.
  const bool isReference =
      std::string_view(desc.impl_info_str()).rfind("ref", 0) == 0;
  if (packedB && isReference && !config.packsAlways)
    return false;
  primitive = WorkerPrimitive(dnnl::matmul(desc),
                              {{DNNL_ARG_SRC, desc.src_desc()},
                               {DNNL_ARG_WEIGHTS, desc.weights_desc()},
                               {DNNL_ARG_DST, desc.dst_desc()}},
                              desc.scratchpad_desc(), config.workers);
  scratchSize = std::max(scratchSize, primitive.scratchBytes());
  return true;
}

bool OneDNNMatMul::makePrimitives(const OneDNNConfig &config) {
  for (int64_t rows : {tileRows(), step.m % step.tileM})
    for (int64_t columns : {tileColumns(), step.n % step.tileN})
      if (!makePrimitive(rows, columns, config))
        return false;
  return true;
}

Status OneDNNMatMul::prepare(const OneDNNConfig &config) {
  // Types that the library multiplies.
  bool narrow = config.multipliesBF16(step.k) && a.source.type == DType::BF16 &&
                b.source.type == DType::BF16;
  for (MatrixOperand *operand : {&a, &b})
    if (!narrow && operand->source.type != DType::F32)
      operand->widen(sharedSize);
  // Small operands are not worth meeting another thread for.
  widensAtOnce = a.widenedElements() + b.widenedElements() <= kWidenBlock;
  if (int64_t slices = widenSlices())
    addPhase(Phase::Widen, widensAtOnce ? 1 : slices);

  // A tile of a wide result is written through scratch: the library stores it
  // many times over, and rows far apart would share few lines of the cache.
  const DType type = c.operand.type;
  direct = !c.epilogue && step.alpha == 1 && tileColumns() == step.ldc &&
           (type == DType::F32 || (narrow && type == DType::BF16));
  tilesM = (step.m + step.tileM - 1) / step.tileM;
  tilesN = (step.n + step.tileN - 1) / step.tileN;

  // With packed operands first; where the library refuses those, without.
  Status status = catchDNNL("prepare a matrix product", [&] {
    choosePacking(config);
    if (makePrimitives(config))
      return;
    denseA = DenseRows();
    packedB = PackedPanels();
    for (auto &row : primitives)
      row[0] = row[1] = WorkerPrimitive();
    makePrimitives(config);
  });
  // Packing for each tile by itself, or once for all tiles, as a phase before
  // them.
  packsForTile = packsForTile && packedB;
  scratchSize = std::max(scratchSize, packedB.scratchBytes());
  if (packedB && !packsForTile) {
    denseA.reserve(sharedSize);
    packedB.reserve(sharedSize);
    addPhase(Phase::Pack, denseA.slices() + packedB.slices());
  }
  addPhase(Phase::Tiles, step.batches() * tilesM * tilesN);

  // A slice's scratch: its result, what it packs, and the library's own.
  if (!direct)
    padOffset = alignScratch(tileRows() * tileColumns() * sizeof(float));
  if (packsForTile) {
    denseA.reserve(padOffset);
    packedB.reserve(padOffset);
  }
  scratchSize += padOffset;
  return status;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

Status OneDNNMatMul::runSlice(size_t phase, int64_t slice,
                              const SliceContext &context) {
  if (phases[phase] == Phase::Tiles)
    return runTile(slice, context);
  if (phases[phase] == Phase::Pack)
    return runPack(slice, context);
  int64_t end = widensAtOnce ? widenSlices() : slice + 1;
  for (; slice < end; ++slice)
    runWiden(slice, context.shared);
  return Status();
}

Status OneDNNMatMul::runPack(int64_t slice, const SliceContext &context) {
  const int64_t slicesOfA = denseA.slices();
  if (slice < slicesOfA) {
    const DenseRows::Part part = denseA.partOf(slice);
    denseA.run(part, a.at(part.matrix, part.row, part.depth, context.shared),
               a.leading(), context.shared);
    return Status();
  }
  const PackedPanels::Part part = packedB.partOf(slice - slicesOfA);
  return packedB.run(
      part, context.worker,
      b.at(part.matrix, 0, part.panel * step.tileN, context.shared),
      context.shared, context.scratch);
}

/// The operands of the only tile of matrix `index`, in the worker's scratch.
Status OneDNNMatMul::packForTile(int64_t index, const SliceContext &context) {
  for (int64_t slice = 0; slice < denseA.slices(); ++slice) {
    const DenseRows::Part part = denseA.partOf(slice);
    denseA.run(part, a.at(index, part.row, part.depth, context.shared),
               a.leading(), context.scratch);
  }
  for (int64_t slice = 0; slice < packedB.slices(); ++slice)
    if (Status status =
            packedB.run(packedB.partOf(slice), context.worker,
                        b.at(index, 0, 0, context.shared), context.scratch,
                        context.scratch + padOffset);
        !status.ok())
      return status;
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
  // Where the tile is, and how large it is at the edges.
  const int64_t tileRow = tile % tilesM, tileColumn = tile / tilesM % tilesN;
  int64_t row = tileRow * step.tileM, column = tileColumn * step.tileN;
  int64_t index = tile / (tilesM * tilesN);
  int64_t rows = std::min(step.tileM, step.m - row);
  int64_t columns = std::min(step.tileN, step.n - column);

  // Its result goes where it belongs, or into scratch memory to be finished.
  auto *accumulators = reinterpret_cast<float *>(context.scratch);
  std::byte *result = direct ? c.at(index, row, column) : context.scratch;

  // Operands are packed, before or here, or read where they are.
  if (packsForTile)
    if (Status status = packForTile(index, context); !status.ok())
      return status;
  std::byte *packed = packsForTile ? context.scratch : context.shared;
  const std::byte *left = denseA ? denseA.at(index, row, packed)
                                 : a.at(index, row, 0, context.shared);
  const std::byte *right = packedB ? packedB.at(index, tileColumn, packed)
                                   : b.at(index, 0, column, context.shared);
  Status status = primitiveFor(rows, columns)
                      .run(context.worker, {left, right, result},
                           context.scratch + padOffset);
  if (status.ok() && !direct)
    c.finish(accumulators, columns, index, row, rows, column, columns);
  return status;
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
