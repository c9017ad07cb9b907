"""`mpc run` splits many samples into batches and joins the outputs. The result
equals one run over all samples.

SPDX-License-Identifier: Apache-2.0
"""

import csv

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

SAMPLES = 11
random = np.random.RandomState(3)
X = random.standard_normal((SAMPLES, 4)).astype(np.float32)
TABLE = random.standard_normal((3, 4)).astype(np.float32)


def model(batch="N", table=(3, 4)):
    """Returns a model of x with batch-independent `table`: scores, their sums,
    and time-major scores with samples on axis 1."""
    nodes = [
        helper.make_node("Transpose", ["table"], ["t"], "t", perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["scores"], "scores"),
        helper.make_node("Transpose", ["scores"], ["major"], "m", perm=[1, 0]),
    ]
    inputs = {
        "x": (np.float32, [batch, 4]),
        "table": (np.float32, list(table)),
    }
    outputs = {
        "scores": (np.float32, None),
        "major": (np.float32, None),
    }
    return mpctest.make_model(nodes, inputs, outputs, {})


def run(path, *flags, **arrays):
    folder = path.parent
    np.savez(folder / "data.npz", **{"x": X, "table": TABLE, **arrays})
    output = folder / "out.npz"
    process = mpctest.mpc(
        *("run", path, "--data", folder / "data.npz", "-o", output), *flags
    )
    if process.returncode != 0:
        return process
    with np.load(output) as outputs:
        return dict(outputs)


def save(proto, folder):
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


def check(outputs, x=X, table=TABLE):
    """Sums of four products of order 1 may nearly cancel."""
    bound = {"rtol": 1e-5, "atol": 1e-6}
    np.testing.assert_allclose(outputs["scores"], x @ table.T, **bound)
    np.testing.assert_allclose(outputs["major"], table @ x.T, **bound)


@pytest.mark.parametrize("batch", (1, 2, 4, 10, 11, 12, 50))
def test_any_batch(batch, tmp_path):
    path = save(model(), tmp_path)
    check(run(path, "--batch-size", batch, *mpctest.TARGET))


@pytest.mark.parametrize("batch", (1, 4, 11, 20))
def test_model_of_a_fixed_batch(batch, tmp_path):
    path = save(model(batch), tmp_path)
    check(run(path, *mpctest.TARGET))
    check(run(path, "--batch-size", 3, *mpctest.TARGET))


def test_table_as_long_as_a_batch(tmp_path):
    """A dimension's name identifies the batch. Its length does not."""
    path = save(model(table=("K", 4)), tmp_path)
    check(run(path, "--batch-size", 3, *mpctest.TARGET))
    check(run(path, "--batch-size", 4, *mpctest.TARGET))


@pytest.mark.parametrize("batch", (1, 4, 20))
def test_artifact(batch, tmp_path):
    path = save(model(), tmp_path)
    artifact = tmp_path / "model.mpc"
    mpctest.mpc_ok(
        *("compile", path, "--batch-size", batch, "-o", artifact),
        *mpctest.TARGET,
    )
    check(run(artifact))
    other = run(artifact, x=X[:, :3])
    assert other.returncode == 3
    assert f"input 'x' is f32 {batch}x4, got f32 11x3" in other.stderr


def test_samples_on_another_axis(tmp_path):
    nodes = [helper.make_node("Cumsum", ["x", "axis"], ["y"], "y")]
    nodes[0].op_type = "CumSum"
    proto = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["T", "N"])}),
        *({"y": (np.float32, ["T", "N"])}, {"axis": np.array(0)}),
    )
    path = save(proto, tmp_path)
    outputs = run(
        *(path, "--batch-size", 3, "--batch-axis", "x=1", *mpctest.TARGET),
        x=X.T,
    )
    np.testing.assert_allclose(outputs["y"], X.T.cumsum(0), rtol=1e-5)


def test_integers_of_samples_are_not_constants(tmp_path):
    """Shapes may need the values of integer inputs. No single batch's values
    serve as constants."""
    nodes = [helper.make_node("Add", ["i", "one"], ["j"], "j")]
    proto = mpctest.make_model(
        *(nodes, {"i": (np.int64, ["N"])}),
        *({"j": (np.int64, ["N"])}, {"one": np.array(1)}),
    )
    path = save(proto, tmp_path)
    outputs = run(path, "--batch-size", 4, *mpctest.TARGET, i=np.arange(10))
    assert outputs["j"].tolist() == list(range(1, 11))


def test_not_finite(tmp_path):
    x = X.copy()
    x[5, 0] = np.nan
    path = save(model(), tmp_path)
    outputs = run(path, "--batch-size", 4, *mpctest.TARGET, x=x)
    assert np.isnan(outputs["scores"]).any(1).nonzero()[0].tolist() == [5]


def with_means():
    proto = model()
    for name, axis in (("mean", 0), ("flat", None)):
        axes = {} if axis is None else {"axes": [axis]}
        node = helper.make_node("ReduceMean", ["x"], [name], name, **axes)
        proto.graph.node.append(node)
        proto.graph.output.append(
            helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        )
    return proto


def test_outputs_without_samples_are_named(tmp_path):
    path = save(with_means(), tmp_path)
    assert "mean" in run(path, *mpctest.TARGET)
    # Batches as long as the mean, whose elements are still not samples.
    for batch in (4, 1):
        process = run(path, "--batch-size", batch, *mpctest.TARGET)
        assert process.returncode == 4
        assert "no batch axis" in process.stderr
        assert "'mean' (1x4), 'flat' (1x1)" in process.stderr
        assert "scores" not in process.stderr


def test_other_numbers_of_samples(tmp_path):
    path = save(model(table=("N", 4)), tmp_path)
    process = run(path, "--batch-size", 3, *mpctest.TARGET)
    assert process.returncode == 3
    assert "table: has 3 samples" in process.stderr
    assert "x has 11" in process.stderr
    assert "--batch-axis table=none" in process.stderr


def test_without_samples(tmp_path):
    path = save(model(4), tmp_path)
    process = run(path, *mpctest.TARGET, x=X[:0])
    assert process.returncode == 3
    assert "with at least 1 sample" in process.stderr


def test_statistics_of_batches(tmp_path):
    """An exported BatchNormalization may use batch statistics: mpc does not pad
    the batch."""
    flags = ("--as-exported", *mpctest.TARGET)
    path = save(model(), tmp_path)
    process = run(path, "--batch-size", 4, *flags)
    assert process.returncode == 2
    assert "11 samples do not fill batches of 4" in process.stderr
    check(run(path, "--batch-size", 5, *flags, x=X[:10]), x=X[:10])


def dependent():
    """Returns a model of the difference between a sample and its batch's mean.
    The mean includes padding samples."""
    nodes = [
        helper.make_node("ReduceMean", ["x"], ["m"], "m", axes=[0]),
        helper.make_node("Sub", ["x", "m"], ["y"], "y"),
    ]
    return mpctest.make_model(
        nodes, {"x": (np.float32, ["N", 4])}, {"y": (np.float32, None)}, {}
    )


@pytest.mark.parametrize("batch", (4, 10))
def test_samples_that_depend_on_what_fills_a_batch(batch, tmp_path):
    path = save(dependent(), tmp_path)
    process = run(path, "--batch-size", batch, *mpctest.TARGET)
    assert process.returncode == 4
    assert "depend on each other" in process.stderr
    assert not (tmp_path / "out.npz").exists()


def test_samples_that_depend_on_a_full_batch(tmp_path):
    path = save(dependent(), tmp_path)
    outputs = run(path, "--batch-size", 4, *mpctest.TARGET, x=X[:8])
    expected = [part - part.mean(0) for part in (X[:4], X[4:8])]
    np.testing.assert_allclose(
        outputs["y"], np.concatenate(expected), rtol=1e-4, atol=1e-6
    )


def test_functions_of_training_run_once(tmp_path):
    path = mpctest.MODELS / "mlp.onnx"
    np.savez(tmp_path / "x.npz", image=np.zeros((6, 1, 8, 8)), target=[1] * 6)
    flags = ("--loss", "cross_entropy", "--function", "eval")
    data = ("--data", tmp_path / "x.npz", *mpctest.TARGET)
    mpctest.mpc_ok("run", path, *flags, *data)
    process = mpctest.mpc("run", path, *flags, *data, "--batch-size", 4)
    assert process.returncode == 2
    assert "mpc eval" in process.stderr


#
# Samples that are prepared, as those of a data set
#


def run_data(path, *flags):
    output = path.parent / "out.npz"
    process = mpctest.mpc("run", path, "-o", output, *flags, *mpctest.TARGET)
    assert process.returncode == 0, process.stderr
    with np.load(output) as outputs:
        return dict(outputs)


def two_inputs(batch="N"):
    """Returns a model of two inputs: the sum of a sample's table rows and of
    its numbers."""
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], "g"),
        helper.make_node("ReduceSum", ["rows", "axes"], ["sums"], "s", keepdims=0),
        helper.make_node("Add", ["sums", "x"], ["y"], "a"),
    ]
    inputs = {"ids": (np.int64, [batch, 2]), "x": (np.float32, [batch, 4])}
    initializers = {"table": TABLE, "axes": np.array([1])}
    return mpctest.make_model(nodes, inputs, {"y": (np.float32, None)}, initializers)


@pytest.mark.parametrize("batch", ((), ("--batch-size", 4), ("--batch-size", 11)))
def test_columns_of_a_table(batch, tmp_path):
    ids = random.randint(0, 3, (SAMPLES, 2))
    lines = ["name,a,b,x0,x1,x2,x3,price"]
    for i in range(SAMPLES):
        values = [*map(str, ids[i]), *(repr(float(v)) for v in X[i])]
        lines.append(",".join([f"u{i}", *values, "1"]))
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    outputs = run_data(
        *(save(two_inputs(), tmp_path), "--data", tmp_path / "table.csv"),
        *("--csv-columns", "ids=a,b", "--csv-columns", "x=x0:x3"),
        *batch,
    )
    np.testing.assert_allclose(outputs["y"], TABLE[ids].sum(1) + X, rtol=1e-6)


@pytest.mark.parametrize("kind", (".npy", ".npz"))
def test_several_files_of_one_array(kind, tmp_path):
    for i, part in enumerate((X[:2], X[2:7], X[7:])):
        if kind == ".npy":
            np.save(tmp_path / f"part-{i}.npy", part)
        else:
            np.savez(tmp_path / f"part-{i}.npz", x=part)
    np.save(tmp_path / "table.npy", TABLE)
    name = "x=" if kind == ".npy" else ""
    outputs = run_data(
        *(save(model(), tmp_path), "--data", f"{name}{tmp_path}/part-*{kind}"),
        *("--data", tmp_path / "table.npy", "--batch-axis", "table=none"),
        *("--batch-size", 4),
    )
    check(outputs)


@pytest.mark.parametrize("batch", (1, 4, 20))
def test_normalized_images_of_a_fixed_batch(batch, tmp_path):
    node = helper.make_node("ReduceMean", ["x"], ["y"], "m", axes=[2, 3], keepdims=0)
    proto = mpctest.make_model(
        [node], {"x": (np.float32, [batch, 3, 5, 6])}, {"y": (np.float32, None)}, {}
    )
    images = random.randint(0, 256, (SAMPLES, 5, 6, 3), dtype=np.uint8)
    np.savez(tmp_path / "images.npz", x=images)
    path = save(proto, tmp_path)
    flags = ("--normalize", "0.5,0.4,0.3:0.25", "--data", tmp_path / "images.npz")
    mean = np.array([0.5, 0.4, 0.3])
    expected = ((images / 255 - mean) / 0.25).mean((1, 2))
    np.testing.assert_allclose(run_data(path, *flags)["y"], expected, atol=1e-5)
    mpctest.mpc_ok("compile", path, "-o", tmp_path / "model.mpc", *mpctest.TARGET)
    outputs = tmp_path / "out.npz"
    mpctest.mpc_ok("run", tmp_path / "model.mpc", *flags, "-o", outputs)
    np.testing.assert_allclose(np.load(outputs)["y"], expected, atol=1e-5)


def test_preparation_without_data_has_no_effect(tmp_path):
    path = save(model(), tmp_path)
    process = mpctest.mpc("run", path, "--input", "x=@x.npy", "--normalize", "0:1")
    assert process.returncode == 2
    assert "--normalize has no effect without --data" in process.stderr


@pytest.mark.parametrize("batch", ("N", 4))
def test_channels_that_are_last_are_turned(batch, tmp_path):
    """Channels-last images are transposed as in training, and a note says so."""
    node = helper.make_node("Identity", ["x"], ["y"], "same")
    proto = mpctest.make_model(
        [node], {"x": (np.float32, [batch, 3, 5, 6])}, {"y": (np.float32, None)}, {}
    )
    images = random.standard_normal((SAMPLES, 5, 6, 3)).astype(np.float32)
    np.savez(tmp_path / "images.npz", x=images)
    path = save(proto, tmp_path)
    outputs = run_data(path, "--data", tmp_path / "images.npz")
    np.testing.assert_array_equal(outputs["y"], np.moveaxis(images, -1, 1))


def test_output_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    path = save(model(), tmp_path)
    process = mpctest.mpc("run", path, "--input", "x=@missing.npy", "-o", "out.txt")
    assert process.returncode == 2
    assert "out.txt: expected .npz, .safetensors, .npy or .csv" in process.stderr


def test_a_table_of_images_names_their_files(tmp_path):
    """The table maps rows to photos. It quotes an odd file name."""
    nodes = [helper.make_node("GlobalAveragePool", ["x"], ["m"], "mean")]
    nodes.append(helper.make_node("Flatten", ["m"], ["y"], "y"))
    proto = mpctest.make_model(
        *(nodes, {"x": (np.float32, ["N", 1, 4, 4])}, {"y": (np.float32, ["N", 1])}),
        {},
    )
    for name, value in (("b.png", 7), ('a, "1".png', 3)):
        mpctest.save_png(tmp_path / "photos" / name, np.full((4, 4), value, np.uint8))
    table = tmp_path / "y.csv"
    mpctest.mpc_ok(
        *("run", save(proto, tmp_path), "--data", tmp_path / "photos", "-o", table)
    )
    with open(table, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["file", "y"],
        [f'{tmp_path}/photos/a, "1".png', "3"],
        [f"{tmp_path}/photos/b.png", "7"],
    ]
