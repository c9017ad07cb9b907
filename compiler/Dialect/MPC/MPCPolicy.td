// The default precision policy: how each op fares in 16 bits, and why. An op has
// one of these classes beside its base class:
//
//   def MPC_CumSumOp : MPC_TensorOp<"cumsum", "Cumulative">, MPC_SumPolicy<["CumSum"]> {
//
// It gives the op's C++ class a function, getDefaultPolicy(), of which
// compiler/Precision/PolicyTable.h makes a table. Rationale.md says what the rows
// have in common.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
#define MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD

include "compiler/Interfaces/PrecisionOpInterface.td"

// The trait of an op with a policy; `declaration` is C++ that its class gets.
class MPC_PolicyTrait<string name, code declaration>
    : NativeOpTrait<name, [], declaration> {
  let cppNamespace = "::mpc";
}

// Positions of operands or results as a mask in C++.
class MPC_Positions<list<int> positions> {
  string mask = !foldl(0, positions, sum, i, !or(sum, !shl(1, i))) # "u";
}
defvar MPC_All = !range(32);

// A row of the policy.
//   onnx          the names that ONNX has for the op, by which users may call it
//   fp16, bf16    its class where the low type is that (PrecisionClass.td)
//   why           one clause, for explanations
//   fp32Operands  positions of operands that stay fp32 whatever the class
//   fp32Results   positions of results that do
//   unbounded     its result's range grows with its shape: an fp16 contraction
//                 that reads it rests on an assumption
class MPC_Policy<list<string> onnx, string fp16, string bf16, string why,
                 list<int> fp32Operands = [], list<int> fp32Results = [],
                 bit unbounded = false> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"PolicyTrait", [{
    static ::mpc::OpPolicy getDefaultPolicy() {
      return {{}] # !interleave(!foreach(name, onnx, "\"" # name # "\""), ", ") # [{},
              ::mpc::PrecisionClass::}] # fp16 # [{,
              ::mpc::PrecisionClass::}] # bf16 # [{,
              "}] # why # [{",
              }] # MPC_Positions<fp32Operands>.mask # [{,
              }] # MPC_Positions<fp32Results>.mask # [{,
              }] # !if(unbounded, "true", "false") # [{};
    }
  }]>];
}

// An op of its leader's classes: a gradient of its forward op's. Rules of the
// user's about the leader hold for it too; what stays fp32 is its own.
class MPC_PolicyOf<MPC_Policy leader, list<int> fp32Operands = [],
                   list<int> fp32Results = []> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"PolicyTrait", [{
    static ::mpc::FollowedPolicy getDefaultPolicy() {
      return {"}] # !cast<Op>(leader).opName # [{",
              }] # MPC_Positions<fp32Operands>.mask # [{,
              }] # MPC_Positions<fp32Results>.mask # [{};
    }
  }]>];
}

// A function of Formulas.def, whose row says its classes.
class MPC_PolicyOfFormula<string mnemonic> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"PolicyTrait", [{
    static ::mpc::OpPolicy getDefaultPolicy() {
      return ::mpc::formulas::getDefaultPolicy("}] # mnemonic # [{");
    }
  }]>];
}

// A gradient of any of several ops: the policy is that of the op which an
// attribute names.
class MPC_PolicyOfAttribute<string getter> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"SharedPolicyTrait", [{
    ::llvm::StringRef getPolicyKey() { return }] # getter # [{(); }
  }]>];
}

//===----------------------------------------------------------------------===//
// Policies of several ops
//===----------------------------------------------------------------------===//

// What low types are for.
class MPC_ProductPolicy<list<string> onnx, list<int> fp32Operands = []>
    : MPC_Policy<onnx, "Allow", "Allow",
                 "products of low operands are exact in fp32 sums", fp32Operands>;

class MPC_RoundingPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Infer", "Infer", "one rounding per element">;

// Exact in any type: selection, sign changes, movement.
class MPC_ExactPolicy<list<string> onnx, list<int> fp32Results = []>
    : MPC_Policy<onnx, "Clear", "Clear", "exact", [], fp32Results>;
class MPC_MovementPolicy<list<string> onnx, list<int> fp32Operands = []>
    : MPC_Policy<onnx, "Clear", "Clear", "moves elements", fp32Operands>;

// Of many elements.
class MPC_SumPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Deny", "Infer",
                 "a sum overflows fp16 and loses its small terms",
                 fp32Results = [0], unbounded = true>;

// Of integers and booleans alone: nothing is decided about them.
class MPC_NoFloatsPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed", "has no floats">;

class MPC_UpdatePolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed",
                 "updates are smaller than a low parameter's last digit",
                 MPC_All, MPC_All>;

#endif // MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
