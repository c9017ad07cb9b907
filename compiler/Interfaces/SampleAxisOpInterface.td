// The interface of ops through which the samples of a batch can be followed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def SampleAxisOpInterface : OpInterface<"SampleAxisOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op that maps the position of samples in its operands to its result.
    Elementwise ops need no implementation: positions stay. `followSamples` of
    SampleAxisOpInterface.h answers for every op.
  }];
  let methods = [
    InterfaceMethod<[{
      Where the samples are in the first result, given where each operand has
      its `batch` samples, or that it has none: transposed by [1, 0], those of
      axis 0 are on axis 1. Nothing where samples are mixed, as the columns of a
      product's left operand are.
    }], "std::optional<::mpc::SampleAxis>", "followSamples",
                    (ins "::llvm::ArrayRef<std::optional<::mpc::SampleAxis>>":
                             $operands, "int64_t":$batch)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_TD
