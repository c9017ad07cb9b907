// Defines the decision record: an attribute on each op that holds the types
// chosen for the op, and the reasons. `mpc explain`, remarks and all other
// views print this record.
//
// The class of an op in the precision policy, as the comments use the words:
// allow (faster in a low type), infer (low between low ops), clear (exact in
// any type), deny (stays fp32). A low type is fp16 or bf16.
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

// The precision modes, named as in PyTorch Lightning.
def AMP_PrecisionMode : AMP_Enum<"PrecisionMode", "what precision was decided for", [
  I32EnumAttrCase<"FP32True", 0, "32-true">,
  I32EnumAttrCase<"FP16Mixed", 1, "16-mixed">,
  I32EnumAttrCase<"BF16Mixed", 2, "bf16-mixed">,
  I32EnumAttrCase<"FP64True", 3, "64-true">,
]>;
def AMP_PrecisionModeAttr : AMP_EnumAttr<AMP_PrecisionMode, "mode"> {
  // The IR prints a mode as a quoted string, such as "16-mixed", because a
  // keyword of the IR cannot begin with a digit.
  let assemblyFormat = "`<` custom<Mode>($value) `>`";
}

def AMP_LossScale : AMP_Enum<"LossScale", "how a loss is scaled", [
  I32EnumAttrCase<"None", 0, "none">,
  // A constant scale.
  I32EnumAttrCase<"Static", 1, "static">,
  // A loss scale that grows over time, and shrinks if gradients overflow.
  I32EnumAttrCase<"Dynamic", 2, "dynamic">,
]>;
def AMP_LossScaleAttr : AMP_EnumAttr<AMP_LossScale, "loss_scale">;

// All possible reasons for the types of an op. A new reason needs a case here,
// and a sentence in describeReason (compiler/Precision/DecisionText.cpp).
def AMP_Reason : AMP_Enum<"Reason", "why an op has its types", [
  // The mode has one float type: 32-true or 64-true.
  I32EnumAttrCase<"Mode", 0, "mode">,
  // The op is on the allow list.
  I32EnumAttrCase<"AllowList", 1, "allow_list">,
  // The op is on the allow list, so it is low. Its operand is a sum whose range
  // grows with the shape, so fp16 might overflow.
  I32EnumAttrCase<"AllowListUnbounded", 2, "allow_list_unbounded">,
  // The op lies on a path from one low op to another, and all ops on the path
  // have the class infer or clear.
  I32EnumAttrCase<"BetweenLow", 3, "between_low">,
  // The op is exact in any type, and only low ops read the result.
  I32EnumAttrCase<"FollowsNeighbours", 4, "follows_neighbours">,
  // The op may be low, but does not lie between low ops, so a low type would
  // gain nothing.
  I32EnumAttrCase<"NotBetweenLow", 5, "not_between_low">,
  // The op is on the deny list.
  I32EnumAttrCase<"DenyList", 6, "deny_list">,
  // The op reads the result of a denied op, directly or through ops of the
  // classes infer and clear.
  I32EnumAttrCase<"AfterDenied", 7, "after_denied">,
  // The op is part of the loss or of its gradient.
  I32EnumAttrCase<"LossRegion", 8, "loss_region">,
  // The op is part of the optimizer, gradient clipping or loss scaling.
  I32EnumAttrCase<"Update", 9, "update">,
  // The op is a type conversion that the model itself contains.
  I32EnumAttrCase<"ModelCast", 10, "model_cast">,
  // The model stores the value in a type other than fp32.
  I32EnumAttrCase<"ModelType", 11, "model_type">,
  // The op is a constant. It stays as it is; casts convert it for its users.
  I32EnumAttrCase<"Constant", 12, "constant">,
  // A constant operand moves the op's values out of the range or the precision
  // of the low type.
  I32EnumAttrCase<"ConstantRange", 13, "constant_range">,
  // --keep-fp32 names the node.
  I32EnumAttrCase<"KeepFP32", 14, "keep_fp32">,
  // --force-low names the node.
  I32EnumAttrCase<"ForceLow", 15, "force_low">,
  // No list has the op, so the op is treated as denied.
  I32EnumAttrCase<"UnknownOp", 16, "unknown_op">,
  // The op combines a low value with a float32 input, parameter or constant,
  // which may be much larger: rounding a sum of both could erase the low value.
  // Also the reason for ops that read such a result.
  I32EnumAttrCase<"WideOperand", 17, "wide_operand">,
  // The op combines a low value with a float32 input, parameter or constant of
  // similar size, so rounding does no harm. The op lies between low ops.
  I32EnumAttrCase<"KnownOperand", 18, "known_operand">,
  // --tf32 lets a GPU round the operands of the float32 product.
  I32EnumAttrCase<"TF32", 19, "tf32">,
]>;

def AMP_Evidence : AMP_Enum<"Evidence", "what a decision rests on", [
  // Types, constants and shapes in the graph prove the decision, whatever the
  // data is.
  I32EnumAttrCase<"Proved", 0, "proved">,
  // Values measured in a run support the decision.
  I32EnumAttrCase<"Profiled", 1, "profiled">,
  // The decision rests on the class that the policy gives to the op, or on an
  // assumption about values, such as data of order 1.
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
    | `operands` | for each float operand, the type in which the op reads it; `any` if the op reads whatever type is stored |
    | `results` | for each float result, the type in which the op stores it |
    | `compute` | type of the factors in a contraction, of the arithmetic in other ops. In tf32, a contraction reads fp32 operands and rounds them |
    | `model` | the float types of the op in the model; absent if all are fp32 |
    | `class` | the list of the op |
    | `rule` | the row, user rule or flag that decided |
    | `why` | the reason for the rule, in words |
    | `reason` | the reason for the decision, from a closed list |
    | `path` | the nodes that the reason refers to, in order; only the ends of a long path |
    | `sources` | the numbers that decided, and where they come from; absent if none did |
    | `evidence` | the evidence for the decision |
    | `flip` | the flag that would change the decision; absent for a hard constraint |

    Sums have the type fp64 if `compute` is fp64, otherwise fp32. An op that
    moves elements reads the type that it stores, even if its operands are
    `any`: then a later pass may cast before the movement instead of behind.

    A source is a dictionary. `kind` is constant, parameter, input, value (the
    result of an op) or outer (from outside of a loop). `name` names the node,
    parameter or input. `value` is a number that a constant leads to. `rms` and
    `largest` are the root mean square and the largest element of a value, and
    `in_data` says that both were measured in data.

    ```mlir
    #amp.decision<operands = [bf16, bf16, f32], results = [f32], compute = bf16,
                  class = allow, rule = "default:gemm", why = "exact products",
                  reason = allow_list, path = ["fc1"], evidence = assumed,
                  flip = "--keep-fp32=^fc1$">
    ```
  }];
  let genVerifyDecl = 1;
  // `any` is mlir::NoneType, since MLIR's replacement of types in attributes
  // cannot handle an array with null types.
  let parameters = (ins ArrayRefParameter<"::mlir::Type">:$operands,
                        ArrayRefParameter<"::mlir::Type">:$results,
                        "::mlir::FloatType":$compute,
                        "::mpc::PrecisionClass":$precisionClass,
                        "::mlir::StringAttr":$rule, "::mlir::StringAttr":$why,
                        EnumParameter<AMP_Reason>:$reason,
                        "::mlir::ArrayAttr":$path,
                        EnumParameter<AMP_Evidence>:$evidence,
                        OptionalParameter<"::mlir::ArrayAttr">:$sources,
                        OptionalParameter<"::mlir::StringAttr">:$flip,
                        OptionalParameter<"::mlir::ArrayAttr">:$model);
  let assemblyFormat = [{
    `<` `operands` `=` custom<Types>($operands) `,`
        `results` `=` custom<Types>($results) `,`
        `compute` `=` $compute `,` (`model` `=` $model^ `,`)?
        `class` `=` $precisionClass `,`
        `rule` `=` $rule `,` `why` `=` $why `,` `reason` `=` $reason `,`
        `path` `=` $path `,` (`sources` `=` $sources^ `,`)?
        `evidence` `=` $evidence (`,` `flip` `=` $flip^)? `>`
  }];
  let extraClassDeclaration = [{
    /// The discardable attribute of an op that holds the op's decision record.
    static constexpr ::llvm::StringLiteral attrName = "amp.decision";

    /// Returns the decision record of `op`; null if the op has none.
    static DecisionAttr of(::mlir::Operation *op) {
      return op->getAttrOfType<DecisionAttr>(attrName);
    }

    /// True if the record has one type for each float operand and each float
    /// result of `op`.
    bool fits(::mlir::Operation *op) const;

    /// Calls `visit` for each float operand of `op`, with the recorded type:
    /// null if the op reads any type. The record must fit `op`.
    void forEachOperand(
        ::mlir::Operation *op,
        ::llvm::function_ref<void(::mlir::OpOperand &, ::mlir::FloatType)>
            visit) const;

    /// Calls `visit` for each float result of `op`, with the recorded type. The
    /// record must fit `op`.
    void forEachResult(
        ::mlir::Operation *op,
        ::llvm::function_ref<void(::mlir::OpResult, ::mlir::FloatType)> visit)
        const;

    /// Returns the type of the op's sums: fp64 or fp32.
    ::mlir::FloatType getAccumulate() const;

    /// Returns the type to show for the float results: the first that is low,
    /// or else the first. For an op without float results, the type of the
    /// float operands.
    ::mlir::FloatType getStorage() const;

    /// True if the op computes in, or stores, a type of fewer than 32 bits.
    bool isLow() const;

    /// True if the decision puts a float32 value of the model into a lower
    /// type. Values that have 16 bits in the model do not count.
    bool isLowered() const { return isLow() && !getModel(); }

    /// Returns a copy of this record with other types of operands and results.
    DecisionAttr withTypes(::llvm::ArrayRef<::mlir::Type> operands,
                           ::llvm::ArrayRef<::mlir::Type> results) const;

    /// Returns a copy of this record for an op that stores its only float
    /// result as `type`, because the users of the op read this type.
    DecisionAttr withResult(::mlir::FloatType type) const;
  }];
}

#endif // MPC_COMPILER_DIALECT_AMP_AMPATTRS_TD
