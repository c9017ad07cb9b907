"""The verifier refuses the output of the Precision stage after one change, by the
rule that the change breaks. Each mutation changes the module of a real network.

SPDX-License-Identifier: Apache-2.0
"""

import functools
import re
import subprocess

import mutations_of_records  # noqa: F401
import mutations_of_scales  # noqa: F401
import mutations_of_state  # noqa: F401
import mutations_of_values  # noqa: F401
from mutated_module import Module
from mutations import BOTH, MUTATIONS
import pytest

import mpctest

OPT = mpctest.BUILD / "bin" / "mpc-opt"
FAMILIES = mpctest.DATA / "families"
CLASSES = ["--loss", "softmax_cross_entropy", "--batch-size", 4]
ADAMW = [*CLASSES, "--optimizer", "adamw"]
NETWORKS = {
    # A CNN with BatchNormalization, a transformer, and loops.
    "resnet": [mpctest.MODELS / "resnet.onnx", *ADAMW, "--gradient-clip-val", 1],
    "bert": [FAMILIES / "bert-dynamo-18.onnx", *ADAMW],
    "lstm": [FAMILIES / "lstm-dynamo-18.onnx", *ADAMW],
    # Gradients that are accumulated and clipped, and averages of weights.
    "mlp": [
        *(mpctest.MODELS / "mlp.onnx", *CLASSES, "--optimizer", "momentum"),
        *("--accumulate-grad-batches", 2, "--gradient-clip-val", 1, "--ema", 0.99),
    ],
    # A loss, ranges and wide operands of the model's own; rounded constants.
    "pairs": [
        *(mpctest.DATA / "kinds" / "pairs-dynamo-18.onnx", "--batch-size", 4),
        *("--loss", "output:scores", "--optimizer", "adamw"),
    ],
    "unet": [FAMILIES / "unet-dynamo-18.onnx", *ADAMW],
    # Flags.
    "kept": [mpctest.MODELS / "resnet.onnx", *ADAMW, "--keep-fp32", "^stem.relu$"],
    "static": [mpctest.MODELS / "mlp.onnx", *ADAMW, "--loss-scale", 1024],
}


def verify(text):
    """Runs the verifier. Returns the finished process."""
    return subprocess.run(
        [OPT, "-", "-amp-verify-precision", "-o", "/dev/null"],
        input=text,
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )


@functools.cache
def compile_network(network, mode):
    """Returns the module of the network after the Precision stage."""
    process = mpctest.mpc_ok(
        *("compile", *NETWORKS[network], "--precision", mode, *mpctest.TARGET),
        *("--emit=precision", "--emit-data", "-o", "-"),
    )
    return Module(process.stdout, {"16-mixed": "f16", "bf16-mixed": "bf16"}[mode])


@pytest.mark.parametrize("mode", BOTH)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_module_itself_is_accepted(network, mode):
    """Negative control: reading the text and writing it again changes nothing."""
    process = verify(str(compile_network(network, mode)))
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda m: f"{m.name}-{m.network}-{m.mode}"
)
def test_a_mutation_is_refused(mutation):
    module = compile_network(mutation.network, mutation.mode).clone()
    before = str(module)
    mutation.edit(module)
    assert str(module) != before, "the mutation changes nothing"
    process = verify(str(module))
    assert process.returncode != 0, "the verifier accepts the mutation"
    errors = [line for line in process.stderr.splitlines() if "error:" in line]
    assert re.search(mutation.message, "\n".join(errors)), process.stderr[-3000:]


def test_mutations_are_many():
    assert len({mutation.name for mutation in MUTATIONS}) >= 40
    assert len({mutation.network for mutation in MUTATIONS}) >= 4
