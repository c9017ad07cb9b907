// The default precision policy: how each op fares in 16 bits, and why. An op
// has one of these classes beside its base class:
//
//   def MPC_CumSumOp : MPC_TensorOp<"cumsum", "Cumulative">, MPC_SumPolicy<["CumSum"]> {
//
// The class gives the op's C++ class the function getDefaultPolicy().
// compiler/Precision/PolicyTable.h collects the results in a table.
// Rationale.md explains the principles behind the rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
#define MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD

include "compiler/Interfaces/PrecisionOpInterface.td"

// The trait of an op with a policy. `declaration` is C++ for the op's class.
class MPC_PolicyTrait<string name, code declaration>
    : NativeOpTrait<name, [], declaration> {
  let cppNamespace = "::mpc";
}

// Converts positions of operands or results to a bit mask in C++.
class MPC_Positions<list<int> positions> {
  string mask = !foldl(0, positions, sum, i, !or(sum, !shl(1, i))) # "u";
}
defvar MPC_All = !range(32);

// A row of the policy.
//   onnx          ONNX's names of the op, which users may write in a policy.
//   fp16, bf16    The op's class if the low type is fp16 or bf16
//                 (PrecisionClass.td).
//   why           One clause, for explanations.
//   fp32Operands  Positions of operands that stay fp32 in every class.
//   fp32Results   Positions of results that stay fp32 in every class.
//   unbounded     True if the result's range grows with its shape. An fp16
//                 contraction that reads the result rests on an assumption.
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

// The classes of another op, the leader: a gradient follows its forward op. The
// user's rules for the leader apply too. Positions that stay fp32 are the op's
// own.
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

// The policy of a function of Formulas.def; its row has the classes.
class MPC_PolicyOfFormula<string mnemonic> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"PolicyTrait", [{
    static ::mpc::OpPolicy getDefaultPolicy() {
      return ::mpc::formulas::getDefaultPolicy("}] # mnemonic # [{");
    }
  }]>];
}

// The policy of a gradient that serves several ops. The attribute behind
// `getter` names the op whose policy applies.
class MPC_PolicyOfAttribute<string getter> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"SharedPolicyTrait", [{
    ::llvm::StringRef getPolicyKey() { return }] # getter # [{(); }
  }]>];
}

//===----------------------------------------------------------------------===//
// Policies of several ops
//===----------------------------------------------------------------------===//

// Matrix products and convolutions, the reason for low types.
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

// Sums of many elements.
class MPC_SumPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Deny", "Infer",
                 "a sum overflows fp16 and loses its small terms",
                 fp32Results = [0], unbounded = true>;

// Ops on integers and booleans only; there is nothing to decide.
class MPC_NoFloatsPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed", "has no floats">;

class MPC_UpdatePolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed",
                 "updates are smaller than a low parameter's last digit",
                 MPC_All, MPC_All>;

#endif // MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
