// Chooses oneDNN's instruction set, and the routine for each step.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "runtime/cpu/onednn/ConvShapes.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OperandSums.h"

#include <algorithm>
#include <mutex>
#include <optional>

namespace mpc::runtime {

/// Returns oneDNN's largest instruction set that needs only `features`.
static dnnl::cpu_isa selectISA(const std::vector<std::string> &features) {
  auto has = [&](std::initializer_list<const char *> names) {
    return std::all_of(names.begin(), names.end(), [&](const char *name) {
      return std::find(features.begin(), features.end(), name) !=
             features.end();
    });
  };
  if (!has({"avx2", "fma"}))
    return dnnl::cpu_isa::sse41;
  if (!has({"avx512f", "avx512bw", "avx512vl", "avx512dq"}))
    return dnnl::cpu_isa::avx2;
  if (!has({"avx512bf16"}))
    return dnnl::cpu_isa::avx512_core;
  if (!has({"amx-tile", "amx-bf16"}))
    return dnnl::cpu_isa::avx512_core_bf16;
  return dnnl::cpu_isa::avx512_core_amx;
}

/// Limits oneDNN to the instruction set `isa`. A process can set only one
/// limit.
static Status restrictISA(dnnl::cpu_isa isa) {
  static std::mutex mutex;
  static std::optional<dnnl::cpu_isa> decision;

  std::lock_guard<std::mutex> lock(mutex);
  if (decision == isa)
    return Status();
  if (!decision && dnnl::set_max_cpu_isa(isa) == dnnl::status::success) {
    decision = isa;
    return Status();
  }
  return Status(StatusCode::Device,
                "this process already uses oneDNN with another instruction set "
                "than the artifact's target allows; run one target per "
                "process");
}

StatusOr<std::unique_ptr<ContractionProvider>>
OneDNNProvider::create(const std::vector<std::string> &features) {
  dnnl::cpu_isa isa = selectISA(features);
  if (Status status = restrictISA(isa); !status.ok())
    return status;
  OneDNNConfig config;
  config.hasAMX = isa == dnnl::cpu_isa::avx512_core_amx;
  config.nativeBF16 = isa == dnnl::cpu_isa::avx512_core_bf16 || config.hasAMX;
  return std::unique_ptr<ContractionProvider>(new OneDNNProvider(config));
}

/// True if AMX saves more time than splitting f32 operands into bf16 parts
/// costs. A split element should be multiplied by at least `fewestUses`
/// elements of the other operand. Below this number, oneDNN was as fast in
/// measurements of m x n x k: AMXMatMul with 1024 x 64 x 1024, AMXDepthParts
/// with 64 x 64 x 50176.
static bool gainsByAMX(const MatMulStep &step, const MatMulOperands &operands,
                       int64_t fewestUses) {
  return operands.a.type != DType::F32 ||
         step.m * step.n >= fewestUses * (step.m + step.n);
}

StatusOr<std::unique_ptr<Contraction>>
OneDNNProvider::prepare(const MatMulStep &step, MatMulOperands operands,
                        int workers) {
  constexpr int64_t kFewestUses = 80, kFewestUsesInDepth = 48;
  // AMXMatMul sums an operand in its tiles. All other routines get an
  // additional phase for the sums.
  const OperandSums sums(step, operands);
  if (gainsByAMX(step, operands, kFewestUsesInDepth))
    if (auto parts = prepareAMXDepthParts(step, operands, configOf(workers)))
      return addOperandSums(std::move(parts), sums);
  if (gainsByAMX(step, operands, kFewestUses))
    if (auto product = prepareAMXMatMul(step, operands, configOf(workers)))
      return product;
  if (auto narrow = prepareNarrowMatMul(step, operands, configOf(workers)))
    return addOperandSums(std::move(narrow), sums);
  if (auto shallow = prepareShallowMatMul(step, operands, configOf(workers)))
    return addOperandSums(std::move(shallow), sums);
  auto product =
      prepareOneDNNMatMul(step, std::move(operands), configOf(workers));
  if (!product.ok())
    return product;
  return addOperandSums(std::move(*product), sums);
}

StatusOr<std::unique_ptr<Contraction>>
OneDNNProvider::prepare(const ConvStep &step, ConvOperands operands,
                        int workers) {
  const ConvStep kept = dropUnitAxes(step);
  const OneDNNConfig config = configOf(workers);
  if (auto conv = prepareAMXConv(kept, operands, config))
    return conv;
  if (auto planar = preparePlanarWeightGrad(kept, operands, config))
    return planar;
  if (!hasWholeWindows(kept))
    if (auto direct = prepareDirectWeightGrad(kept, operands))
      return direct;
  if (auto direct = prepareFasterDirectConv(kept, operands, config))
    return direct;
  if (auto product = prepareFasterPatchProduct(kept, operands, config);
      !product.ok() || *product)
    return product;
  return prepareOneDNNConv(kept, std::move(operands), config);
}

} // namespace mpc::runtime
