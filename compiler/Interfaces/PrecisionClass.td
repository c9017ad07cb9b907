// The classes of the precision policy. No file of ops may include this file:
// TableGen would define the enumeration again for each dialect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
#define MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD

include "mlir/IR/EnumAttr.td"

def PrecisionClass : I32EnumAttr<"PrecisionClass", "list an op stands on", [
  // Contractions: faster in a low type.
  I32EnumAttrCase<"Allow", 0, "allow">,
  // Low between low neighbours.
  I32EnumAttrCase<"Infer", 1, "infer">,
  // Stays fp32, and so do ops after it up to the next allowed op.
  I32EnumAttrCase<"Deny", 2, "deny">,
  // Exact in any type: takes the type of its neighbours.
  I32EnumAttrCase<"Clear", 3, "clear">,
  // Never changed: optimizers, the model's own casts, types other than fp32.
  I32EnumAttrCase<"Fixed", 4, "fixed">,
]> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

#endif // MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
