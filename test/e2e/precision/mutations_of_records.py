"""Mutations of decision records, of the request, and of what both say.

SPDX-License-Identifier: Apache-2.0
"""

from mutations import BOTH, BRAIN, HALF, mutation


def find_low(m, name=None, function=None):
    return m.ops(name, function, where=lambda op: m.peek(op).is_low(m.low))


# Fields of records


@mutation("resnet|bert", "recorded as infer, but policy says deny")
def class_of_a_denied_op(m):
    m.record(m.recorded(kind="deny")[0])["class"] = "infer"


@mutation("resnet", "recorded as allow, but policy says infer")
def class_of_an_inferred_op(m):
    m.record(m.op("mpc.batch_norm"))["class"] = "allow"


@mutation("bert", "recorded by the rule 'default:conv', but 'default:gelu' decides")
def rule_of_another_op(m):
    m.record(m.op("mpc.gelu"))["rule"] = '"default:conv"'


@mutation("mlp", "recorded for the reason not_between_low, but the reason is update")
def reason_of_the_update(m):
    m.record(m.op("mpc.sub", "update"))["reason"] = "not_between_low"


@mutation("bert|resnet", "for the reason between_low, but the reason is loss_region")
def reason_of_the_loss(m):
    m.record(m.op("mpc.softmax_cross_entropy_loss"))["reason"] = "between_low"


@mutation("bert", "for the reason not_between_low, but the reason is deny_list", HALF)
def reason_of_a_denied_op(m):
    m.record(m.op("mpc.layer_norm"))["reason"] = "not_between_low"


@mutation("pairs", "not_between_low, but the reason is constant_range", HALF)
def reason_of_a_range(m):
    op = m.recorded(reason="constant_range")[0]
    m.record(op)["reason"] = "not_between_low"


@mutation("resnet", "recorded for the reason loss_region, which does not hold")
def invented_reason(m):
    for op in m.namesakes(m.recorded(reason="not_between_low")[0]):
        m.record(op)["reason"] = "loss_region"


@mutation("resnet|bert", "in a mode that lowers to")
def low_type_of_another_mode(m):
    other = "bf16" if m.low == "f16" else "f16"
    op = m.op("mpc.relu mpc.gelu")
    m.store(op, other)
    m.record(op).store(other)


@mutation("resnet bert lstm", "expected to multiply 'f32' as decided")
def products_in_another_type(m):
    m.record(find_low(m, "mpc.conv mpc.gemm mpc.matmul")[0]).multiply("f32")


@mutation("resnet bert", "expected arithmetic in fp32 at least")
def arithmetic_in_the_low_type(m):
    op = find_low(m, "mpc.add mpc.mul mpc.relu mpc.sigmoid mpc.tanh")[0]
    m.record(op)["compute"] = m.low


@mutation("bert", "in the model, but no operand has this type there")
def model_type_as_an_excuse(m):
    op = m.op("mpc.layer_norm")
    m.lower(op)
    for each in m.namesakes(op):
        m.record(each).claim_model(m.low)


@mutation("bert lstm|resnet mlp", "expected an amp.decision, found none")
def no_record(m):
    del find_low(m)[0].attributes["amp.decision"]


@mutation("resnet", "expected result 0 in 'b?f16' as decided, found 'f32'")
def recorded_as_low_but_wide(m):
    m.record(m.op("mpc.div")).store(m.low)


@mutation("mlp", "expected result 0 in 'f32' as decided, found 'b?f16'")
def low_but_recorded_as_wide(m):
    m.store(m.op("mpc.div"), m.low)


# Kept ops in the low type, with records that agree


@mutation("bert", "is of class deny, but decided as low", HALF)
def denied_op_low(m):
    m.lower(m.op("mpc.layer_norm"))


@mutation("bert", "recorded as infer, but policy says deny", HALF)
def denied_op_low_as_another_class(m):
    m.lower(m.op("mpc.layer_norm"), kind="infer", reason="between_low")


@mutation("lstm", "must be kept in fp32 .loss_region., but is decided as low")
def op_of_the_loss_low(m):
    op = m.op("mpc.reshape", where=lambda op: m.peek(op)["reason"] == "loss_region")
    for each in m.namesakes(op):
        m.read_low(each, 0)
    m.lower(op, reason="between_low")


@mutation("pairs", "must be kept in fp32 .loss_region., but is decided as low")
def gradient_of_the_loss_low(m):
    ops = m.recorded("step", reason="loss_region")
    op = next(op for op in ops if "backward" in op.phase and len(op.results) == 1)
    m.lower(op, reason="between_low")


@mutation("pairs", "constant_range., but is decided as low|close to a constant", HALF)
def op_out_of_range_low(m):
    ops = m.recorded("step", reason="constant_range")
    m.lower(next(op for op in ops if len(op.results) == 1), reason="between_low")


@mutation("pairs", "must be kept in fp32 .wide_operand., but is decided as low", HALF)
def op_with_a_wide_operand_low(m):
    ops = m.recorded("step", reason="wide_operand", kind="infer")
    m.lower(next(op for op in ops if not op.phase), reason="between_low")


@mutation("mlp", "must be kept in fp32 .update., but is decided as low")
def average_of_weights_low(m):
    m.lower(m.op("mpc.sub", "update"))


@mutation("mlp", "must be kept in fp32 .update., but is decided as low")
def mean_of_gradients_low(m):
    m.lower(m.op("mpc.div", "update"))


@mutation("mlp", "must be kept in fp32 .update., but is decided as low")
def accumulated_sum_low(m):
    m.lower(m.op("mpc.add", "accumulate"), reason="between_low")


@mutation("kept", "must be kept in fp32 .keep_fp32., but is decided as low")
def op_named_by_keep_fp32_low(m):
    m.lower(m.recorded(reason="keep_fp32")[0], reason="between_low")


UNREAD = "rounds a sum to 'b?f16' that no low op reads"


@mutation("bert|lstm", UNREAD)
def bias_gradient_low(m):
    m.lower(m.op("mpc.sum_to_size", "step"), reason="between_low")


@mutation("resnet|bert", UNREAD)
def weight_gradient_low(m):
    m.lower(m.op("mpc.gemm", where=lambda op: m.get_node(op).endswith("#dw")))


@mutation("resnet|bert", UNREAD)
def logits_low(m):
    loss = m.op("mpc.softmax_cross_entropy_loss", "step")
    op = m.define(loss.operands[0], "step")
    while "mpc.gemm" not in op.name:
        op = m.define(op.operands[0], "step")
    m.lower(op)


# Flags and modes


@mutation("resnet", "must be kept in fp32 .keep_fp32.")
def flag_added_to_the_request(m):
    m.sub(r"(amp.request = #amp.request<[^,>]*)", r'\1, keep_fp32 = ["^stem.relu$"]')


@mutation("kept", "recorded by the rule '--keep-fp32=.*', but 'default:relu' decides")
def flag_dropped_from_the_request(m):
    m.sub(r", keep_fp32 = \[.*?\]", "")


@mutation("bert", "but '(preset|default):.*' decides")
def policy_of_the_request(m):
    m.sub(r"(amp.request = #amp.request<[^,>]*)", r'\1, policy = "tensorflow"')


@mutation("resnet bert|lstm mlp", "in a mode that lowers to")
def another_mode(m):
    other = BRAIN if m.low == "f16" else HALF
    m.sub(r'amp.mode = #amp.mode<".*?">', f'amp.mode = #amp.mode<"{other}">')


@mutation("resnet|bert", "decided for .*, but the request is for ")
def another_mode_of_the_request(m):
    other = BRAIN if m.low == "f16" else HALF
    m.sub(r'#amp.request<".*?"', f'#amp.request<"{other}"')


@mutation("bert|mlp", "decided for .*-mixed, but the request is for 32-true")
def no_request(m):
    m.sub(r'amp.request = #amp.request<"[^>]*>, ', "")


@mutation("resnet", "decided as low in a mode without a low type")
def mode_without_a_low_type(m):
    m.sub(r'amp.mode = #amp.mode<".*?">', 'amp.mode = #amp.mode<"32-true">')


@mutation("resnet bert|lstm mlp", "expected amp.mode, since some ops are decided as low")
def no_mode(m):
    m.sub(r'amp.mode = #amp.mode<".*?">, ', "")


# Functions that differ


@mutation("resnet|mlp", "is decided otherwise than in @")
def evaluation_wider_than_training(m):
    op = m.op("mpc.relu", "eval")
    m.store(op, "f32")
    m.record(op).store("f32")


@mutation("mlp", "is decided otherwise than in @accumulate")
def evaluation_narrower_than_training(m):
    op = m.op("mpc.div", "eval")
    m.store(op, m.low)
    m.record(op).store(m.low)


@mutation("bert", "is decided otherwise than in @step")
def logits_rounded_in_evaluation_alone(m):
    op = m.ops("mpc.gemm", "eval")[-1]
    m.store(op, m.low)
    m.record(op).store(m.low)


# Constants


def find_rounded(m):
    return m.op("mpc.constant", where=lambda op: "amp.rounded" in op.attributes)


@mutation("unet", "holds other elements than the constant of the model")
def rounded_constant_changed(m):
    find_rounded(m).value = " dense<3.0>"


@mutation("unet", "holds other elements than the constant of the model")
def elements_before_rounding_changed(m):
    find_rounded(m).attributes["amp.rounded"] = "array<f64: -7.0, 7.0, 7.0>"


@mutation("unet", "since the constant is neither rounded nor a seed, found none")
def rounded_constant_of_unknown_origin(m):
    del find_rounded(m).attributes["amp.rounded"]


@mutation("mlp|resnet", "since the constant is neither rounded nor a seed, found none")
def constant_without_a_record(m):
    del m.op("mpc.constant", node="pixel_max").attributes["amp.decision"]


@mutation("mlp", "expected a constant of the model in 'f32', found 'b?f16'")
def constant_rounded_at_its_source(m):
    m.store(m.op("mpc.constant", node="pixel_max"), m.low)
    op = m.op("mpc.constant", node="pixel_max")
    op.types = list(op.result_types)


@mutation("resnet", "expected no forward op to read a gradient seed", BOTH)
def constant_of_the_model_as_a_seed(m):
    op = m.op("mpc.constant", node="pixel_max")
    op.attributes = {"amp.seed": ""}
    op.value = " dense<1.0>"


def find_seed(m):
    return m.op("mpc.constant", where=lambda op: "amp.seed" in op.attributes)


@mutation("resnet bert", "expected a gradient seed of ones", BRAIN)
def seed_is_not_one(m):
    find_seed(m).value = " dense<2.0>"


@mutation("resnet bert", "since the constant is neither rounded nor a seed", BRAIN)
def seed_not_marked(m):
    del find_seed(m).attributes["amp.seed"]
