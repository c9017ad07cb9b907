"""Mutations of the loss scale, of what drives it, and of guards.

SPDX-License-Identifier: Apache-2.0
"""

from mutations import HALF, mutation

ALL_FINITE = "expected amp.all_finite of all gradients of the update"
PHASE = "{{mpc.phase = #mpc.phase<optimizer>}}"


def declare(m, kind):
    m.sub(r"amp.loss_scale = #amp.loss_scale<\w+>", f"amp.loss_scale = #amp.loss_scale<{kind}>")


@mutation("mlp resnet", "scales in a module whose loss scale is none", HALF)
def scale_declared_as_none(m):
    declare(m, "none")


@mutation("bert lstm", "expected the requested loss scale, dynamic, found static", HALF)
def scale_declared_as_static(m):
    declare(m, "static")


@mutation("mlp", "scales in a module whose loss scale is none", HALF)
def scale_not_declared(m):
    m.sub(r"amp.loss_scale = #amp.loss_scale<\w+>, ", "")


@mutation("resnet", "expected the requested loss scale, dynamic, found none", HALF)
def scale_removed_everywhere(m):
    """The loss is not scaled, and nothing unscales or changes a scale."""
    declare(m, "none")
    for op in m.ops("amp.scale_loss amp.unscale"):
        assert op.types[0] == op.result_types[0], "the gradients are float32"
        m.remove(op, 0)
    keep_scale(m)


def keep_scale(m):
    """Removes the update of the scale."""
    op = m.op("amp.update_scale")
    end = m.op("return", op.function)
    for old, new in zip(op.operands, op.results):
        end.replace_operand(new, old)
    m.lines.remove(op)


@mutation("resnet lstm", "unscales what carries no loss scale", HALF)
def loss_not_scaled(m):
    m.remove(m.op("amp.scale_loss"), 0)


@mutation("bert mlp", "scales what carries a loss scale already", HALF)
def loss_scaled_twice(m):
    op = m.op("amp.scale_loss")
    types = f"({op.result_types[0]}, {op.types[1]}) -> {op.result_types[0]}"
    m.insert_behind(op, f"amp.scale_loss {{0}}, {op.operands[1]} : {types}")


@mutation("resnet bert lstm mlp", "unscales by another value than the loss", HALF)
def unscaled_by_another_value(m):
    op = m.op("amp.unscale")
    text = "mpc.constant dense<6.553600e+04> : tensor<f32>"
    op.set_operand(1, m.insert(text, before=op))


@mutation("resnet mlp", "unscales what carries no loss scale", HALF)
def unscaled_twice(m):
    op = m.op("amp.unscale")
    types = f"({op.result_types[0]}, {op.types[1]}) -> {op.result_types[0]}"
    m.insert_behind(op, f"amp.unscale {{0}}, {op.operands[1]} {PHASE} : {types}")


@mutation("resnet bert lstm mlp", "reads a gradient that is still scaled", HALF)
def gradient_not_unscaled(m):
    op = m.op("amp.unscale", where=lambda op: op.types[0].endswith("f32>"))
    for user in m.users(op.result, op):
        if user.name != "amp.all_finite":
            user.replace_operand(op.result, op.operands[0])


@mutation("resnet", "reads a gradient that is still scaled", HALF)
def unscaled_behind_the_clip(m):
    clip = m.op("mpc.clip_grad_norm")
    for index, value in enumerate(clip.operands):
        clip.set_operand(index, m.define(value, clip.function).operands[0])
    group = clip.result
    scale = m.op("amp.unscale").operands[1]
    for index, tensor in enumerate(clip.result_types[:-1]):
        users = m.users(f"{group}#{index}", clip)
        text = f"amp.unscale {group}#{index}, {scale} {PHASE.format()} : "
        name = m.insert(text + f"({tensor}, tensor<f32>) -> {tensor}", after=clip)
        for user in users:
            user.replace_operand(f"{group}#{index}", name)


@mutation("resnet bert lstm", "rounds the loss scale itself to", HALF)
def scale_in_the_low_type(m):
    op = m.op("amp.scale_loss")
    m.round_operand(m.users(op.result, op)[0], 0)


@mutation("resnet mlp", "expected a gradient seed of ones", HALF)
def scaled_seed_is_not_one(m):
    op = m.op("amp.scale_loss")
    m.define(op.operands[0], op.function).value = " dense<2.0>"


@mutation("mlp", "adds a value that carries the loss scale to one that does not", HALF)
def gradient_accumulated_without_the_scale(m):
    op = m.op("mpc.add", "accumulate", where=lambda op: "backward" in op.phase)
    scale, tensor = m.op("amp.scale_loss").operands[1], op.types[1]
    text = f"amp.unscale {op.operands[1]}, {scale} : ({tensor}, tensor<f32>) -> {tensor}"
    op.set_operand(1, m.insert(text, before=op))


@mutation("mlp", "returns a sum without the loss scale", HALF)
def accumulator_reset_to_ones(m):
    m.op("mpc.constant", "update", "fc1.bias.grad#reset").value = " dense<1.0>"


@mutation("static", r"expected the requested loss scale, 1\.024000e\+03")
def another_static_scale(m):
    for op in m.ops("mpc.constant", where=lambda op: "1.024000e+03" in op.value):
        op.value = " dense<2.0>"


@mutation("static", "unscales by another value than the loss was scaled by")
def static_scales_that_differ(m):
    op = m.op("amp.scale_loss")
    text = "mpc.constant dense<2.0> : tensor<f32>"
    op.set_operand(1, m.insert(text, before=op))


# The test of gradients, and what it drives


@mutation("mlp resnet bert lstm", ALL_FINITE, HALF)
def gradient_left_out_of_the_test(m):
    op = m.op("amp.all_finite")
    op.spelt, op.types = op.spelt.partition(", ")[2], op.types[1:]


def tell_that_all_is_finite(m, op, index):
    text = "mpc.constant dense<true> : tensor<i1>"
    op.set_operand(index, m.insert(text, before=op))


@mutation("mlp bert", ALL_FINITE, HALF)
def scale_told_that_all_is_finite(m):
    tell_that_all_is_finite(m, m.op("amp.update_scale"), 3)


@mutation("resnet lstm mlp", ALL_FINITE, HALF)
def update_told_that_all_is_finite(m):
    op = m.op("mpc.adam mpc.momentum")
    tell_that_all_is_finite(m, op, len(op.operands) - 1)


@mutation("mlp bert", "expected a condition, since gradients can overflow", HALF)
def update_without_a_condition(m):
    op = m.op("mpc.adam mpc.momentum")
    op.spelt = op.spelt.rpartition(", ")[0]
    op.types.pop()


@mutation("mlp lstm", "updates @mpc.step even in a step with a gradient", HALF)
def step_counted_without_a_condition(m):
    op = m.op("mpc.increment", where=lambda op: len(op.operands) == 2)
    op.spelt = op.operands[0]
    op.types.pop()


@mutation("resnet bert", "counts no forward pass in @mpc.micro_step", HALF)
def forward_pass_counted_on_a_condition(m):
    """A skipped step would use its random numbers again."""
    op = m.op("mpc.increment", where=lambda op: len(op.operands) == 1)
    test = m.op("amp.all_finite")
    m.lines.remove(op)
    m.lines.insert(m.lines.index(test) + 1, op)
    op.spelt += f", {test.result}"
    op.types.append(test.result_types[0])


@mutation("mlp lstm", ALL_FINITE + " as result", HALF)
def outcome_of_the_test_not_returned(m):
    """Runs count skipped steps by this output."""
    test = m.op("amp.all_finite")
    end = m.op("return", test.function)
    index = end.operands.index(test.result)
    tell_that_all_is_finite(m, end, index)


@mutation("mlp", "updates @fc1.weight.ema even in a step with a gradient", HALF)
def average_without_a_guard(m):
    m.remove(m.op("mpc.select", "update", "fc1.weight.ema#guard"), 1)


@mutation("mlp", "updates @fc1.weight.ema even in a step with a gradient", HALF)
def guard_of_an_average_reversed(m):
    m.op("mpc.select", "update", "fc1.weight.ema#guard").swap_operands(1, 2)


STATISTIC = "changes statistic @stem.bn.running_var where the new value is not finite"
GUARD = "stem.bn.running_var#guard"


@mutation("resnet", STATISTIC, HALF)
def statistic_without_a_guard(m):
    m.remove(m.op("mpc.select", "step", GUARD), 2)


@mutation("resnet", STATISTIC, HALF)
def guard_of_a_statistic_without_nan(m):
    op = m.op("mpc.or", "step", GUARD)
    op.set_operand(1, op.operands[0])


@mutation("resnet", STATISTIC, HALF)
def guard_tests_another_statistic(m):
    m.op("mpc.is_nan", "step", GUARD).set_operand(0, m.op("mpc.batch_norm").results[3])


@mutation("resnet", STATISTIC, HALF)
def guard_keeps_another_statistic(m):
    other = m.op("mpc.batch_norm", "step").operands[3]
    m.op("mpc.select", "step", GUARD).set_operand(1, other)


# The state of the scale


@mutation("mlp resnet", "computes a new loss scale that the function does not", HALF)
def new_scale_not_returned(m):
    op = m.op("amp.update_scale")
    m.op("return", op.function).replace_operand(op.results[0], op.operands[0])


@mutation("bert lstm", "changes @mpc.good_steps by other means than", HALF)
def counters_of_the_scale_swapped(m):
    op = m.op("amp.update_scale")
    end = m.op("return", op.function)
    end.swap_operands(*(end.operands.index(result) for result in op.results[1:]))


@mutation("resnet", "updates parameters but never the loss scale", HALF)
def scale_never_updated(m):
    keep_scale(m)


@mutation("mlp", "backoff_factor", HALF)
def scale_that_grows_on_overflow(m):
    m.op("amp.update_scale").attributes["backoff_factor"] = "2.0 : f64"


@mutation("mlp", "growth_factor", HALF)
def scale_that_never_recovers(m):
    m.op("amp.update_scale").attributes["growth_factor"] = "5.0e-01 : f64"


@mutation("mlp bert", "expected a finite initial loss scale above 0, found 0", HALF)
def initial_scale_of_zero(m):
    m.sub(r"(role loss_scale fill) 6\.\S+", r"\1 0.0")


@mutation("resnet", "expected a finite initial loss scale above 0, found -", HALF)
def initial_scale_negative(m):
    m.sub(r"(role loss_scale fill) 6\.\S+", r"\1 -1.0")


@mutation("resnet", "expected the state of the dynamic loss scale", HALF)
def scale_of_another_role(m):
    m.sub(r"(@mpc.loss_scale .*) role loss_scale", r"\1 role optimizer_state")


@mutation("mlp", "expected the state of the dynamic loss scale as the scale", HALF)
def learning_rate_as_the_scale(m):
    for op in m.ops("amp.unscale", "update"):
        rate = m.op("mpc.momentum").operands[3]
        op.set_operand(1, rate)
