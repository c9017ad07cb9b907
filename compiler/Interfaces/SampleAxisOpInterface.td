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
      Returns the position of the samples in the first result, from the position
      of the `batch` samples in each operand (nullopt for none). A transpose by
      [1, 0] moves samples from axis 0 to axis 1. nullopt if samples are mixed,
      as along the columns of the left operand of a product.
    }], "std::optional<::mpc::SampleAxis>", "followSamples",
                    (ins "::llvm::ArrayRef<std::optional<::mpc::SampleAxis>>":
                             $operands, "int64_t":$batch)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_SAMPLEAXISOPINTERFACE_TD
