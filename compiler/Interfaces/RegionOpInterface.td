// The interface by which an op tells its role in kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD
#define MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD

include "mlir/IR/OpBase.td"

def RegionOpInterface : OpInterface<"RegionOpInterface"> {
  let cppNamespace = "::mpc";
  let description = [{
    An op with a role in kernels. A new op joins fusion by implementing this
    interface; an op without the interface joins no kernel.
  }];
  let methods = [
    StaticInterfaceMethod<"Returns the role of the op in a region.",
                    "::mpc::RegionRole",
                          "getRegionRole", (ins)>,
  ];
}

#endif // MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_TD
