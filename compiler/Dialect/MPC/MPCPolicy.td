// The default precision policy of the mpc ops: may an op compute in 16 bits,
// and why. Each op has a policy class, here MPC_SumPolicy, beside its base
// class:
//
//  def MPC_CumSumOp
//      : MPC_TensorOp<"cumsum", "Cumulative">, MPC_SumPolicy<["CumSum"]> {
//
// The policy class adds a function getDefaultPolicy() to the op's C++ class.
// compiler/Precision/Policy/PolicyTable.h collects the policies of all ops in a table.
// Rationale.md explains the principles.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
#define MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD

include "compiler/Interfaces/PrecisionOpInterface.td"

// A trait that adds `declaration` to the C++ class of an op with a policy.
class MPC_PolicyTrait<string name, code declaration>
    : NativeOpTrait<name, [], declaration> {
  let cppNamespace = "::mpc";
}

// Converts a list of operand or result positions to a C++ bit mask: [0, 2] to
// 5u.
class MPC_Positions<list<int> positions> {
  string mask = !foldl(0, positions, sum, i, !or(sum, !shl(1, i))) # "u";
}
defvar MPC_All = !range(32);

// The policy of an op.
//  onnx          ONNX names of the op; a user's policy may use them.
//  fp16, bf16    The op's class if the low type is fp16 or bf16:
//                Allow, Infer, Deny, Clear or Fixed (PrecisionClass.td).
//  why           The reason for the class, in a few words.
//  fp32Operands  Positions of operands that stay fp32 whatever the class.
//  fp32Results   Positions of results that stay fp32 whatever the class.
//  unbounded     True if the range of the result grows with its shape. If an
//                fp16 contraction reads the result, `mpc explain` says that
//                the decision assumes a range.
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

// The policy of an op that follows the class of another op, the leader. A
// gradient follows its forward op, for example. A user's rules for the leader
// apply to the op too. The op has its own positions that stay fp32.
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

// The policy of an op that is a row of Formulas.def, which has the classes.
class MPC_PolicyOfFormula<string mnemonic> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"PolicyTrait", [{
    static ::mpc::OpPolicy getDefaultPolicy() {
      return ::mpc::formulas::getDefaultPolicy("}] # mnemonic # [{");
    }
  }]>];
}

// The policy of a gradient op that serves several forward ops, such as
// mpc.formula_grad. The attribute that `getter` returns names the forward op
// whose policy applies.
class MPC_PolicyOfAttribute<string getter> {
  list<Trait> policy = [PrecisionOpInterface, MPC_PolicyTrait<"SharedPolicyTrait", [{
    ::llvm::StringRef getPolicyKey() { return }] # getter # [{(); }
  }]>];
}

//===----------------------------------------------------------------------===//
// Policies that several ops share
//===----------------------------------------------------------------------===//

// Matrix products and convolutions. They gain most from low types.
class MPC_ProductPolicy<list<string> onnx, list<int> fp32Operands = []>
    : MPC_Policy<onnx, "Allow", "Allow",
                 "products of low operands are exact in fp32 sums", fp32Operands>;

class MPC_RoundingPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Infer", "Infer", "one rounding per element">;

// Ops that are exact in any type: they select, negate or move elements.
class MPC_ExactPolicy<list<string> onnx, list<int> fp32Results = []>
    : MPC_Policy<onnx, "Clear", "Clear", "exact", [], fp32Results>;
class MPC_MovementPolicy<list<string> onnx, list<int> fp32Operands = []>
    : MPC_Policy<onnx, "Clear", "Clear", "moves elements", fp32Operands>;

// Sums of many elements, which may overflow fp16.
class MPC_SumPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Deny", "Infer",
                 "a sum overflows fp16 and loses its small terms",
                 fp32Results = [0], unbounded = true>;

// Ops without float operands and results, for which the Precision stage decides
// nothing.
class MPC_NoFloatsPolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed", "has no floats">;

class MPC_UpdatePolicy<list<string> onnx>
    : MPC_Policy<onnx, "Fixed", "Fixed",
                 "updates are smaller than a low parameter's last digit",
                 MPC_All, MPC_All>;

#endif // MPC_COMPILER_DIALECT_MPC_MPCPOLICY_TD
