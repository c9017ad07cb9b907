"""Mutations that round values on the way from one op to another.

SPDX-License-Identifier: Apache-2.0
"""

import re

from mutated_module import with_element
from mutations import HALF, mutation

WIDENED = "widens what a cast from 'f32' to 'b?f16' has rounded"
NOT_MULTIPLIED = "through a cast that rounds, but does not multiply it"


def find_wide(m, name, function="step"):
    return m.op(name, function, where=lambda op: not m.peek(op).is_low(m.low))


@mutation("bert", WIDENED)
def residual_through_casts(m):
    m.round_operand(find_wide(m, "mpc.add"), 0)


@mutation("bert", "but reads operand 0 in 'f16'", HALF)
def denied_op_reads_a_cast(m):
    m.read_low(m.op("mpc.layer_norm"), 0)


@mutation("bert", "expected operand 1 in fp32|but reads operand 1 in")
def scale_of_a_layer_norm_low(m):
    m.read_low(m.op("mpc.layer_norm"), 1)


@mutation("resnet", "expected operand 1 in fp32")
def scale_of_a_batch_norm_low(m):
    m.read_low(m.op("mpc.batch_norm"), 1)


@mutation("resnet|mlp", "expected operand 2 in fp32")
def bias_low(m):
    m.read_low(m.op("mpc.gemm", where=lambda op: len(op.operands) == 3), 2)


@mutation("bert", "expected operand 3 in fp32")
def mask_low(m):
    m.read_low(m.op("mpc.attention"), 3)


@mutation("resnet|bert mlp", r"kept in fp32 \(loss_region\) but reads operand 0 in")
def loss_reads_a_cast(m):
    m.read_low(m.op("mpc.softmax_cross_entropy_loss"), 0)


@mutation("kept", r"kept in fp32 \(keep_fp32\) but reads operand 0 in")
def op_named_by_keep_fp32_reads_low(m):
    op = m.recorded(reason="keep_fp32")[0]
    value, tensor = op.operands[0], op.types[0]
    low = tensor if m.low in tensor else with_element(tensor, m.low)
    source = m.define(value, op.function)
    op.set_operand(0, source.operands[0] if source.name == "amp.cast" else value)
    op.types[0] = source.types[0] if source.name == "amp.cast" else tensor
    if op.types[0] != low:
        m.read_low(op, 0)


@mutation("bert", NOT_MULTIPLIED)
def sum_reads_a_cast(m):
    m.read_low(find_wide(m, "mpc.add"), 0)


@mutation("lstm", WIDENED)
def wide_values_joined_in_the_low_type(m):
    op = find_wide(m, "mpc.concat")
    for index in range(len(op.operands)):
        m.read_low(op, index)
    m.store(op, m.low)
    m.record(op).store(m.low)


@mutation("bert", WIDENED)
def wide_value_moved_in_the_low_type(m):
    op = m.op("mpc.transpose", where=lambda op: op.types[0].endswith("f32>"))
    m.read_low(op, 0)
    m.store(op, m.low)
    m.record(op).store(m.low)


@mutation("bert", WIDENED)
def low_copy_widened(m):
    op = m.op("mpc.gemm", "step", where=lambda op: op.operands[1].startswith("%arg"))
    m.widen_operand(op, 1)


@mutation("mlp resnet|bert lstm", "rounds again what a cast from 'f32' to")
def rounded_twice(m):
    other = "bf16" if m.low == "f16" else "f16"
    cast = m.op("amp.cast")
    m.read(cast, 0, other)


@mutation("mlp resnet|bert lstm", "returns a value that the stage has rounded to")
def prediction_returned_low(m):
    op = m.op("return", "eval")
    index = next(i for i, t in enumerate(op.types) if re.search(r"\dx.*f32>", t))
    m.read_low(op, index)
    m.set_result_type("eval", index, op.types[index])


@mutation("bert lstm|mlp resnet", WIDENED)
def prediction_rounded(m):
    op = m.op("return", "eval")
    index = next(i for i, t in enumerate(op.types) if re.search(r"\dx.*f32>", t))
    m.round_operand(op, index)


@mutation("mlp resnet|bert lstm", WIDENED)
def loss_rounded(m):
    m.round_operand(m.op("return", "eval"), 0)


@mutation("bert lstm|mlp resnet", WIDENED)
def gradient_rounded_before_the_optimizer(m):
    m.round_operand(m.op("mpc.adam mpc.momentum"), 1)


@mutation("resnet bert lstm", WIDENED, HALF)
def gradient_rounded_before_it_is_unscaled(m):
    m.read_low(m.op("amp.unscale", where=lambda op: op.types[0].endswith("f32>")), 0)


@mutation("mlp", WIDENED)
def average_of_rounded_weights(m):
    m.round_operand(m.op("mpc.sub", "update"), 0)


# Loops


def find_in_loop(m, name):
    return m.op(name, where=lambda op: op.body > 0)


@mutation("lstm", WIDENED)
def carried_value_rounded(m):
    m.round_operand(find_in_loop(m, "mpc.yield"), 0)


@mutation("lstm", WIDENED)
def second_carried_value_rounded(m):
    m.round_operand(find_in_loop(m, "mpc.yield"), 1)


@mutation("lstm", WIDENED)
def stacked_value_rounded(m):
    m.round_operand(find_in_loop(m, "mpc.yield"), 4)


@mutation("lstm", WIDENED)
def argument_of_a_body_rounded(m):
    op = m.op("mpc.mul", where=lambda op: op.body and op.operands[1][:4] == "%arg")
    m.round_operand(op, 1)


@mutation("lstm", NOT_MULTIPLIED)
def gate_read_through_a_cast(m):
    m.read_low(find_in_loop(m, "mpc.mul"), 0)


@mutation("lstm", WIDENED)
def weight_of_a_loop_widened(m):
    """The cast that rounds is in front of the loop."""
    m.widen_operand(find_in_loop(m, "mpc.gemm"), 1)


@mutation("lstm", WIDENED)
def scanned_value_rounded(m):
    loop = m.find_line(r"mpc\.scan .*scanned\(")
    value, tensor = re.search(r"scanned\((%\w+) : (\S+?)\)", m.lines[loop]).groups()
    low = m.cast(value, tensor, m.low, after=m.define(value, "step"))
    lowered = with_element(tensor, m.low)
    wide = m.cast(low, lowered, "f32", after=m.define(low, "step"))
    m.sub(rf"scanned\({value} ", f"scanned({wide} ")
