// Provides contractions with oneDNN, or with mpc's own routines if those are
// faster. Each slice runs on one thread.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H
#define MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H

#include "runtime/cpu/Contraction.h"

namespace mpc::runtime {

/// Properties of the device that preparing a step depends on.
struct OneDNNConfig {
  int workers = 1;
  bool nativeBF16 = false; ///< the target multiplies bf16 operands
  bool hasAMX = false;     ///< the target has AMX tiles of bf16
  /// For tests on CPUs for which oneDNN has no own layout: packs operands in a
  /// layout of oneDNN's reference implementation.
  bool packsAlways = false;
  /// For tests on CPUs without AMX: computes like AMX, with other instructions.
  bool emulatesAMX = false;

  /// True if oneDNN multiplies bf16 operands of this depth. At a depth of 63,
  /// oneDNN 2.6 configured AMX tiles for 64 and died of an illegal instruction.
  /// oneDNN 3.2 was not tested.
  bool multipliesBF16(int64_t depth) const {
    return nativeBF16 && !(hasAMX && depth == 63);
  }
};

class OneDNNProvider : public ContractionProvider {
public:
  /// Restricts oneDNN to the instructions in `features`. oneDNN accepts only
  /// one limit per process; a Device error if another target came first.
  static StatusOr<std::unique_ptr<ContractionProvider>>
  create(const std::vector<std::string> &features);

  StatusOr<std::unique_ptr<Contraction>> prepare(const MatMulStep &step,
                                                 MatMulOperands operands,
                                                 int workers) override;
  StatusOr<std::unique_ptr<Contraction>>
  prepare(const ConvStep &step, ConvOperands operands, int workers) override;

private:
  explicit OneDNNProvider(OneDNNConfig config) : config(config) {}
  OneDNNConfig configOf(int workers) const {
    OneDNNConfig result = config;
    result.workers = workers;
    return result;
  }
  OneDNNConfig config;
};

// Each function is in a file of its name: prepareAMXConv is in AMXConv.cpp of
// runtime/cpu/amx. OneDNNMatMul.cpp and OneDNNConv.cpp are in this folder.
// DirectConv.cpp, DirectWeightGrad.cpp, PatchProduct.cpp, PlanarWeightGrad.cpp,
// NarrowMatMul.cpp and ShallowMatMul.cpp are in runtime/cpu/conv.
StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNMatMul(const MatMulStep &step, MatMulOperands operands,
                    const OneDNNConfig &config);
/// Prepares products with a small result and a great depth, on a CPU with AMX.
/// For other steps returns null and leaves `operands` unchanged.
std::unique_ptr<Contraction> prepareAMXDepthParts(const MatMulStep &step,
                                                  MatMulOperands &operands,
                                                  const OneDNNConfig &config);
/// Prepares products of bf16, f16 or f32 operands with sides of at least 16, on
/// a CPU with AMX. For other steps returns null and leaves `operands`
/// unchanged.
std::unique_ptr<Contraction> prepareAMXMatMul(const MatMulStep &step,
                                              MatMulOperands &operands,
                                              const OneDNNConfig &config);
/// Prepares convolutions of f16 and f32 images, and their input gradients, on a
/// CPU with AMX. Requires strides of 1 and at least 32 channels. For other
/// steps returns null and leaves `operands` unchanged.
std::unique_ptr<Contraction> prepareAMXConv(const ConvStep &step,
                                            ConvOperands &operands,
                                            const OneDNNConfig &config);
/// Prepares filter gradients of any size. A slice computes some filters along a
/// row of taps. Null for other steps, and if a padded image row is too long.
std::unique_ptr<Contraction>
prepareDirectWeightGrad(const ConvStep &step, const ConvOperands &operands);
/// Prepares filter gradients of images with few channels and filters, if
/// adjacent windows of a row are one pixel apart. Null for other steps, and if
/// oneDNN is as fast.
std::unique_ptr<Contraction>
preparePlanarWeightGrad(const ConvStep &step, const ConvOperands &operands,
                        const OneDNNConfig &config);
/// Prepares convolutions and input gradients. A slice computes some rows of the
/// result. Null for other steps, and if padded rows are too long.
std::unique_ptr<Contraction> prepareDirectConv(const ConvStep &step,
                                               const ConvOperands &operands,
                                               const OneDNNConfig &config);
/// Prepares prepareDirectConv's routine if this routine is faster than any
/// routine of oneDNN; null for other steps.
std::unique_ptr<Contraction>
prepareFasterDirectConv(const ConvStep &step, const ConvOperands &operands,
                        const OneDNNConfig &config);
/// Prepares a product with few columns as a convolution of one tap. For other
/// steps returns null and leaves `operands` unchanged.
std::unique_ptr<Contraction> prepareNarrowMatMul(const MatMulStep &step,
                                                 MatMulOperands &operands,
                                                 const OneDNNConfig &config);
/// True for a single product of dense operands, with a row-major left operand.
bool isDenseProduct(const MatMulStep &step);
/// Prepares a bf16 product of few terms per sum, on a CPU that multiplies bf16.
/// Null for other steps.
std::unique_ptr<Contraction>
prepareShallowMatMul(const MatMulStep &step, const MatMulOperands &operands,
                     const OneDNNConfig &config);
/// Prepares a convolution without groups, or the gradient of its filters, as a
/// product of patches of the image. Null for other steps, and if the patches
/// are too large.
StatusOr<std::unique_ptr<Contraction>>
preparePatchProduct(const ConvStep &step, const ConvOperands &operands,
                    const OneDNNConfig &config);
/// Prepares preparePatchProduct's routine if this routine is faster than
/// oneDNN; null for other steps.
StatusOr<std::unique_ptr<Contraction>>
prepareFasterPatchProduct(const ConvStep &step, const ConvOperands &operands,
                          const OneDNNConfig &config);
/// Prepares any convolution. Uses another routine if oneDNN would loop over
/// single elements, or would leave most lanes of its vectors empty.
StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNConv(const ConvStep &step, ConvOperands operands,
                  const OneDNNConfig &config);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H
