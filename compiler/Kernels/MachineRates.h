// The rates of a CPU's core, or of a GPU, by which PlanTime.h and the Precision
// stage predict times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_MACHINERATES_H
#define MPC_COMPILER_KERNELS_MACHINERATES_H

#include "compiler/Target/TargetInfo.h"
#include "runtime/Names.h"

namespace mpc {

/// Multiplications and additions per nanosecond, by the type of the operands.
/// `tf32` is the rate of f32 operands that a GPU rounds to tf32.
struct TypeRates {
  double f64, f32, tf32, bf16, f16;

  double get(mlir::Type type) const;
};

/// The rates of a kind of machine: of one core of a CPU, or of a whole GPU.
/// Times are in nanoseconds.
struct MachineRates {
  /// The time for starting a step of a plan, and the further time for calling
  /// the routine of a matrix product or of a convolution.
  double launch, product, convolution;
  /// Bytes per nanosecond, of memory that fits the caches and of other memory.
  double cachedBytes, memoryBytes;
  /// Simple elementwise operations, such as additions, per nanosecond.
  double elements;
  /// Large contractions whose operands are packed.
  TypeRates products, convolutions;
  /// The time for packing an element: of an operand of a product, of an image,
  /// of a filter, and of the gradient of a filter.
  double operand, image, filter, filterGradient;
};

/// Returns the rates of the kind of machine that `target` names.
const MachineRates &getMachineRates(const TargetInfo &target);

/// A matrix product of m x k by k x n operands.
struct ProductSize {
  int64_t m, n, k;
};

/// Returns the nanoseconds for multiplying packed operands of `type`, once. The
/// time is that of the kernel that computes such products on `target`.
double getProductTime(const ProductSize &size, mlir::Type type,
                      const TargetInfo &target);

/// A convolution or one of its gradients. `in` and `out` are channels of a
/// group. `windows` is the number of pixels of the output, times the number of
/// taps of a filter.
struct ConvolutionSize {
  int64_t in, out, groups;
  double windows;
  ConvKind kind;
};

/// Returns the nanoseconds for convolving packed operands of `type`.
double getConvolutionTime(const ConvolutionSize &size, mlir::Type type,
                          const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_MACHINERATES_H
