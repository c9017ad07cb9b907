// Matrix products with oneDNN, one tile of the result per slice.
//
// Up to three phases; the workers share the slices of each:
//
//   widen  If oneDNN cannot multiply an operand's type on this target. Widens
//          the operand to f32, in blocks of rows.
//   pack   If oneDNN prefers its own layout for b. Packs b's panels in that
//          layout. Copies a to dense rows if oneDNN requires them for its
//          layout of b. A panel is packed once for all tiles that read it. If a
//          matrix is a single tile, as for an attention head, its slice packs
//          and there is no phase.
//   tiles  Multiplies a tile over all of k. The tile goes into the result, or
//          into fp32 scratch memory in the worker's cache. From there the
//          epilogue, or the final scaling and rounding, reads it.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/onednn/MatrixOperands.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <string_view>

namespace mpc::runtime {
namespace {

/// Limit on the elements that a worker packs for one product: 2 MiB fit its
/// cache and its scratch memory.
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
  MatMulOperand a, b;
  bool direct = false;       ///< the primitive writes c itself
  bool widensAtOnce = false; ///< one slice widens both operands
  DenseRows denseA;
  PackedPanels packedB;
  bool packsForTile = false; ///< packs one matrix, into a worker's scratch
  size_t padOffset = 0;      ///< of oneDNN's memory, in a worker's scratch
  std::vector<Phase> phases;
  int64_t tilesM = 0, tilesN = 0;
  WorkerPrimitive primitives[2][2]; ///< [fewer last rows][fewer last columns]
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Describes the product of a panel of a and a panel of b for oneDNN. oneDNN
/// writes into c if `direct`, else into scratch memory.
dnnl::matmul::primitive_desc
OneDNNMatMul::describe(const dnnl::memory::desc &left,
                       const dnnl::memory::desc &right) const {
  const int64_t rows = left.get_dims()[0], columns = right.get_dims()[1];
  dnnl::memory::desc result({rows, columns},
                            dnnlType(direct ? c.operand.type : DType::F32),
                            dnnl::memory::dims{direct ? step.ldc : columns, 1});
  return {dnnlEngine(), left, right, result, dnnlAttributes()};
}

/// Returns the layout of a panel of a whose rows are adjacent, without gaps.
static dnnl::memory::desc denseRows(int64_t rows, int64_t k, DType type) {
  return {{rows, k}, dnnlType(type), dnnl::memory::dims{k, 1}};
}

static bool isBlockedLayout(const dnnl::memory::desc &desc) {
  return desc.get_inner_nblks() > 0;
}

/// Returns the layout that oneDNN prefers for a panel of b.
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

/// True if packing speeds up a product with a single tile. Without packing,
/// oneDNN's general routine copies the operands of each product, which takes
/// longer than the product of an attention head. Packing gains nothing if it
/// needs oneDNN's reorder.
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

/// True if oneDNN uses its own layout of b only if the rows of a are dense, and
/// a copy of a with dense rows pays. Transposing a column-major a pays for any
/// layout. Copying rows pays only for the layout that pairRows packs fast.
bool OneDNNMatMul::mustDensifyA(const OneDNNConfig &config) const {
  if (config.packsAlways)
    return a.transposed;
  const bool isDense = !a.transposed && a.leading() == step.k;
  if (isDense || isBlockedLayout(chooseLayoutOfB(false, tileColumns(), config)))
    return false;
  return a.transposed ||
         findPairedLayout(b.desc(step.k, tileColumns()),
                          chooseLayoutOfB(true, tileColumns(), config));
}

/// Decides to pack b if oneDNN prefers its own layout, and if several tiles
/// read the panels of b or packing speeds up a single tile. Also decides to
/// copy a to dense rows if oneDNN's layout requires dense rows.
void OneDNNMatMul::choosePacking(const OneDNNConfig &config) {
  // Packing pays if a panel is read more than once.
  const int64_t readers = tilesM * (b.matrices == 1 ? countMatrices(step) : 1);
  packsForTile = readers < 2 && gainsByPackingForOneTile(config);
  if (readers < 2 && !packsForTile && !config.packsAlways)
    return;
  const bool densifiesA = mustDensifyA(config);
  const int64_t lastColumns = step.n % step.tileN;
  const bool hasLastColumns = tilesN > 1 && lastColumns > 0;
  // Choose the layout for the last, narrower panel too.
  dnnl::memory::desc to[2] = {
      chooseLayoutOfB(densifiesA, tileColumns(), config)};
  if (!isBlockedLayout(to[0]))
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

/// Makes the primitive for a tile size. False if only oneDNN's reference
/// implementation reads the packed layout.
bool OneDNNMatMul::makePrimitive(int64_t rows, int64_t columns,
                                 const OneDNNConfig &config) {
  WorkerPrimitive &primitive = primitiveFor(rows, columns);
  if (rows <= 0 || columns <= 0 || primitive)
    return true;
  dnnl::matmul::primitive_desc desc = describe(
      denseA ? denseRows(rows, step.k, a.type()) : a.desc(rows, step.k),
      packedB ? packedB.layout(columns != tileColumns())
              : b.desc(step.k, columns));
  // oneDNN falls back to slow code for unknown layouts.
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
  // Keep bf16 only if oneDNN multiplies it at this depth.
  bool narrow = config.multipliesBF16(step.k) && a.source.type == DType::BF16 &&
                b.source.type == DType::BF16;
  for (MatMulOperand *operand : {&a, &b})
    if (!narrow && operand->source.type != DType::F32)
      operand->widen(sharedSize);
  // Widening small operands is not worth synchronizing threads.
  widensAtOnce = a.widenedElements() + b.widenedElements() <= kWidenBlock;
  if (int64_t slices = widenSlices())
    addPhase(Phase::Widen, widensAtOnce ? 1 : slices);

  // A tile of a wide result goes through scratch: oneDNN stores the tile many
  // times, and rows far apart would compete for few cache lines.
  const DType type = c.operand.type;
  direct = !c.epilogue && step.alpha == 1 && tileColumns() == step.ldc &&
           (type == DType::F32 || (narrow && type == DType::BF16));
  tilesM = (step.m + step.tileM - 1) / step.tileM;
  tilesN = (step.n + step.tileN - 1) / step.tileN;

  // Try packed operands first; if oneDNN rejects them, do without.
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
  // A single tile packs for itself; otherwise packing is a phase before the
  // tiles.
  packsForTile = packsForTile && packedB;
  scratchSize = std::max(scratchSize, packedB.scratchBytes());
  if (packedB && !packsForTile) {
    denseA.reserve(sharedSize);
    packedB.reserve(sharedSize);
    addPhase(Phase::Pack, denseA.slices() + packedB.slices());
  }
  addPhase(Phase::Tiles, countMatrices(step) * tilesM * tilesN);

  // A slice's scratch has its result, its packed operands, and oneDNN's own
  // scratch.
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

/// Packs the operands of product `index`, whose result is a single tile, into
/// the worker's scratch.
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

/// Tiles of one tile column are consecutive, since they share b's panel.
Status OneDNNMatMul::runTile(int64_t tile, const SliceContext &context) {
  const int64_t tileRow = tile % tilesM, tileColumn = tile / tilesM % tilesN;
  int64_t row = tileRow * step.tileM, column = tileColumn * step.tileN;
  int64_t index = tile / (tilesM * tilesN);
  int64_t rows = std::min(step.tileM, step.m - row);
  int64_t columns = std::min(step.tileN, step.n - column);

  auto *accumulators = reinterpret_cast<float *>(context.scratch);
  std::byte *result = direct ? c.at(index, row, column) : context.scratch;

  // Each operand is packed now, was packed in an earlier phase, or is read in
  // place.
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
