// How an op can share a kernel with its neighbours.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def RegionOpInterface : OpInterface<"RegionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    RegionAnalysis asks this and nothing else about an op, so a new op joins
    fusion by answering it.
  }];
  let methods = [
    StaticInterfaceMethod<"The op's part in a region.", "::mpc::RegionRole",
                          "getRegionRole", (ins)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD
