"""The same samples train to the same bits in every form of data. The tests
cover each data flag of docs/data.md.

SPDX-License-Identifier: Apache-2.0
"""

import json
import shutil
import struct
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import helper

import mpctest

USAGE, INVALID, UNSUPPORTED = 2, 3, 4
IMAGES = mpctest.DATA / "images"


def image_model(folder, channels, height, width, channels_last=False, bias=0):
    """Returns a small image classifier with two classes. `bias` favours the
    first class."""
    random = np.random.RandomState(0)
    rows = random.standard_normal((2, 4 * height * width)) / 10
    shape = [channels, height, width]
    nodes = [
        helper.make_node("Conv", ["image", "w", "b"], ["c"], pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "v", "d"], ["scores"], transB=1),
    ]
    if channels_last:
        shape = shape[1:] + shape[:1]
        turn = helper.make_node("Transpose", ["x"], ["image"], perm=[0, 3, 1, 2])
        nodes.insert(0, turn)
    else:
        nodes[0].input[0] = "x"
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", *shape])},
        {"scores": (np.float32, ["N", 2])},
        {
            "w": random.standard_normal((4, channels, 3, 3)).astype(np.float32),
            "b": np.zeros(4, np.float32),
            "v": rows.astype(np.float32),
            "d": np.array([bias, 0], np.float32),
        },
    )
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


def row_model(folder, inputs):
    """Returns a regression model. `inputs` maps an input's name to its number
    of features."""
    nodes = [helper.make_node("Concat", list(inputs), ["all"], axis=1)]
    nodes.append(helper.make_node("Gemm", ["all", "w", "b"], ["y"]))
    width = sum(inputs.values())
    model = mpctest.make_model(
        nodes,
        {name: (np.float32, ["N", n]) for name, n in inputs.items()},
        {"y": (np.float32, ["N", 1])},
        {
            "w": np.linspace(-1, 1, width, dtype=np.float32)[:, None],
            "b": np.zeros(1, np.float32),
        },
    )
    onnx.save(model, folder / "model.onnx")
    return folder / "model.onnx"


CLASSES = ["--loss", "softmax_cross_entropy"]
BATCHES = ["--batch-size", 4, "--optimizer", "sgd"]


class Run:
    """Runs `mpc train` in `folder` and keeps the exit code, notes, metrics and
    output."""

    def __init__(self, folder, model, *flags, rate=0.001):
        metrics, output = folder / "metrics.jsonl", folder / "trained.onnx"
        for old in (metrics, output):
            old.unlink(missing_ok=True)
        self.process = mpctest.mpc(
            *("train", model, *BATCHES, "--lr", rate, "--metrics", metrics),
            *("--output", output, *mpctest.TARGET, *flags),
        )
        self.code, self.text = self.process.returncode, self.process.stderr
        if self.code == 0:
            self.metrics = mpctest.read_metrics(metrics)
            self.losses = mpctest.losses(self.metrics)
            self.data = self.metrics[0]["data"]
            self.bytes = output.read_bytes()


def images(count=18, channels=3, height=6, width=5):
    random = np.random.RandomState(1)
    return {
        "x": random.randint(0, 256, (count, channels, height, width), np.uint8),
        "target": random.randint(0, 2, count),
    }


def test_shards_are_one_array(tmp_path):
    model, data = image_model(tmp_path, 3, 6, 5), images()
    np.savez(tmp_path / "whole.npz", **data)
    for i, rows in enumerate((slice(0, 5), slice(5, 6), slice(6, 18))):
        np.savez(tmp_path / f"s{i}.npz", **{k: v[rows] for k, v in data.items()})
        np.save(tmp_path / f"x{i}.npy", data["x"][rows])
    np.save(tmp_path / "target.npy", data["target"])
    whole = Run(tmp_path, model, *CLASSES, "--data", tmp_path / "whole.npz")
    assert whole.code == 0, whole.text
    for flags in (
        [f for i in range(3) for f in ("--data", tmp_path / f"s{i}.npz")],
        ["--data", tmp_path / "s?.npz"],
        ["--data", f"x={tmp_path}/x*.npy", "--data", tmp_path / "target.npy"],
    ):
        run = Run(tmp_path, model, *CLASSES, *flags)
        assert run.code == 0, run.text
        assert (run.bytes, run.data) == (whole.bytes, whole.data)


def test_a_shard_that_does_not_fit_is_named(tmp_path):
    model, data = image_model(tmp_path, 3, 6, 5), images()
    np.savez(tmp_path / "a.npz", **data)
    np.savez(tmp_path / "b.npz", **{**data, "x": data["x"].astype(np.float32)})
    run = Run(
        tmp_path,
        *(model, *CLASSES, "--data", tmp_path / "a.npz"),
        *("--data", tmp_path / "b.npz"),
    )
    assert run.code == INVALID
    assert f"b.npz: x: is f32, in {tmp_path}/a.npz it is u8" in run.text


@pytest.mark.parametrize("member", ["x", "unused"])
def test_what_no_input_takes_is_not_inflated(member, tmp_path):
    """The values may be damaged, or be gigabytes of zeros."""
    path = tmp_path / "a.npz"
    np.savez(path, unused=np.zeros(100000, np.int32), **images())
    with zipfile.ZipFile(path) as archive:
        place = archive.getinfo(member + ".npy")
    content = bytearray(path.read_bytes())
    lengths = struct.unpack_from("<HH", content, place.header_offset + 26)
    end = place.header_offset + 30 + sum(lengths) + place.compress_size
    content[end - 1] ^= 1
    path.write_bytes(content)
    model = image_model(tmp_path, 3, 6, 5)
    run = Run(tmp_path, model, *CLASSES, "--data", path)
    evaluation = mpctest.mpc("run", model, "--data", path, *mpctest.TARGET)
    if member == "x":
        assert run.code == evaluation.returncode == INVALID
        assert "a.npz:x.npy: corrupt" in run.text
        assert "a.npz:x.npy: corrupt" in evaluation.stderr
    else:
        assert run.code == 0, run.text
        assert evaluation.returncode == 0, evaluation.stderr
        assert "no input takes 'unused'" in run.text


def test_normalize_is_what_torchvision_computes(tmp_path):
    model, data = image_model(tmp_path, 3, 6, 5), images()
    mean, deviation = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    np.savez(tmp_path / "u8.npz", **data)
    # Follows ToTensor and Normalize of torchvision, both in float32.
    column = np.asarray([mean, deviation], np.float32)[..., None, None]
    scaled = data["x"].astype(np.float32) / np.float32(255)
    ready = (scaled - column[0]) / column[1]
    np.savez(tmp_path / "ready.npz", x=ready, target=data["target"])
    flag = ",".join(map(str, mean)) + ":" + ",".join(map(str, deviation))
    made = Run(
        tmp_path,
        *(model, *CLASSES, "--data", tmp_path / "u8.npz", "--normalize", flag),
    )
    given = Run(tmp_path, model, *CLASSES, "--data", tmp_path / "ready.npz")
    assert made.code == 0, made.text
    # The models are equal except for the metadata that records the preparation.
    model = onnx.load_from_string(made.bytes)
    (said,) = [e for e in model.metadata_props if e.key == "mpc.preparation"]
    assert said.value == f"--normalize {flag}"
    model.metadata_props.remove(said)
    assert model == onnx.load_from_string(given.bytes)
    assert "0..255" not in made.text + given.text


def test_images_with_channels_last_are_turned_and_that_is_said(tmp_path):
    model, data = image_model(tmp_path, 3, 6, 5), images()
    np.savez(tmp_path / "first.npz", **data)
    last = np.ascontiguousarray(np.moveaxis(data["x"], 1, -1))
    np.savez(tmp_path / "last.npz", x=last, target=data["target"], more=last)
    first = Run(tmp_path, model, *CLASSES, "--data", tmp_path / "first.npz")
    turned = Run(tmp_path, model, *CLASSES, "--data", tmp_path / "last.npz")
    assert turned.code == 0, turned.text
    assert turned.bytes == first.bytes
    assert "x: converted from channels last [N,6,5,3] to" in turned.text
    assert "x: u8 is taken as it is, 0..255" in turned.text
    assert "last.npz: no input takes 'more'" in turned.text
    assert "turned" not in first.text


def test_what_an_augmented_run_resumes_is_the_same_run(tmp_path):
    model, data = image_model(tmp_path, 3, 6, 5), images()
    np.savez(tmp_path / "data.npz", **data)
    flags = [*CLASSES, "--data", tmp_path / "data.npz", "--normalize", "0:1"]
    checkpoints = ["--checkpoint-dir", tmp_path / "ck", "--checkpoint-every", 1]
    augment = [*flags, "--augment", "flip,crop:2", "--epochs", 3]
    whole = Run(tmp_path, model, *augment)
    again = Run(tmp_path, model, *augment)
    assert again.bytes == whole.bytes
    other = Run(tmp_path, model, *augment, "--seed", 1)
    plain = Run(tmp_path, model, *flags, "--epochs", 3)
    assert len({whole.bytes, other.bytes, plain.bytes}) == 3
    # Each epoch augments an image differently.
    fixed = Run(tmp_path, model, *augment, "--no-shuffle", rate=0)
    epochs = np.reshape(fixed.losses, (3, 4))
    assert len(np.unique(epochs[:, 0])) == 3
    # Stop in the middle of the second epoch.
    part = Run(tmp_path, model, *augment, *checkpoints, "--max-steps", 6)
    assert part.code == 0, part.text
    resumed = Run(tmp_path, model, *augment, *checkpoints, "--resume", "auto")
    assert resumed.code == 0, resumed.text
    assert resumed.bytes == whole.bytes
    changed = Run(tmp_path, model, *flags, *checkpoints, "--resume", "auto")
    assert changed.code == 8
    assert "--augment flip,crop:2" in changed.text


@pytest.mark.parametrize("kind", ["rgb", "grey", "channels last"])
def test_images_are_read_as_pillow_reads_them(kind, tmp_path):
    last = kind == "channels last"
    with np.load(IMAGES / "pixels.npz") as arrays:
        pixels = arrays["grey" if kind == "grey" else "rgb"]
        target = arrays["target"].astype(np.int64)
    model = image_model(tmp_path, pixels.shape[1], 9, 12, last)
    if last:
        pixels = np.ascontiguousarray(np.moveaxis(pixels, 1, -1))
    np.savez(tmp_path / "pixels.npz", x=pixels, target=target)
    flags = [*CLASSES, "--normalize", "0.5:0.25", "--epochs", 2]
    files = Run(tmp_path, model, *flags, "--data", f"x={IMAGES / 'folder'}")
    arrays = Run(tmp_path, model, *flags, "--data", tmp_path / "pixels.npz")
    assert files.code == 0, files.text
    # The models are equal, except that a folder has names of classes.
    model = onnx.load_from_string(files.bytes)
    (names,) = [e for e in model.metadata_props if e.key == "mpc.classes"]
    assert names.value == '["ant","bee"]'
    model.metadata_props.remove(names)
    assert model == onnx.load_from_string(arrays.bytes)
    assert files.data == arrays.data
    assert "8 images of 2 labels: 0 ant, 1 bee" in files.text


def test_a_run_takes_images(tmp_path):
    """The batch is smaller than the data, and images are prepared as in
    training."""
    model = image_model(tmp_path, 3, 9, 12)
    outputs = []
    with np.load(IMAGES / "pixels.npz") as arrays:
        x = (arrays["rgb"].astype(np.float32) / np.float32(255) - 0.5) / 0.25
    np.savez(tmp_path / "x.npz", x=x.astype(np.float32))
    for flags in (
        ["--data", f"x={IMAGES / 'folder'}", "--normalize", "0.5:0.25"],
        ["--data", tmp_path / "x.npz"],
    ):
        mpctest.mpc_ok(
            *("run", model, *flags, "--batch-size", 3, "-o", tmp_path / "out.npz")
        )
        with np.load(tmp_path / "out.npz") as arrays:
            outputs.append(dict(arrays))
    files, arrays = outputs
    for name, value in arrays.items():
        assert value.shape[0] == x.shape[0]
        np.testing.assert_allclose(files[name], value, rtol=1e-4, atol=1e-5)


def test_single_images_are_samples(tmp_path):
    """The images of a folder, one by one or by a pattern, give what the folder
    gives, in this order."""
    model = image_model(tmp_path, 3, 9, 12)
    files = sorted((IMAGES / "folder/ant").iterdir())
    assert len(files) > 1
    outputs = []
    for data in (
        [f"x={IMAGES / 'folder/ant'}"],
        files,
        [f"x={IMAGES / 'folder/ant'}/*"],
        [f"x={file}" for file in files],
    ):
        flags = [word for file in data for word in ("--data", file)]
        done = mpctest.mpc_ok(
            *("run", model, *flags, "--normalize", "0:1", "-o", tmp_path / "out.npz")
        )
        assert done.stderr.count("1 image") == 0
        with np.load(tmp_path / "out.npz") as arrays:
            outputs.append(dict(arrays))
    assert list(outputs[0]["file"]) == [str(file) for file in files]
    for other in outputs[1:]:
        assert other.keys() == outputs[0].keys()
        for name, value in other.items():
            np.testing.assert_array_equal(value, outputs[0][name])
    lone = Run(tmp_path, model, *CLASSES, "--data", files[0])
    assert lone.code == INVALID
    assert "no array is called 'target'" in lone.text


def test_a_damaged_image_is_named(tmp_path):
    model = image_model(tmp_path, 3, 9, 12)
    shutil.copytree(IMAGES / "folder", tmp_path / "folder")
    path = tmp_path / "folder" / "ant" / "baseline.jpg"
    path.write_bytes(path.read_bytes()[:500])
    run = Run(tmp_path, model, *CLASSES, "--data", f"x={tmp_path}/folder")
    assert run.code == INVALID
    assert "ant/baseline.jpg: Premature end of JPEG file" in run.text


def test_labels_of_validation_images_are_those_of_training(tmp_path):
    model = image_model(tmp_path, 3, 9, 12)
    shutil.copytree(IMAGES / "folder", tmp_path / "held")
    flags = [*CLASSES, "--data", f"x={IMAGES / 'folder'}"]
    held = ["--val-data", f"x={tmp_path / 'held'}"]
    assert Run(tmp_path, model, *flags, *held).code == 0
    shutil.move(tmp_path / "held" / "ant", tmp_path / "held" / "wasp")
    run = Run(tmp_path, model, *flags, *held)
    assert run.code == INVALID
    assert "has other labels than" in run.text


def test_a_label_may_have_no_images(tmp_path):
    """A label without images is an error, unless the user allows it."""
    model = image_model(tmp_path, 3, 9, 12)
    held = tmp_path / "held"
    shutil.copytree(IMAGES / "folder", held)
    for file in (held / "ant").iterdir():
        file.unlink()
    flags = [*CLASSES, "--data", f"x={IMAGES / 'folder'}", "--val-data", f"x={held}"]
    run = Run(tmp_path, model, *flags)
    assert run.code == INVALID
    assert "ant: the folder of a label has no JPEG or PNG images" in run.text
    assert "remove the folder, or say --allow-empty" in run.text
    run = Run(tmp_path, model, *flags, "--allow-empty")
    assert run.code == 0, run.text
    assert "; no sample of 0 ant" in run.text
    samples = tmp_path / "samples"
    for label in "abc":
        (samples / label).mkdir(parents=True)
    np.save(samples / "b/1.npy", np.zeros((3, 9, 12), np.float32))
    flags = [*CLASSES, "--batch-size", 1, "--data", f"x={samples}"]
    run = Run(tmp_path, model, *flags)
    assert run.code == INVALID
    assert "a: the folder of a label has no .npy files; remove" in run.text
    run = Run(tmp_path, model, *flags, "--allow-empty")
    assert run.code == 0, run.text
    assert "1 samples of 3 labels: 0 a, 1 b, 2 c; no sample of 0 a, 2 c" in run.text


def test_folders_are_at_most_the_classes_of_the_model(tmp_path):
    folder = tmp_path / "many"
    shutil.copytree(IMAGES / "folder", folder)
    for i in range(20):
        shutil.copytree(folder / "ant", folder / f"bee{i:02}")
    model = image_model(tmp_path, 3, 9, 12)
    run = Run(tmp_path, model, *CLASSES, "--data", f"x={folder}")
    assert run.code == INVALID
    assert " folders of labels, from 'ant' to '" in run.text
    assert "'; the model has " in run.text


def write_csv(path, header, rows):
    lines = [",".join(header), *(",".join(map(repr, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")


def test_tables_train_as_their_arrays_do(tmp_path):
    random = np.random.RandomState(3)
    table = random.standard_normal((12, 5)).round(3)
    write_csv(tmp_path / "t.csv", "a b target c d".split(), table.tolist())
    target = table[:, 2:3]
    features = np.delete(table, 2, axis=1)
    one = row_model(tmp_path, {"x": 4})
    np.savez(tmp_path / "one.npz", x=features, target=target)
    flags = ["--loss", "mse", "--data", tmp_path / "t.csv"]
    runs = [
        Run(tmp_path, one, "--loss", "mse", "--data", tmp_path / "one.npz"),
        Run(tmp_path, one, *flags),
        Run(tmp_path, one, *flags, "--csv-columns", "x=a,b,c:d"),
    ]
    assert [run.code for run in runs] == [0] * 3, [run.text for run in runs]
    assert len({run.bytes for run in runs}) == 1
    two = row_model(tmp_path, {"x": 3, "c": 1})
    chosen = {"x": table[:, [3, 0, 4]], "c": table[:, 3:4]}
    np.savez(tmp_path / "two.npz", **chosen, target=target)
    columns = ["--csv-columns", "x=c,a,d", "--csv-columns", "c=c"]
    runs = [
        Run(tmp_path, two, "--loss", "mse", "--data", tmp_path / "two.npz"),
        Run(tmp_path, two, *flags, *columns),
    ]
    assert [run.code for run in runs] == [0] * 2, [run.text for run in runs]
    assert runs[0].bytes == runs[1].bytes
    # The target is one of these arrays. A flag can choose another array.
    other = Run(tmp_path, one, *flags, "--target-array", "a")
    assert other.code == 0, other.text


def test_a_value_that_is_missing_is_located(tmp_path):
    model = row_model(tmp_path, {"x": 2})
    path = tmp_path / "t.csv"
    path.write_text("name,a,b,target\nann,1,2,3\nbob,,5,6\n")
    flags = ["--loss", "mse", "--data", path]
    run = Run(tmp_path, model, *flags, "--csv-columns", "x=a,b")
    assert run.code == INVALID
    assert "t.csv: line 3, column 'a': a value is missing" in run.text
    run = Run(tmp_path, model, *flags, "--csv-columns", "x=name,b")
    assert run.code == INVALID
    assert "t.csv: line 2, column 'name': 'ann' is not a finite" in run.text
    run = Run(tmp_path, model, *flags)
    assert run.code == INVALID
    assert "3 columns are left for the input 'x', which takes 2" in run.text


def test_a_label_or_index_out_of_range_is_located(tmp_path):
    nodes = [
        helper.make_node("Gather", ["table", "city"], ["rows"], "embedding"),
        helper.make_node("Add", ["rows", "x"], ["logits"], "sum"),
    ]
    inputs = {"city": (np.int64, ["N"]), "x": (np.float32, ["N", 3])}
    outputs = {"logits": (np.float32, ["N", 3])}
    table = {"table": np.zeros((4, 3), np.float32)}
    path = tmp_path / "city.onnx"
    onnx.save(mpctest.make_model(nodes, inputs, outputs, table), path)
    flags = ["--data", tmp_path / "t.csv", "--csv-columns", "x=a:c"]
    loss = ["--loss", "cross_entropy", "--batch-size", 2, "--max-steps", 1]
    for rows, message in (
        ("1,1,2,3,0\n\n7,1,2,3,1\n", "line 4, column 'city': index 7 is not in [-4,4)"),
        ("1,1,2,3,0\n\n1,1,2,3,5\n", "line 4, column 'target': label 5 is not in [0,3)"),
        ("1,1,2,3,0\n1,1,2,3,1.5\n", "line 3, column 'target': 1.5 is not an integer"),
        ("1,1,2,3,0\n1,1,2,1e39,1\n", "line 3, column 'c': 1e+39 does not fit"),
    ):
        (tmp_path / "t.csv").write_text("city,a,b,c,target\n" + rows)
        done = mpctest.mpc("train", path, *flags, *loss)
        assert done.returncode == INVALID
        assert f"t.csv: {message}" in done.stderr


def test_text_beside_numbers_is_left_out(tmp_path):
    """mpc run --output writes such files. Text is an error only if it is used."""
    model = row_model(tmp_path, {"x": 2})
    arrays = {"x": np.ones((4, 2)), "target": np.ones((4, 1)), "name": ["é"] * 4}
    np.savez(tmp_path / "t.npz", **arrays)
    flags = ["--loss", "mse", "--data", tmp_path / "t.npz"]
    run = Run(tmp_path, model, *flags)
    assert run.code == 0, run.text
    assert "no input takes 'name'" in run.text
    run = Run(tmp_path, model, *flags, "--target-array", "name")
    assert run.code == INVALID
    assert "t.npz:name.npy: element type '<U1' is not one of" in run.text
    assert "this is text" in run.text


@pytest.mark.parametrize(
    "flags, text",
    [
        (["--normalize", "1:0"], "--normalize 1:0: expected [NAME=]MEAN:STD"),
        (["--normalize", "z=0:1"], "no input is called 'z' but 'x'"),
        (["--augment", "rotate"], "--augment rotate: expected flip"),
        (["--augment", "crop:6"], "a padding of 6 is as large as the image"),
        (["--input-layout", "NHWC"], "expected [NAME=]channels-first"),
        (["--csv-columns", "x=a"], "--csv-columns has no effect"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused(flags, text, tmp_path):
    np.savez(tmp_path / "data.npz", **images())
    run = Run(
        tmp_path,
        image_model(tmp_path, 3, 6, 5),
        *(*CLASSES, "--data", tmp_path / "data.npz", *flags),
    )
    assert run.code == USAGE
    assert text in run.text


def test_splits_keep_the_proportions_of_classes(tmp_path):
    model = image_model(tmp_path, 3, 6, 5, bias=1e6)
    data = images(40)
    data["target"] = np.arange(40) // 36  # 36 of class 0, 4 of class 1
    np.savez(tmp_path / "data.npz", **data)
    flags = [*CLASSES, "--data", tmp_path / "data.npz", "--val-split", 0.25]
    for seed in range(4):
        run = Run(tmp_path, model, *flags, "--seed", seed, rate=0)
        assert run.code == 0, run.text
        held = [m for m in run.metrics if m["event"] == "eval"][-1]
        # The model predicts class 0 for every sample: nine of ten are right.
        assert (held["eval_samples"], held["eval_accuracy"]) == (10, 0.9)


def evaluate(model, *flags):
    """Returns the loss that `mpc eval` computes."""
    process = mpctest.mpc_ok("eval", model, *flags, "--format", "jsonl")
    return json.loads(process.stdout)["eval_loss"]


def test_evaluations_take_the_same_data(tmp_path):
    model = image_model(tmp_path, 3, 9, 12)
    with np.load(IMAGES / "pixels.npz") as arrays:
        pixels, target = arrays["rgb"], arrays["target"]
    ready = (pixels.astype(np.float32) / np.float32(255) - 0.5) / 0.25
    np.savez(tmp_path / "u8.npz", x=pixels, target=target)
    np.savez(tmp_path / "ready.npz", x=ready.astype(np.float32), target=target)
    normalize = ["--normalize", "0.5:0.25"]
    expected = evaluate(model, *CLASSES, "--data", tmp_path / "ready.npz")
    for data in (tmp_path / "u8.npz", f"x={IMAGES / 'folder'}"):
        assert evaluate(model, *CLASSES, *normalize, "--data", data) == expected
    rows = np.arange(12).reshape(4, 3) / 8
    write_csv(tmp_path / "t.csv", ["a", "b", "target"], rows.tolist())
    np.savez(tmp_path / "rows.npz", x=rows[:, :2], target=rows[:, 2:])
    table = row_model(tmp_path, {"x": 2})
    losses = [
        evaluate(table, "--loss", "mse", "--data", tmp_path / name)
        for name in ("t.csv", "rows.npz")
    ]
    assert losses[0] == losses[1]


def test_files_larger_than_memory_are_read_in_place(tmp_path):
    # A sparse file: 600 MB of images under a limit of 400 MB.
    model = image_model(tmp_path, 3, 6, 5)
    count = 600_000_000 // (4 * 3 * 6 * 5)
    np.lib.format.open_memmap(
        tmp_path / "x.npy", "w+", np.float32, (count, 3, 6, 5)
    ).flush()
    np.save(tmp_path / "target.npy", np.zeros(count, np.uint8))
    command = [
        *(mpctest.MPC, "train", model, *CLASSES, *BATCHES, "--max-steps", 2),
        *("--data", tmp_path / "x.npy", "--data", tmp_path / "target.npy"),
        *("--output", tmp_path / "o.onnx", "--threads", 1, *mpctest.TARGET),
    ]
    process = subprocess.run(
        ["sh", "-c", 'ulimit -d 400000; exec "$@"', "sh", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=mpctest.TIMEOUT,
        check=False,
    )
    assert process.returncode == 0, process.stderr
