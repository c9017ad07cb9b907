"""Times training steps that look up few rows of a large table.

    table_bench.py [--rounds N] [--steps N] [--cpus LIST] [--only NAME]

SPDX-License-Identifier: Apache-2.0
"""

import functools

import numpy as np
import rounds
from table_torch import BATCH, CLASSES, ROWS, WIDTH, WORDS

WARM_UP = 5


def prepare():
    """Writes the model with its weights, and one batch of data, as files."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rounds.FOLDER.mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(0)
    weights = {
        "table": random.randn(ROWS, WIDTH).astype(np.float32),
        "head": random.randn(WIDTH, CLASSES).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "ids"], ["words"]),
            helper.make_node("ReduceMean", ["words"], ["x"], axes=[1], keepdims=0),
            helper.make_node("MatMul", ["x", "head"], ["y"]),
        ],
        "table",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["N", WORDS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", CLASSES])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(
        helper.make_model(graph, opset_imports=opset, ir_version=8),
        rounds.FOLDER / "table.onnx",
    )
    ids = random.randint(0, ROWS, (BATCH, WORDS))
    target = random.randint(0, CLASSES, BATCH)
    np.savez(rounds.FOLDER / "table.npz", ids=ids, target=target)


def main():
    options = rounds.parse_options(__doc__, WARM_UP)
    prepare()
    model, data = rounds.FOLDER / "table.onnx", rounds.FOLDER / "table.npz"
    contenders = {}
    for optimizer in ("sgd", "adagrad"):
        contenders[f"mpc {optimizer}"] = functools.partial(
            *(rounds.train, options, model, data, BATCH, "32-true"),
            *("--optimizer", optimizer, "--lr", "0.01"),
        )
        for how in ("sparse", "dense"):
            contenders[f"PyTorch {optimizer} {how}"] = functools.partial(
                rounds.run_torch, options, "table_torch.py", how, optimizer
            )
    title = f"{BATCH * WORDS} rows of {ROWS} x {WIDTH}"
    rounds.compare(title, options, contenders, "mpc sgd")


if __name__ == "__main__":
    main()
