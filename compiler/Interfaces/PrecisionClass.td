// The classes of the precision policy (compiler/Precision). Files of ops must
// not include this file: TableGen would define the enumeration again for each
// dialect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
#define MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD

include "mlir/IR/EnumAttr.td"

def PrecisionClass : I32EnumAttr<"PrecisionClass", "list an op stands on", [
  // Low: contractions, which a low type makes faster.
  I32EnumAttrCase<"Allow", 0, "allow">,
  // Low if the op lies between low ops, otherwise fp32.
  I32EnumAttrCase<"Infer", 1, "infer">,
  // Stays fp32, and so do the users of the result, up to the next allowed op.
  I32EnumAttrCase<"Deny", 2, "deny">,
  // Exact in any type, such as a transpose: takes the type of the neighbours.
  I32EnumAttrCase<"Clear", 3, "clear">,
  // Never changed by policy: optimizers, casts that the model itself has, types
  // other than fp32.
  I32EnumAttrCase<"Fixed", 4, "fixed">,
]> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

#endif // MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
