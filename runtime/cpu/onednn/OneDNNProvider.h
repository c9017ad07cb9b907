// Contractions by oneDNN, or by routines of our own where those are faster, on
// slices, one thread each.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H
#define MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H

#include "runtime/cpu/Contraction.h"

namespace mpc::runtime {

/// What preparing a step needs to know of the device.
struct OneDNNConfig {
  int workers = 1;
  bool nativeBF16 = false; ///< the target multiplies bf16 operands itself
  bool hasAMX = false;     ///< the target has AMX's tiles of bf16
  /// Packs operands in an order of the reference's, for tests on CPUs for which
  /// the library has none of its own.
  bool packsAlways = false;
  /// Multiplies as with AMX, but by other instructions, for tests on CPUs that
  /// have none.
  bool emulatesAMX = false;

  /// Whether the library multiplies bf16 operands of this depth itself. At a
  /// depth of 63, oneDNN 2.6 set AMX's tiles up for 64 and died of an illegal
  /// instruction; 3.2 has not been asked.
  bool multipliesBF16(int64_t depth) const {
    return nativeBF16 && !(hasAMX && depth == 63);
  }
};

class OneDNNProvider : public ContractionProvider {
public:
  /// Restricts the library to the instructions the target's `features` allow.
  /// The library can be told once per process: Device where another target was
  /// first.
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

// One file each: OneDNNMatMul.cpp, AMXDepthParts.cpp, AMXMatMul.cpp,
// AMXConv.cpp, DirectConv.cpp, DirectWeightGrad.cpp and OneDNNConv.cpp.
StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNMatMul(const MatMulStep &step, MatMulOperands operands,
                    const OneDNNConfig &config);
/// Products with a small result and a great depth, on a CPU with AMX; null, and
/// `operands` as they were, for others.
std::unique_ptr<Contraction> prepareAMXDepthParts(const MatMulStep &step,
                                                  MatMulOperands &operands,
                                                  const OneDNNConfig &config);
/// Products of two operands in bf16, f16 or f32 with sides of 16 and more, on a
/// CPU with AMX; null, and `operands` as they were, for others.
std::unique_ptr<Contraction> prepareAMXMatMul(const MatMulStep &step,
                                              MatMulOperands &operands,
                                              const OneDNNConfig &config);
/// Convolutions of f16 and f32 images and gradients of such images, with
/// strides of 1 and 32 channels and more, on a CPU with AMX; null, and
/// `operands` as they were, for others.
std::unique_ptr<Contraction> prepareAMXConv(const ConvStep &step,
                                            ConvOperands &operands,
                                            const OneDNNConfig &config);
/// Gradients of filters of any size, each slice some filters' along a row of
/// taps; null for other steps, and where a row of the image with its padding is
/// too long.
std::unique_ptr<Contraction>
prepareDirectWeightGrad(const ConvStep &step, const ConvOperands &operands);
/// Convolutions and gradients of images, each slice some rows of the result;
/// null for other steps, and where rows with their padding are too long.
std::unique_ptr<Contraction> prepareDirectConv(const ConvStep &step,
                                               const ConvOperands &operands);
/// By another routine where the library has nothing better than loops over
/// single elements.
StatusOr<std::unique_ptr<Contraction>>
prepareOneDNNConv(const ConvStep &step, ConvOperands operands,
                  const OneDNNConfig &config);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_ONEDNNPROVIDER_H
