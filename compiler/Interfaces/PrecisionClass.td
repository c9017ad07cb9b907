// The lists of the precision policy. An enumeration in a file of its own, which
// no file of ops includes: TableGen would define it once more for each dialect.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
#define MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD

include "mlir/IR/EnumAttr.td"

def PrecisionClass : I32EnumAttr<"PrecisionClass", "list an op stands on", [
  // Gains from a low type: contractions.
  I32EnumAttrCase<"Allow", 0, "allow">,
  // Goes low between low neighbours.
  I32EnumAttrCase<"Infer", 1, "infer">,
  // Keeps fp32, and what follows up to the next allowed op with it.
  I32EnumAttrCase<"Deny", 2, "deny">,
  // Exact in any type: takes that of its neighbours.
  I32EnumAttrCase<"Clear", 3, "clear">,
  // Never touched: optimizers, the model's own casts, types other than fp32.
  I32EnumAttrCase<"Fixed", 4, "fixed">,
]> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

#endif // MPC_COMPILER_INTERFACES_PRECISIONCLASS_TD
