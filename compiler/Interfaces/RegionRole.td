// The roles of ops in kernels, and the names of the roles in messages.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONROLE_TD
#define MPC_COMPILER_INTERFACES_REGIONROLE_TD

include "mlir/IR/EnumAttr.td"

def RegionRole : I32EnumAttr<"RegionRole", "what part an op can take in a kernel", [
  // Known at compile time. A splat constant costs nothing: the number becomes
  // part of the code.
  I32EnumAttrCase<"Constant", 0, "constant">,
  // Computes each element of the result from the element's index, and from the
  // operands at this index, broadcast by NumPy's rules.
  I32EnumAttrCase<"Elementwise", 1, "elementwise op">,
  // Sums, means or maxima over axes: the hero of a row or column kernel.
  I32EnumAttrCase<"Reduction", 2, "reduction">,
  // Matrix products and convolutions. Elementwise ops can follow in the same
  // kernel.
  I32EnumAttrCase<"Contraction", 3, "contraction">,
  // Shows the same bytes under another shape (reshape); needs no kernel.
  I32EnumAttrCase<"View", 4, "view">,
  // Moves elements (transpose, concat, slice) without computing.
  I32EnumAttrCase<"Movement", 5, "movement">,
  // Sliding windows.
  I32EnumAttrCase<"Window", 6, "window">,
  // Writes elements at indices that an operand holds.
  I32EnumAttrCase<"Scatter", 7, "scatter">,
  // Computes each element from the elements before it along an axis.
  I32EnumAttrCase<"Cumulative", 8, "cumulative sum">,
  // Has no kernel: the Fusion stage decomposes the op into ops of other roles.
  I32EnumAttrCase<"Composite", 9, "composite op">,
  // Exchanges data with the other ranks of a distributed run. Has no kernel: the
  // runtime does it, as a step of its own.
  I32EnumAttrCase<"Collective", 10, "collective op">,
  // Computed by a library of the target as a whole. Has no kernel: the call is a
  // step of its own.
  I32EnumAttrCase<"Library", 11, "op of a library">,
]> {
  let cppNamespace = "::mpc";
  let genSpecializedAttr = 0;
}

#endif // MPC_COMPILER_INTERFACES_REGIONROLE_TD
