// Inserts a transpose of the filters before generated convolutions.
//
// Filters in ONNX are (out, in, taps), so neither the input nor the output
// channels are adjacent. The transpose moves each filter once per step; the
// convolution reads each filter once per pixel.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ContractionTable.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc {
#define GEN_PASS_DEF_PACKFILTERSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

using Perm = SmallVector<int64_t>;

namespace {
/// The filter operand of a convolution, and the permutation that moves the
/// channels that the convolution writes to the innermost axis.
struct Filters {
  OpOperand *operand = nullptr;
  Perm perm;
};

struct PackFiltersPass : mpc::impl::PackFiltersPassBase<PackFiltersPass> {
  using PackFiltersPassBase::PackFiltersPassBase;
  void runOnOperation() override;
};
} // namespace

// Returns the permutation that packs filters of axes (out, in, taps). The
// forward pass writes output channels, so the packed order is (taps, in, out).
// The input gradient writes input channels, so the order is (out, taps, in).
static Perm packedOrder(int64_t rank, bool isForward) {
  Perm perm;
  if (!isForward)
    perm.push_back(0);
  llvm::append_range(perm, llvm::seq<int64_t>(2, rank));
  perm.push_back(1);
  if (isForward)
    perm.push_back(0);
  return perm;
}

template <typename OpTy>
static std::optional<Filters> findFilters(OpTy op) {
  constexpr bool isForward = std::is_same_v<OpTy, ConvOp>;
  OpOperand &operand = op.getWeightMutable();
  RankedTensorType type = typeOf(operand.get());
  int64_t written = isForward ? type.getDimSize(0) / int64_t(op.getGroup())
                              : type.getDimSize(1);
  if (op.getLayout() != Layout::NHWC || written == 1 ||
      !isa<BlockArgument>(operand.get()) || !operand.get().hasOneUse())
    return std::nullopt;
  return Filters{&operand, packedOrder(type.getRank(), isForward)};
}

static std::optional<Filters> findFilters(RegionOp region) {
  if (region.getProvider() != ContractionProvider::Generated)
    return std::nullopt;
  for (Operation &op : region.getBody().front()) {
    if (auto conv = dyn_cast<ConvOp>(op))
      return findFilters(conv);
    if (auto conv = dyn_cast<ConvInputGradOp>(op))
      return findFilters(conv);
  }
  return std::nullopt;
}

// Creates the region that transposes `filters` to type `packed`.
static RegionOp createPacking(OpBuilder &builder, RegionOp of, Value filters,
                              RankedTensorType packed, const Perm &perm) {
  auto region = RegionOp::create(builder, of.getLoc(), TypeRange(packed),
                                 KernelKind::Movement, ValueRange(filters));
  region.setKernel((*of.getKernel() + "_filters").str());
  copyPhase(of, region);
  Block *body = builder.createBlock(&region.getBody(), {}, filters.getType(),
                                    of.getLoc());
  Value transposed = TransposeOp::create(builder, of.getLoc(), packed,
                                         body->getArgument(0), perm);
  YieldOp::create(builder, of.getLoc(), transposed);
  return region;
}

static void pack(RegionOp region, const Filters &filters) {
  auto argument = cast<BlockArgument>(filters.operand->get());
  OpOperand &input = region->getOpOperand(argument.getArgNumber());
  RankedTensorType type = typeOf(argument);
  auto packed = type.clone(llvm::map_to_vector(
      filters.perm, [&](int64_t axis) { return type.getDimSize(axis); }));
  Perm inverse(filters.perm.size());
  for (auto [axis, from] : llvm::enumerate(filters.perm))
    inverse[from] = axis;

  OpBuilder builder(region);
  input.set(createPacking(builder, region, input.get(), packed, filters.perm)
                .getResult(0));
  argument.setType(packed);
  builder.setInsertionPoint(filters.operand->getOwner());
  filters.operand->set(
      TransposeOp::create(builder, region.getLoc(), type, argument, inverse));
}

void PackFiltersPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  if (takesInputChannelsLast(target))
    return;
  SmallVector<std::pair<RegionOp, Filters>> found;
  getOperation().walk([&](RegionOp region) {
    if (std::optional<Filters> filters = findFilters(region))
      found.emplace_back(region, *filters);
  });
  for (auto &[region, filters] : found)
    pack(region, filters);
}
