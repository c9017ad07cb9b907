"""The exports that docs/exporting.md recommends train.

PyTorch's snippets run if PyTorch is installed (tools/models/requirements.txt),
and mpc trains as PyTorch does. test/data/exporters keeps the files that the
snippets of Keras and scikit-learn wrote. These snippets run where their
packages are installed.

SPDX-License-Identifier: Apache-2.0
"""

import copy
import importlib.util
import os

import numpy as np
import onnx
import pytest

import mpctest

EXPORTERS = mpctest.DATA / "exporters"
BATCH, STEPS, RATE = 8, 3, 0.05


def load_maker():
    path = EXPORTERS / "make_exporters.py"
    spec = importlib.util.spec_from_file_location("make_exporters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKER = load_maker()


def execute(snippets, folder):
    """Executes snippets in a folder and returns the names that they define."""
    names, here = {}, os.getcwd()
    os.chdir(folder)
    try:
        for snippet in snippets:
            exec(compile(snippet, str(MAKER.DOCUMENT), "exec"), names)
    finally:
        os.chdir(here)
    return names


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Returns the folder where the snippets have written their files, and the
    model."""
    torch = pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("exporting")
    snippets = []
    for title in ("", "PyTorch, today's exporter", "PyTorch, the older exporter"):
        snippets += MAKER.read_section(title)
    assert len(snippets) == 4
    torch.manual_seed(0)
    return folder, execute(snippets, folder)["model"]


@pytest.mark.parametrize("file", ["model", "dynamic", "older"])
def test_snippets_write_what_can_be_trained(file, exported, tmp_path):
    import torch

    folder, model = exported
    path = folder / f"{file}.onnx"
    ops = {node.op_type for node in onnx.load(path).graph.node}
    assert {"BatchNormalization", "Dropout", "LayerNormalization"} <= ops
    random = np.random.RandomState(0)
    data = {
        "image": random.standard_normal((BATCH * STEPS, 1, 8, 8)),
        "target": random.randint(0, 3, BATCH * STEPS),
    }
    data["image"] = data["image"].astype(np.float32)
    names = [value.name for value in onnx.load(path).graph.input]
    assert len(names) == 1
    data[names[0]] = data.pop("image")
    metrics, _ = mpctest.train(
        path,
        data,
        tmp_path,
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", RATE, "--batch-size", BATCH, "--max-steps", STEPS),
    )
    # Dropout drops other elements than in PyTorch, so the losses are only
    # close.
    model = copy.deepcopy(model).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    expected = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        scores = model(torch.from_numpy(data[names[0]][rows]))
        labels = torch.from_numpy(data["target"][rows])
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=0.2)


def test_quantised_snippet_trains_as_in_pytorch(tmp_path):
    """Numbers halfway between two steps may round differently: the greatest
    weight is one."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torch.ao.quantization")
    torch.manual_seed(0)
    snippets = MAKER.read_section("") + MAKER.read_section(
        "PyTorch, for quantisation"
    )
    model = execute(snippets, tmp_path)["quantized"]
    random = np.random.RandomState(0)
    image = random.standard_normal((BATCH * STEPS, 1, 8, 8)).astype(np.float32)
    target = random.randint(0, 3, BATCH * STEPS)
    metrics, weights = mpctest.train(
        tmp_path / "quantized.onnx",
        {"image": image, "target": target},
        tmp_path,
        *("--loss", "softmax_cross_entropy", "--optimizer", "sgd"),
        *("--lr", RATE, "--batch-size", BATCH, "--max-steps", STEPS),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    expected = []
    for step in range(STEPS):
        rows = slice(step * BATCH, (step + 1) * BATCH)
        labels = torch.from_numpy(target[rows])
        scores = model(torch.from_numpy(image[rows]))
        loss = torch.nn.functional.cross_entropy(scores, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    np.testing.assert_allclose(mpctest.losses(metrics), expected, rtol=1e-3)
    for name, parameter in model.named_parameters():
        error = np.abs(weights[name] - parameter.detach().numpy())
        assert np.median(error) < 1e-6 and error.max() < 5e-3, name


# The section, its file, one sample's input shape, and the needed packages.
OTHERS = [
    ("Keras", "keras.onnx", (8, 8, 1), ["keras", "tensorflow", "tf2onnx"]),
    ("scikit-learn", "sklearn.onnx", (4,), ["sklearn", "skl2onnx"]),
]


def check_learning(path, shape, folder):
    """Trains on samples that show their class."""
    random = np.random.RandomState(0)
    target = np.arange(60) % 3
    samples = random.standard_normal((60, *shape)) / 4
    samples.reshape(60, -1)[np.arange(60), target] += 2
    (name,) = [value.name for value in onnx.load(path).graph.input]
    metrics, weights = mpctest.train(
        path,
        {name: samples.astype(np.float32), "target": target},
        folder,
        *("--loss", "softmax_cross_entropy", "--optimizer", "adam"),
        *("--lr", 0.02, "--batch-size", 20, "--epochs", 60),
    )
    losses = mpctest.losses(metrics)
    assert losses[-1] < 0.2 * losses[0]
    before = mpctest.read_weights(path)
    # Both layers have a bias.
    changed = [k for k, v in weights.items() if not np.array_equal(v, before[k])]
    assert len(changed) == 4, changed


@pytest.mark.parametrize("title, name, shape, packages", OTHERS)
def test_files_of_other_exporters_learn(title, name, shape, packages, tmp_path):
    check_learning(EXPORTERS / name, shape, tmp_path)


@pytest.mark.parametrize("title, name, shape, packages", OTHERS)
def test_files_were_written_by_the_snippets(title, name, shape, packages):
    model = onnx.load(EXPORTERS / name)
    (made,) = [p.value for p in model.metadata_props if p.key == "snippet"]
    assert made == MAKER.digest(title), "run make_exporters.py again"


@pytest.mark.parametrize("title, name, shape, packages", OTHERS)
def test_snippets_of_other_exporters(title, name, shape, packages, tmp_path):
    for package in packages:
        pytest.importorskip(package)
    execute(MAKER.read_section(title), tmp_path)
    check_learning(tmp_path / name, shape, tmp_path)


def make_encoder():
    """Returns linear layers over tokens, whose weights the older exporter
    transposes and numbers. They are in lists, dictionaries and sequences of
    modules, with and without a bias, called twice, and in an attention."""
    import torch

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.query = torch.nn.Linear(8, 8)
            self.key = torch.nn.Linear(8, 8, bias=False)

        def forward(self, x):
            return self.query(x) + torch.tanh(self.key(x))

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.ModuleDict({"self": Attention()})
            inner = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 8))
            self.ff = torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False), inner)

        def forward(self, x):
            x = self.ff(self.attention["self"](x))
            return x + self.ff(x)

    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.ModuleList([Layer(), Layer()])
            self.mha = torch.nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = torch.nn.Linear(8, 3)

        def forward(self, x):
            for layer in self.layer:
                x = layer(x)
            return self.head(self.mha(x, x, x)[0])

    return Encoder()


@pytest.mark.parametrize("mode", ["TRAINING", "EVAL"])
def test_numbered_weights_have_the_programs_names(mode, tmp_path):
    """`state_dict` loads into the model and comes out again, whatever the older
    exporter has folded."""
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    torch.manual_seed(0)
    exported, started = make_encoder(), make_encoder()
    path = tmp_path / "encoder.onnx"
    torch.onnx.export(
        exported,
        (torch.randn(4, 5, 8),),
        path,
        **{"dynamo": False, "opset_version": 17, "input_names": ["x"]},
        training=getattr(torch.onnx.TrainingMode, mode),
    )
    folded = [i.name for i in onnx.load(path).graph.initializer if "::" in i.name]
    assert len(folded) == 10, folded
    start = tmp_path / "start.safetensors"
    safetensors.save_file(started.state_dict(), start)
    random = np.random.RandomState(0)
    data = {
        "x": random.standard_normal((8, 5, 8)).astype(np.float32),
        "target": random.standard_normal((8, 5, 3)).astype(np.float32),
    }
    np.savez(tmp_path / "data.npz", **data)
    flags = ("--loss", "mse", "--lr", 0.1, "--no-shuffle", "--max-steps", 2)
    trained = tmp_path / "trained.safetensors"
    process = mpctest.mpc_ok(
        *("train", path, "--data", tmp_path / "data.npz", *flags),
        *("--weights", start, "--output", trained),
    )
    assert "not in --weights" not in process.stderr, process.stderr
    values = safetensors.load_file(trained)
    assert set(values) == set(started.state_dict())
    optimizer = torch.optim.SGD(started.parameters(), lr=0.1)
    for rows in (slice(0, 4), slice(4, 8)):
        scores = started(torch.from_numpy(data["x"][rows]))
        wanted = torch.from_numpy(data["target"][rows])
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(scores, wanted).backward()
        optimizer.step()
    for name, value in started.state_dict().items():
        torch.testing.assert_close(values[name], value, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exporter", ["today's", "older"])
def test_a_tied_weight_is_loaded_back(exporter, tmp_path):
    """The file knows the tied weight by one name. The given weights use the
    other name."""
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")

    def make_tied():
        model = torch.nn.Sequential()
        model.add_module("embedding", torch.nn.Embedding(11, 6))
        model.add_module("act", torch.nn.GELU())
        model.add_module("head", torch.nn.Linear(6, 11, bias=False))
        model.head.weight = model.embedding.weight
        return model

    torch.manual_seed(0)
    model = make_tied()
    older = dict(dynamo=False, do_constant_folding=False)
    older["training"] = torch.onnx.TrainingMode.TRAINING
    flags = older if exporter == "older" else dict(dynamo=True, optimize=False)
    tokens = torch.randint(0, 11, (4, 5))
    file, data = tmp_path / "tied.onnx", tmp_path / "data.npz"
    torch.onnx.export(model, (tokens,), file, input_names=["x"], **flags)
    target = torch.randint(0, 11, (4, 5))
    np.savez(data, x=tokens.numpy(), target=target.numpy())
    # The name in the file, and the other name, under which initial weights are
    # given.
    (name,) = [t.name for t in onnx.load(file).graph.initializer if len(t.dims) == 2]
    names = ["embedding.", "head."]
    names.remove(name.removesuffix("weight"))
    start = 0.1 * torch.randn(11, 6)
    np.savez(tmp_path / "start.npz", **{names[0] + "weight": start.numpy()})
    output = tmp_path / "trained.safetensors"
    mpctest.mpc_ok(
        *("train", file, "--data", data, "--loss", "cross_entropy"),
        *("--weights", tmp_path / "start.npz", "--weights-prefix"),
        *(names[0] + "=" + name.removesuffix("weight"), "--optimizer", "sgd"),
        *("--lr", "0.1", "--batch-size", "4", "--max-steps", "1"),
        *("--precision", "32-true", "--output", output),
    )
    # The program does one step from the given weights. A program then loads
    # mpc's weights.
    with torch.no_grad():
        model.head.weight.copy_(start)
    scores = model(tokens).flatten(0, 1)
    torch.nn.functional.cross_entropy(scores, target.flatten()).backward()
    expected = start - 0.1 * model.head.weight.grad
    loaded = make_tied()
    keys = loaded.load_state_dict(safetensors.load_file(output), strict=False)
    assert keys.missing_keys == [names[0] + "weight"] and not keys.unexpected_keys
    torch.testing.assert_close(loaded.embedding.weight.detach(), expected.detach())
    assert loaded.head.weight is loaded.embedding.weight
