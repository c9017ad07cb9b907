// The decision record: one attribute per op. All explanations of precision
// print it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMPATTRS_TD
#define MPC_COMPILER_DIALECT_AMP_AMPATTRS_TD

include "compiler/Dialect/AMP/AMP.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class AMP_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mpc::amp";
  let genSpecializedAttr = 0;
}

class AMP_EnumAttr<EnumAttrInfo info, string mnemonic>
    : EnumAttr<AMP_Dialect, info, mnemonic> {
  let assemblyFormat = "`<` $value `>`";
}

// The modes use Lightning's names.
def AMP_PrecisionMode : AMP_Enum<"PrecisionMode", "what precision was decided for", [
  I32EnumAttrCase<"FP32True", 0, "32-true">,
  I32EnumAttrCase<"FP16Mixed", 1, "16-mixed">,
  I32EnumAttrCase<"BF16Mixed", 2, "bf16-mixed">,
  I32EnumAttrCase<"FP64True", 3, "64-true">,
]>;
def AMP_PrecisionModeAttr : AMP_EnumAttr<AMP_PrecisionMode, "mode"> {
  // Quoted, because keywords of the IR cannot begin with a digit.
  let assemblyFormat = "`<` custom<Mode>($value) `>`";
}

def AMP_LossScale : AMP_Enum<"LossScale", "how a loss is scaled", [
  I32EnumAttrCase<"None", 0, "none">,
  // A constant scale.
  I32EnumAttrCase<"Static", 1, "static">,
  // A scale that grows, and shrinks if gradients overflow.
  I32EnumAttrCase<"Dynamic", 2, "dynamic">,
]>;
def AMP_LossScaleAttr : AMP_EnumAttr<AMP_LossScale, "loss_scale">;

// A closed list. A new reason needs a case here, and a sentence in
// describeReason.
def AMP_Reason : AMP_Enum<"Reason", "why an op has its types", [
  // The mode has one float type: 32-true or 64-true.
  I32EnumAttrCase<"Mode", 0, "mode">,
  // The op is on the allow list.
  I32EnumAttrCase<"AllowList", 1, "allow_list">,
  // The op is on the allow list, but multiplies sums of unbounded range.
  I32EnumAttrCase<"AllowListUnbounded", 2, "allow_list_unbounded">,
  // The op is on a path of infer and clear ops between two low ops.
  I32EnumAttrCase<"BetweenLow", 3, "between_low">,
  // The op is exact in any type, and only low ops read the result.
  I32EnumAttrCase<"FollowsNeighbours", 4, "follows_neighbours">,
  // The op could be low, but is not between low ops: a low type would gain
  // nothing.
  I32EnumAttrCase<"NotBetweenLow", 5, "not_between_low">,
  // The op is on the deny list.
  I32EnumAttrCase<"DenyList", 6, "deny_list">,
  // The op reads the result of a denied op, directly or through infer and clear
  // ops.
  I32EnumAttrCase<"AfterDenied", 7, "after_denied">,
  // The op is part of the loss or of its gradient.
  I32EnumAttrCase<"LossRegion", 8, "loss_region">,
  // The op is part of the optimizer, gradient clipping or loss scaling.
  I32EnumAttrCase<"Update", 9, "update">,
  // The op is a conversion in the model.
  I32EnumAttrCase<"ModelCast", 10, "model_cast">,
  // The model stores the value in a type other than fp32.
  I32EnumAttrCase<"ModelType", 11, "model_type">,
  // The op is a constant, which is cast for its users.
  I32EnumAttrCase<"Constant", 12, "constant">,
  // A constant puts values of the op out of the low type's range or precision.
  I32EnumAttrCase<"ConstantRange", 13, "constant_range">,
  // --keep-fp32 names the node.
  I32EnumAttrCase<"KeepFP32", 14, "keep_fp32">,
  // --force-low names the node.
  I32EnumAttrCase<"ForceLow", 15, "force_low">,
  // The op is in no list, and so denied.
  I32EnumAttrCase<"UnknownOp", 16, "unknown_op">,
  // The op combines a low value with a float32 input, parameter or constant, or
  // reads such a result. Rounding could leave nothing of the low value.
  I32EnumAttrCase<"WideOperand", 17, "wide_operand">,
  // Like WideOperand, between low ops, but with values of parameters and
  // constants that make the rounding harmless.
  I32EnumAttrCase<"KnownOperand", 18, "known_operand">,
]>;

def AMP_Evidence : AMP_Enum<"Evidence", "what a decision rests on", [
  // The graph proves the decision: types, constants, shapes.
  I32EnumAttrCase<"Proved", 0, "proved">,
  // Values of a run support the decision.
  I32EnumAttrCase<"Profiled", 1, "profiled">,
  // The list is trusted.
  I32EnumAttrCase<"Assumed", 2, "assumed">,
]>;

def AMP_DecisionAttr : AttrDef<AMP_Dialect, "Decision"> {
  let mnemonic = "decision";
  let summary = "which types an op has and why";
  let description = [{
    The attribute `amp.decision` of every op of the training graph after
    `amp-assign-precision`. Remarks, `mpc explain` and all other views print the
    record and nothing else.

    | parameter | meaning |
    |---|---|
    | `compute` | type of the factors in a contraction, of the arithmetic in other ops |
    | `accumulate` | type of sums |
    | `storage` | type of the stored float results |
    | `class` | the list of the op |
    | `rule` | the row, user rule or flag that decided |
    | `why` | the reason for the rule, in words |
    | `reason` | the reason for the decision, from a closed list |
    | `path` | the nodes that the reason refers to, in order; only the ends of a long path |
    | `evidence` | the evidence for the decision |
    | `native` | true if the target has a fast kernel for `compute` |
    | `casts_in`, `casts_out` | number of operands read through a cast, and of casts of results |
    | `casts_fused` | number of casts, of both kinds, that share a kernel with an op and cost nothing |
    | `cost_low`, `cost_high` | nanoseconds on a nominal machine in either type |
    | `flip` | the flag that would change the decision; absent for a hard constraint |

    ```mlir
    #amp.decision<compute = bf16, accumulate = f32, storage = bf16,
                  class = allow, rule = "default:gemm", why = "exact products",
                  reason = allow_list, path = ["fc1"], evidence = assumed, native = true,
                  casts_in = 2, casts_out = 0, casts_fused = 1, cost_low = 9,
                  cost_high = 30, flip = "--keep-fp32=^fc1$">
    ```
  }];
  let parameters = (ins "::mlir::FloatType":$compute,
                        "::mlir::FloatType":$accumulate,
                        "::mlir::FloatType":$storage,
                        "::mpc::PrecisionClass":$precisionClass,
                        "::mlir::StringAttr":$rule, "::mlir::StringAttr":$why,
                        EnumParameter<AMP_Reason>:$reason,
                        "::mlir::ArrayAttr":$path,
                        EnumParameter<AMP_Evidence>:$evidence,
                        "bool":$native, "int64_t":$castsIn,
                        "int64_t":$castsOut, "int64_t":$castsFused,
                        "int64_t":$costLow, "int64_t":$costHigh,
                        OptionalParameter<"::mlir::StringAttr">:$flip);
  let assemblyFormat = [{
    `<` `compute` `=` $compute `,` `accumulate` `=` $accumulate `,`
        `storage` `=` $storage `,` `class` `=` $precisionClass `,`
        `rule` `=` $rule `,` `why` `=` $why `,` `reason` `=` $reason `,` `path` `=` $path `,`
        `evidence` `=` $evidence `,` `native` `=` $native `,`
        `casts_in` `=` $castsIn `,` `casts_out` `=` $castsOut `,`
        `casts_fused` `=` $castsFused `,` `cost_low` `=` $costLow `,`
        `cost_high` `=` $costHigh (`,` `flip` `=` $flip^)? `>`
  }];
  let extraClassDeclaration = [{
    /// The discardable attribute that holds the record of an op.
    static constexpr ::llvm::StringLiteral attrName = "amp.decision";

    /// Returns the record of `op`, or null.
    static DecisionAttr of(::mlir::Operation *op) {
      return op->getAttrOfType<DecisionAttr>(attrName);
    }

    /// True if the op computes or stores below fp32.
    bool isLow() const {
      return getCompute().getWidth() < 32 || getStorage().getWidth() < 32;
    }

    /// Returns the record with other counts of casts.
    DecisionAttr withCasts(int64_t in, int64_t out, int64_t fused) const;

    /// Returns the record of an op that stores `type` because its users do.
    DecisionAttr withStorage(::mlir::FloatType type) const;
  }];
}

#endif // MPC_COMPILER_DIALECT_AMP_AMPATTRS_TD
