// Predicts the time of a plan's program on the target of the module.
//
// The prediction orders alternatives, such as the precision modes of a model.
// Times of all steps add up, and a step's time is a sum too: a price for the
// start, bytes of memory, elementwise operations, multiplications of
// contractions, and packing of operands (MachineRates.h). Conversions between
// types cost bytes and operations, and steps that only convert cost a start.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_PLANTIME_H
#define MPC_COMPILER_KERNELS_PLANTIME_H

#include "compiler/Dialect/Plan/Plan.h"

namespace mpc {

/// The nanoseconds of a program by kind of step. A contraction that a generated
/// kernel computes counts as a product or a convolution.
struct PlanTime {
  double kernels = 0, products = 0, convolutions = 0;

  double getTotal() const { return kernels + products + convolutions; }
  PlanTime &operator+=(const PlanTime &other);
  PlanTime operator*(double times) const;
};

/// Counts the elementwise operations of `op`, an op of a kernel: 1 per element
/// for a simple operation such as an addition, 4 for a division, 12 for exp and
/// similar functions. 0 for contractions, constants and views.
double countElementOperations(mlir::Operation *op);

/// Predicts the time of one run of `program` on one core of the CPU, or on the
/// GPU. Conditions count as true.
PlanTime predictTime(plan::ProgramOp program);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_PLANTIME_H
