"""Mutations of masters, low copies, moments and other state.

SPDX-License-Identifier: Apache-2.0
"""

from itertools import permutations
import re

from mutated_module import with_element
from mutations import BRAIN, mutation

NOT_WRITTEN = "but does not write its copy @"


def find_copying(m):
    """Lists the casts by which updates write low copies."""
    return m.ops("amp.cast", where=lambda op: "optimizer" in op.phase)


def find_pair(ops):
    """Returns two casts of parameters of one shape."""
    return next((a, b) for a, b in permutations(ops, 2) if a.types == b.types)


@mutation("mlp resnet|bert lstm", NOT_WRITTEN)
def copy_of_the_old_master(m):
    op = find_copying(m)[0]
    op.set_operand(0, m.define(op.operands[0], op.function).operands[0])


@mutation("resnet|bert lstm", NOT_WRITTEN)
def copies_swapped(m):
    a, b = find_pair(find_copying(m))
    first, second = a.operands[0], b.operands[0]
    a.set_operand(0, second)
    b.set_operand(0, first)


@mutation("bert|resnet", NOT_WRITTEN)
def copy_not_written(m):
    op = find_copying(m)[0]
    update = m.define(op.operands[0], op.function)
    state = m.get_state(op.function, update.operands[0])
    old, _ = m.find_argument(op.function, f"{state}.low")
    m.op("return", op.function).replace_operand(op.result, old)


@mutation("mlp|lstm", NOT_WRITTEN)
def parameter_kept_but_copy_written(m):
    op = find_copying(m)[0]
    update = m.define(op.operands[0], op.function)
    m.op("return", op.function).replace_operand(update.result, update.operands[0])


@mutation("bert|resnet", "reads other state than in @step")
def evaluation_reads_another_copy(m):
    copies = re.findall(r"(%arg\d+): \S+ \{mpc.state = @[\w.]+\.low\}", m.get_head("eval"))
    ops = m.ops("mpc.gemm mpc.conv mpc.transpose", "eval")
    reads = {
        id(op): (index, value)
        for op in ops
        for index, value in enumerate(op.operands)
        if value in copies
    }
    readers = [op for op in ops if id(op) in reads]
    for a, b in permutations(readers, 2):
        (index, old), (other, new) = reads[id(a)], reads[id(b)]
        if a.types[index] == b.types[other] and old != new:
            a.set_operand(index, new)
            return
    raise AssertionError("no two copies of one shape")


@mutation("lstm|bert", "expected @derive to compute @.* from its own parameter")
def derive_casts_another_parameter(m):
    a, b = find_pair(m.ops("amp.cast", "derive"))
    a.set_operand(0, b.operands[0])


@mutation("bert|lstm", "expected @derive to compute @.* from its own parameter")
def derive_swaps_two_parameters(m):
    a, b = find_pair(m.ops("amp.cast", "derive"))
    first, second = a.operands[0], b.operands[0]
    a.set_operand(0, second)
    b.set_operand(0, first)


@mutation("mlp resnet|bert lstm", "expected @derive to write @.*, the low copy of")
def copy_not_derived(m):
    cast = m.op("amp.cast", "derive")
    text = f"mpc.constant dense<0.0> : {cast.result_types[0]}"
    m.op("return", "derive").replace_operand(cast.result, m.insert(text, after=cast))


@mutation("resnet bert lstm", "widens what a cast from 'f32' to 'bf16' has rounded", BRAIN)
def optimizer_reads_the_low_copy(m):
    for op in m.ops("mpc.adam"):
        state = m.get_state(op.function, op.operands[0])
        if found := m.find_argument(op.function, f"{state}.low"):
            op.set_operand(0, m.cast(*found, "f32", before=op))
            return


@mutation("resnet bert|lstm", "updates @.* by the new value of @|even in a step")
def moments_swapped(m):
    m.op("mpc.adam").swap_operands(2, 3)


@mutation("resnet lstm|bert", "updates @.* by the new value of @|even in a step")
def new_moments_swapped(m):
    op = m.op("mpc.adam")
    end = m.op("return", op.function)
    end.swap_operands(*(end.operands.index(result) for result in op.results[1:]))


@mutation("mlp", "updates @.* by the new value of @|even in a step")
def parameter_and_velocity_swapped(m):
    op = m.op("mpc.momentum")
    end = m.op("return", op.function)
    end.swap_operands(*(end.operands.index(result) for result in op.results))


def narrow(m, role):
    """Gives a variable of `role` the low type in all functions."""
    place = m.find_line(rf"mpc\.variable .* role {role}")
    variable = m.lines[place]
    name = re.search(r"@([\w.]+)", variable)[1]
    tensor = re.search(r" : (tensor\S+)", variable)[1]
    low = with_element(tensor, m.low)
    variable = re.sub(r" init .*?(?= loc)", " fill 0.0", variable)
    m.lines[place] = variable.replace(tensor, low, 1)
    for function in {op.function for op in m.ops()}:
        if found := m.find_argument(function, name):
            argument, _ = found
            old = re.escape(f"{argument}: {tensor} {{mpc.state = @{name}}}")
            m.sub(old, f"{argument}: {low} {{mpc.state = @{name}}}")
            users = [op for op in m.ops(function=function) if argument in op.operands]
            wide = m.cast(argument, low, "f32", before=m.ops(function=function)[0])
            for user in users:
                user.replace_operand(argument, wide)
        results = m.get_head(function).rpartition(") -> (")[2]
        end = m.op("return", function)
        for index, updated in enumerate(re.findall(r"tensor<\S+>(?: \{.*?\})?", results)):
            if updated.endswith(f"@{name}}}"):
                m.read_low(end, index)
                m.set_result_type(function, index, low)


@mutation("resnet|bert", "expected state of role parameter in fp32 at least")
def master_in_the_low_type(m):
    narrow(m, "parameter")


@mutation("lstm|mlp", "expected state of role optimizer_state in fp32 at least")
def moment_in_the_low_type(m):
    narrow(m, "optimizer_state")


@mutation("mlp", "expected state of role accumulator in fp32 at least")
def accumulator_in_the_low_type(m):
    narrow(m, "accumulator")


@mutation("mlp", "expected state of role average in fp32 at least")
def average_in_the_low_type(m):
    narrow(m, "average")


@mutation("resnet", "expected state of role statistic in fp32 at least")
def statistic_in_the_low_type(m):
    narrow(m, "statistic")
