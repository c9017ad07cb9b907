// The decision record: one attribute per op, printed by everything that
// explains precision.
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

// Lightning's words.
def AMP_PrecisionMode : AMP_Enum<"PrecisionMode", "what precision was decided for", [
  I32EnumAttrCase<"FP32True", 0, "32-true">,
  I32EnumAttrCase<"FP16Mixed", 1, "16-mixed">,
  I32EnumAttrCase<"BF16Mixed", 2, "bf16-mixed">,
  I32EnumAttrCase<"FP64True", 3, "64-true">,
]>;
def AMP_PrecisionModeAttr : AMP_EnumAttr<AMP_PrecisionMode, "mode"> {
  // In quotes, since a word of the IR begins with a letter.
  let assemblyFormat = "`<` custom<Mode>($value) `>`";
}

def AMP_LossScale : AMP_Enum<"LossScale", "how a loss is scaled", [
  I32EnumAttrCase<"None", 0, "none">,
  // By one number.
  I32EnumAttrCase<"Static", 1, "static">,
  // By a number that grows, and shrinks where gradients overflow.
  I32EnumAttrCase<"Dynamic", 2, "dynamic">,
]>;
def AMP_LossScaleAttr : AMP_EnumAttr<AMP_LossScale, "loss_scale">;

// Closed and documented: a new code is a new case here with its sentence.
def AMP_Reason : AMP_Enum<"Reason", "why an op has its types", [
  // The mode has one float type: 32-true, 64-true.
  I32EnumAttrCase<"Mode", 0, "mode">,
  // On the allow list.
  I32EnumAttrCase<"AllowList", 1, "allow_list">,
  // On the allow list, though it multiplies sums, whose range is unbounded.
  I32EnumAttrCase<"AllowListUnbounded", 2, "allow_list_unbounded">,
  // On a path between two low ops, through infer and clear ops only.
  I32EnumAttrCase<"BetweenLow", 3, "between_low">,
  // Exact in any type, and all its neighbours on one side are low.
  I32EnumAttrCase<"FollowsNeighbours", 4, "follows_neighbours">,
  // Could go low, but is not between low ops: a cast would gain nothing.
  I32EnumAttrCase<"NotBetweenLow", 5, "not_between_low">,
  // On the deny list.
  I32EnumAttrCase<"DenyList", 6, "deny_list">,
  // Reads the result of a denied op, through infer and clear ops only.
  I32EnumAttrCase<"AfterDenied", 7, "after_denied">,
  // Part of the loss or of its gradient.
  I32EnumAttrCase<"LossRegion", 8, "loss_region">,
  // Optimizer, gradient clipping or loss-scale arithmetic.
  I32EnumAttrCase<"Update", 9, "update">,
  // A conversion the model itself asks for.
  I32EnumAttrCase<"ModelCast", 10, "model_cast">,
  // The model stores the value in a type other than fp32.
  I32EnumAttrCase<"ModelType", 11, "model_type">,
  // A constant: it is cast where it is read.
  I32EnumAttrCase<"Constant", 12, "constant">,
  // A constant operand does not fit the low type.
  I32EnumAttrCase<"ConstantRange", 13, "constant_range">,
  // --keep-fp32 names the node.
  I32EnumAttrCase<"KeepFP32", 14, "keep_fp32">,
  // --force-low names the node.
  I32EnumAttrCase<"ForceLow", 15, "force_low">,
  // In no list: denied.
  I32EnumAttrCase<"UnknownOp", 16, "unknown_op">,
  // Combines what may be low with a float32 input, parameter or constant, or
  // reads such a sum: rounded, it may keep nothing of the former.
  I32EnumAttrCase<"WideOperand", 17, "wide_operand">,
  // The same between low ops, where the values that parameters and constants
  // have when the model is compiled make the rounding harmless.
  I32EnumAttrCase<"KnownOperand", 18, "known_operand">,
]>;

def AMP_Evidence : AMP_Enum<"Evidence", "what a decision rests on", [
  // Follows from the graph: types, constants, shapes.
  I32EnumAttrCase<"Proved", 0, "proved">,
  // From values seen in a run.
  I32EnumAttrCase<"Profiled", 1, "profiled">,
  // The list's word.
  I32EnumAttrCase<"Assumed", 2, "assumed">,
]>;

def AMP_DecisionAttr : AttrDef<AMP_Dialect, "Decision"> {
  let mnemonic = "decision";
  let summary = "which types an op has and why";
  let description = [{
    Stands on every op of the training graph as `amp.decision` once
    `amp-assign-precision` has run. Remarks, `mpc explain` and all other views
    print it and nothing else.

    | parameter | meaning |
    |---|---|
    | `compute` | type of what is multiplied in a contraction, of the arithmetic otherwise |
    | `accumulate` | type sums are formed in |
    | `storage` | type the float results are stored in |
    | `class` | the list the op stands on |
    | `rule` | the row, user rule or flag that decided |
    | `why` | that rule's reason, in words |
    | `reason` | how it came to apply, from a closed list |
    | `path` | the chain of nodes the reason speaks of; of a long one the ends |
    | `evidence` | what the decision rests on |
    | `native` | whether the target has a fast kernel for `compute` |
    | `casts_in`, `casts_out` | operands read through a cast, casts of results |
    | `casts_fused` | how many of those share a kernel with an op, and cost nothing |
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
    /// The discardable attribute the record stands under on an op.
    static constexpr ::llvm::StringLiteral attrName = "amp.decision";

    /// The record of `op`, or null.
    static DecisionAttr of(::mlir::Operation *op) {
      return op->getAttrOfType<DecisionAttr>(attrName);
    }

    /// Whether anything about the op is below fp32.
    bool isLow() const {
      return getCompute().getWidth() < 32 || getStorage().getWidth() < 32;
    }

    /// The record with other counts of casts.
    DecisionAttr withCasts(int64_t in, int64_t out, int64_t fused) const;

    /// The record of an op that now stores `type` because its readers do.
    DecisionAttr withStorage(::mlir::FloatType type) const;
  }];
}

#endif // MPC_COMPILER_DIALECT_AMP_AMPATTRS_TD
