"""Executes every command of the documents and compares its output with the
shown lines, except for numbers.

The commands of a document run in order, in a folder with the files that they
name. Some test executes every fenced block, or finds the block in the sources.

SPDX-License-Identifier: Apache-2.0
"""

import gzip
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import safetensors.numpy
from onnx import helper

import documents
import mpctest

# The tests that execute the blocks of a language, in all documents or in one.
EXECUTED = {
    "console": "test_readme.py, test_documents.py",
    "exporting.md python": "test_exporting.py, test_documents.py",
    "README.md python": "test_documents.py",
    "data.md python": "test_documents.py",
    "fine-tuning.md python": "test_documents.py",
    "python.md python": "test/python/test_document.py",
    "toml": "test_documents.py",
    "json": "test_documents.py",
    "c": "test_install.py, test_ranks_embedding.py",
    "embedding.md bash": "test_ranks_embedding.py",
    "cmake": "test_install.py",
    "filecheck": "test/tools/mpc/commands/documented-decision.test",
    "adding-an-op.md c++": "test_documents.py, which finds it in the sources, "
    "FormulasTest.cpp",
    "adding-an-op.md tablegen": "test_documents.py, which finds it in the sources",
    # Blocks without a language: output and diagrams.
    "": "",
}
FILES = {path.name: path for path in documents.DOCUMENTS}


@pytest.mark.parametrize("name", FILES)
def test_every_block_is_executed(name):
    for language, text in documents.read_blocks(FILES[name]):
        assert language in EXECUTED or f"{name} {language}" in EXECUTED, text
        if not language:
            assert not re.search(r"^(\$ |mpc )", text, re.M), text
    indented = re.findall(r"^    (?:\$ |mpc |mpc-opt ).*", FILES[name].read_text(), re.M)
    assert not indented, "not in a console block: " + indented[0]


MARKDOWN = documents.list_markdown()


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_lead_somewhere(name):
    for target, path, heading in documents.read_links(mpctest.ROOT / name):
        assert path.exists(), target
        assert not heading or heading in documents.read_headings(path), target


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_show_their_paths(name):
    """A link whose text is a path leads to this path, or to the folder's README."""
    text = (mpctest.ROOT / name).read_text()
    for shown, target in re.findall(r"\[`([\w./-]+)`\]\(([^)\s#]+)\)", text):
        if "/" in shown or "." in shown:
            path = (mpctest.ROOT / name).parent / target.removesuffix("/README.md")
            assert str(path.resolve()).endswith("/" + shown.strip("/")), target


@pytest.mark.parametrize("name", MARKDOWN)
def test_named_files_are_there(name):
    folder = (mpctest.ROOT / name).parent
    for word in documents.read_paths(mpctest.ROOT / name):
        bases = [mpctest.ROOT, folder]
        found = [base for base in bases if documents.finds(base, word)]
        assert found, f"{word} is in no folder"


def test_every_document_is_linked():
    """The index, or a document that it leads to, links each document."""
    seen, ahead = set(), [documents.INDEX.resolve()]
    while ahead:
        path = ahead.pop()
        if path not in seen and path.suffix == ".md":
            seen.add(path)
            links = documents.read_links(path)
            ahead += [linked.resolve() for _, linked, _ in links if linked.is_file()]
    missing = {name for name in MARKDOWN if (mpctest.ROOT / name).resolve() not in seen}
    assert not missing


def list_rooms():
    """Folders of product sources."""
    tops = ("compiler", "passes", "frontends", "runtime", "tools/mpc")
    sources = [path for top in tops for path in (mpctest.ROOT / top).rglob("*.cpp")]
    return sorted({str(path.parent.relative_to(mpctest.ROOT)) for path in sources})


def test_every_room_is_explained():
    """A folder of sources, or the folder around it, has a README."""
    for room in list_rooms():
        folder = mpctest.ROOT / room
        readmes = [folder / "README.md", folder.parent / "README.md"]
        assert any(path.exists() for path in readmes), room


#===------------------------------------------------------------------------===#
# Files that the commands of each document need
#===------------------------------------------------------------------------===#


def linear(name, x, y):
    inputs = [x, name + ".weight", name + ".bias"]
    return helper.make_node("Gemm", inputs, [y], name, transB=1)


def parameters(**shapes):
    random = np.random.default_rng(0)
    values = {}
    for name, (outputs, inputs) in shapes.items():
        values[name + ".weight"] = random.normal(0, inputs**-0.5, (outputs, inputs))
        values[name + ".bias"] = np.zeros(outputs)
    return {name: value.astype(np.float32) for name, value in values.items()}


def make_perceptron(path, inputs=4, classes=3):
    model = mpctest.make_model(
        [linear("fc", "x", "y")],
        {"x": (np.float32, ["N", inputs])},
        {"y": (np.float32, ["N", classes])},
        parameters(fc=(classes, inputs)),
    )
    onnx.save(model, path)


def draw(count, inputs=4, classes=3):
    """Draws samples from which the class can be learned."""
    random = np.random.default_rng(1)
    labels = random.integers(0, classes, count)
    samples = random.normal(0, 1, (count, inputs))
    samples[np.arange(count), labels] += 3
    return samples.astype(np.float32), labels


def set_up_digits(folder):
    for name in ("model", "trained"):
        shutil.copy(mpctest.MODELS / "digits-cnn.onnx", folder / f"{name}.onnx")
    shutil.copy(mpctest.DIGITS / "digits-train.npz", folder / "train.npz")
    for name in ("test", "val", "held"):
        shutil.copy(mpctest.DIGITS / "digits-test.npz", folder / f"{name}.npz")


def set_up_exporting_trained(folder):
    set_up_digits(folder)
    shutil.copy(folder / "model.onnx", folder / "serve.onnx")


def set_up_artifacts(folder):
    """ONNX Runtime's artifacts of LeNet, and digits of its size."""
    names = ("training_model", "eval_model", "optimizer_model")
    (folder / "artifacts").mkdir()
    for name in names:
        path = mpctest.DATA / "ort-lenet" / f"{name}.onnx"
        shutil.copy(path, folder / "artifacts")
    shutil.copy(mpctest.MODELS / "lenet.onnx", folder / "model.onnx")
    with np.load(mpctest.DIGITS / "digits-train.npz") as digits:
        image = digits["image"].repeat(4, axis=2).repeat(4, axis=3).astype("f4")
        labels = digits["target"].astype("i8")
    np.savez(folder / "train.npz", image=image, labels=labels)


def set_up_command_line(folder):
    set_up_digits(folder)
    (folder / ".zfunc").mkdir()
    (recipe,) = documents.read_blocks(FILES["command-line.md"], "toml")
    (folder / "recipe.toml").write_text(recipe)


def set_up_data(folder):
    make_perceptron(folder / "model.onnx")
    for part in range(2):
        samples, labels = draw(64)
        np.savez(folder / f"shard-{part}.npz", x=samples, target=labels)
        np.save(folder / f"images-{part}.npy", samples)
        np.save(folder / f"labels-{part}.npy", labels)

    # Tokens in the document's file format, for a model with a small vocabulary.
    np.arange(3000).astype(np.uint16).__mod__(7).tofile(folder / "train.bin")
    (cut,) = documents.read_blocks(FILES["data.md"], "python")
    run = [sys.executable, "-c", cut]
    subprocess.run(run, check=True, capture_output=True, cwd=folder)
    nodes = [helper.make_node("Gather", ["wte", "idx"], ["logits"], "wte")]
    model = mpctest.make_model(
        nodes,
        {"idx": (np.int64, ["N", 32])},
        {"logits": (np.float32, ["N", 32, 7])},
        {"wte": np.zeros((7, 7), np.float32)},
    )
    onnx.save(model, folder / "gpt.onnx")
    set_up_graph(folder)
    set_up_idx(folder)


def set_up_idx(folder):
    """Writes random images and labels in MNIST's format."""
    shutil.copy(mpctest.MODELS / "lenet.onnx", folder)
    random = np.random.default_rng(4)
    for name, shape, most in (
        ("train-images-idx3-ubyte", (64, 32, 32), 255),
        ("train-labels-idx1-ubyte", (64,), 9),
    ):
        header = bytes([0, 0, 8, len(shape)]) + np.array(shape, ">u4").tobytes()
        values = random.integers(0, most, shape, np.uint8, endpoint=True)
        with gzip.open(folder / f"{name}.gz", "wb") as file:
            file.write(header + values.tobytes())


def set_up_graph(folder):
    """Writes a graph model: 60 nodes, each of whose scores adds another node's."""
    nodes = [
        linear("fc", "x", "h"),
        helper.make_node("Gather", ["h", "edge_index"], ["other"], "other"),
        helper.make_node("Add", ["h", "other"], ["y"], "sum"),
    ]
    model = mpctest.make_model(
        nodes,
        {"x": (np.float32, ["N", 4]), "edge_index": (np.int64, [60])},
        {"y": (np.float32, ["N", 3])},
        parameters(fc=(3, 4)),
    )
    onnx.save(model, folder / "gcn.onnx")
    samples, labels = draw(60)
    edges = np.random.default_rng(3).permutation(60)
    np.savez(folder / "graph.npz", x=samples, edge_index=edges, target=labels)


def set_up_evaluating(folder):
    set_up_digits(folder)
    make_perceptron(folder / "churn.onnx", inputs=3, classes=2)
    rows = "\n".join(f"{i},{20 + i},1.5,{1000 * i},no" for i in range(9))
    (folder / "held.csv").write_text(f"id,age,tenure,income,churned\n{rows}\n")
    model = mpctest.make_model(
        [
            helper.make_node("Flatten", ["x"], ["f"], "flatten"),
            linear("fc", "f", "y"),
        ],
        {"x": (np.float32, ["N", 3, 8, 8])},
        {"y": (np.float32, ["N", 4])},
        parameters(fc=(4, 192)),
    )
    onnx.save(model, folder / "classifier.onnx")
    photos = folder / "photos"
    photos.mkdir()
    for image in (mpctest.DATA / "images" / "folder").rglob("*.png"):
        shutil.copy(image, photos)


def set_up_losses(folder):
    names = {"logits": 5, "aux": 5, "box": 4}
    model = mpctest.make_model(
        [linear(name, "x", name) for name in names],
        {"x": (np.float32, ["N", 6])},
        {name: (np.float32, ["N", size]) for name, size in names.items()},
        parameters(**{name: (size, 6) for name, size in names.items()}),
    )
    onnx.save(model, folder / "model.onnx")
    samples, labels = draw(64, 6, 5)
    np.savez(folder / "train.npz", x=samples, labels=labels, boxes=samples[:, :4])


def set_up_training(folder):
    set_up_digits(folder)
    # Inputs of the example perceptrons, beside the digits.
    random = np.random.default_rng(2)
    for name in ("train", "test"):
        with np.load(folder / f"{name}.npz") as arrays:
            arrays = dict(arrays)
        arrays["x"] = random.normal(0, 1, (len(arrays["target"]), 4)).astype("f4")
        np.savez(folder / f"{name}.npz", **arrays)
    # A backbone whose weights have other names at Hugging Face.
    shapes = {"bert.embeddings": (6, 4), "bert.pooler": (6, 6), "classifier": (10, 6)}
    values = parameters(**shapes)
    del values["bert.embeddings.bias"]
    embed = helper.make_node(
        "Gemm", ["x", "bert.embeddings.weight"], ["e"], "embeddings", transB=1
    )
    layers = [linear("bert.pooler", "e", "p"), linear("classifier", "p", "y")]
    ends = ({"x": (np.float32, ["N", 4])}, {"y": (np.float32, ["N", 10])})
    model = mpctest.make_model([embed, *layers], *ends, values)
    onnx.save(model, folder / "classifier.onnx")
    theirs = {
        name.replace("bert.", "model.", 1): value
        for name, value in values.items()
        if name.startswith("bert.")
    }
    safetensors.numpy.save_file(theirs, folder / "bert.safetensors")
    nodes = [
        linear("fc", "x", "h"),
        helper.make_node("MatMul", ["x", "fc.lora_A"], ["a"], "down"),
        helper.make_node("MatMul", ["a", "fc.lora_B"], ["b"], "up"),
        helper.make_node("Add", ["h", "b"], ["y"], "sum"),
    ]
    values = parameters(fc=(10, 4))
    values["fc.lora_A"] = random.normal(0, 1, (4, 2)).astype(np.float32)
    values["fc.lora_B"] = np.zeros((2, 10), np.float32)
    onnx.save(mpctest.make_model(nodes, *ends, values), folder / "lora.onnx")


def set_up_fine_tuning(folder):
    """Runs the document's Python: downloads the model, makes data from files of
    this tree, and gives the model a new head."""
    kinds = {
        "cpp": "runtime/**/*.cpp",
        "lit": "test/tools/**/*.test",
        "mlir": "test/passes/**/*.mlir",
        "python": "test/e2e/**/*.py",
        "tablegen": "**/*.td",
    }
    for name, pattern in kinds.items():
        (folder / "files" / name).mkdir(parents=True)
        found = sorted(
            path
            for path in mpctest.ROOT.glob(pattern)
            if not path.is_relative_to(mpctest.BUILD)
        )
        for number, path in enumerate(found[:20]):
            shutil.copy(path, folder / "files" / name / f"{number}{path.suffix}")
    blocks = documents.read_blocks(FILES["fine-tuning.md"], "python")
    for number, block in enumerate(blocks):
        run = [sys.executable, "-c", block]
        process = subprocess.run(run, cwd=folder, capture_output=True, text=True)
        if number == 0 and process.returncode != 0:
            pytest.skip("the package magika cannot be downloaded")
        assert process.returncode == 0, process.stderr


def set_up_lora(folder):
    set_up_digits(folder)
    shutil.copy(folder / "train.npz", folder / "more.npz")


def set_up_embedding(folder):
    """Installs mpc at the document's path."""
    set_up_digits(folder)
    if not shutil.which("cc"):
        pytest.skip("no C compiler called cc")
    install = ["cmake", "--install", str(mpctest.BUILD)]
    prefix = ["--prefix", str(folder / ".local")]
    subprocess.run(install + prefix, check=True, capture_output=True)
    program, *_ = documents.read_blocks(FILES["embedding.md"], "c")
    (folder / "train.c").write_text(program)


def set_up_nothing(folder):
    """For documents whose commands name no files."""


SET_UP = {
    "command-line.md": set_up_command_line,
    "data.md": set_up_data,
    "fine-tuning.md": set_up_fine_tuning,
    "embedding.md": set_up_embedding,
    "evaluating.md": set_up_evaluating,
    "exporting-trained.md": set_up_exporting_trained,
    "from-onnxruntime-training.md": set_up_artifacts,
    "from-pytorch.md": set_up_digits,
    "logging.md": set_up_digits,
    "install.md": set_up_nothing,
    "lora.md": set_up_lora,
    "losses.md": set_up_losses,
    "precision.md": set_up_digits,
    "profiling.md": set_up_digits,
    "training.md": set_up_training,
}


#===------------------------------------------------------------------------===#
# The tests
#===------------------------------------------------------------------------===#


def mask(line):
    """Returns a line without its numbers."""
    return re.sub(r"\d[\d.,]*", "#", line.strip())


def test_every_document_with_commands_is_tried():
    have = {name for name, path in FILES.items() if documents.read_commands(path)}
    assert have - {"README.md"} == set(SET_UP)


@pytest.mark.parametrize("name", SET_UP)
def test_commands(name, tmp_path):
    SET_UP[name](tmp_path)
    for command, shown in documents.read_commands(FILES[name]):
        process = documents.execute(command, tmp_path)
        assert process.returncode == 0, f"{command}\n{process.stderr}"
        printed = process.stdout + process.stderr
        lines = {mask(line) for line in printed.splitlines()}
        for line in shown.splitlines():
            assert not line or mask(line) in lines, f"{line}\n{printed}"


def test_the_documented_policy_is_read(tmp_path):
    (policy,) = documents.read_blocks(FILES["precision.md"], "json")
    (tmp_path / "policy.json").write_text(policy)
    command = "mpc explain --print-policy --policy policy.json"
    process = documents.execute(command, tmp_path)
    assert process.returncode == 0, process.stderr
    printed = json.loads(process.stdout)
    assert [rule.get("node") for rule in printed["rules"]] == [
        rule.get("node") for rule in json.loads(policy)["rules"]
    ]
    rows = {row["op"]: row for row in printed["table"]}
    assert rows["softmax"]["bf16"] == "deny"


def read_excerpts():
    """Returns (path, text) of each source excerpt in adding-an-op.md. The path
    stands before its block. The row of LogSigmoid has no path: FormulasTest.cpp
    compiles it."""
    pattern = r"^ *`([\w/.]+)`:\n\n( *)```(?:c\+\+|tablegen)\n(.*?)^\2```"
    text = FILES["adding-an-op.md"].read_text()
    found = re.findall(pattern, text, re.S | re.M)
    assert text.count("```c++") + text.count("```tablegen") == len(found) + 2
    return [
        (path, re.sub(f"^{indent}", "", block, flags=re.M))
        for path, indent, block in found
    ]


@pytest.mark.parametrize("path,excerpt", read_excerpts())
def test_documented_sources_are_there(path, excerpt):
    """The source holds the parts between `...` lines in the same order."""
    source = (mpctest.ROOT / path).read_text()
    place = 0
    for part in re.split(r"^ *\.\.\.\n", excerpt, flags=re.M):
        found = source.find(part, place)
        assert found >= 0, part
        place = found + len(part)


def test_documented_paths_are_there():
    text = FILES["adding-an-op.md"].read_text()
    for path in re.findall(r"`([\w.]+/[\w/.*]+)`", text):
        assert list(mpctest.ROOT.glob(path)), path


def quick_gelu(x):
    return x / (1 + np.exp(-1.5 * x))


# The ops that adding-an-op.md adds: a node and its reference function.
WALKS = {
    "QuickGelu": (dict(domain="com.microsoft", alpha=1.5), [], quick_gelu),
    "CumSum": (dict(exclusive=1), [np.array(1)], lambda x: x.cumsum(1) - x),
}


@pytest.mark.parametrize("name", WALKS)
def test_documented_ops_run_and_have_gradients(name, tmp_path):
    attributes, others, function = WALKS[name]
    inputs = ["scaled", *(f"other{i}" for i in range(len(others)))]
    nodes = [
        helper.make_node("Mul", ["w", "x"], ["scaled"]),
        helper.make_node(name, inputs, ["y"], **attributes),
        helper.make_node("Mul", ["y", "x"], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["loss"], keepdims=0),
    ]
    random = np.random.default_rng(0)
    x, w = random.normal(size=(2, 3, 4))
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, [3, 4])],
        [
            helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, [3, 4]),
            helper.make_tensor_value_info("loss", onnx.TensorProto.DOUBLE, []),
        ],
        [
            onnx.numpy_helper.from_array(array, key)
            for key, array in [("w", w), *zip(inputs[1:], others)]
        ],
    )
    domains = [("", 16), ("com.microsoft", 1)]
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid(*domain) for domain in domains]
    )
    exact = ("--precision", "64-true")
    found = mpctest.run(model, {"x": x}, tmp_path, *exact)
    np.testing.assert_allclose(found["y"], function(w * x), rtol=1e-12, atol=1e-12)

    # One step at rate 1 moves the weight by its gradient.
    _, trained = mpctest.train(
        model,
        {"x": x},
        tmp_path / "trained",
        *("--loss", "output:loss", "--optimizer", "sgd", "--lr", "1", *exact),
        *("--batch-size", "3", "--max-steps", "1", "--train", "^w$"),
    )
    step = 1e-6
    for place in np.ndindex(w.shape):
        moved = np.zeros_like(w)
        moved[place] = step
        up, down = (np.mean(function((w + d) * x) * x) for d in (moved, -moved))
        slope = (up - down) / (2 * step)
        assert w[place] - trained["w"][place] == pytest.approx(slope, abs=1e-8)


def test_the_readme_exports_what_trains(tmp_path):
    torch = pytest.importorskip("torch")
    (export,) = documents.read_blocks(FILES["README.md"], "python")
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3)
    )
    code = compile(export.replace("model.onnx", f"{tmp_path}/model.onnx"), "", "exec")
    exec(code, {"torch": torch, "model": model, "x": torch.randn(8, 4)})
    documents.execute("mpc check model.onnx --loss cross_entropy", tmp_path)
    process = documents.execute("mpc inspect model.onnx --parameters", tmp_path)
    assert "BatchNormalization" in process.stdout, process.stderr


def test_the_documented_choice_of_experts_runs():
    torch = pytest.importorskip("torch")
    text = FILES["exporting.md"].read_text()
    section = text.split("## Experts that choose their tokens")[1]
    code = re.search(r"^```python\n(.*?)^```", section, re.S | re.M)[1]
    names = {"torch": torch}
    exec(compile(code, "exporting.md", "exec"), names)
    assert ((names["weights"] > 0).sum(-1) == 2).all()


def test_the_fine_tuned_model_knows_its_new_classes(tmp_path):
    """ONNX Runtime computes the accuracy that mpc promises."""
    onnxruntime = pytest.importorskip("onnxruntime")
    set_up_fine_tuning(tmp_path)
    commands = documents.read_commands(FILES["fine-tuning.md"])
    train, *_ = [text for text, _ in commands if "new-head.onnx" in text]
    process = documents.execute(train, tmp_path)
    assert process.returncode == 0, process.stderr
    session = onnxruntime.InferenceSession(tmp_path / "head.onnx")
    with np.load(tmp_path / "test.npz") as held:
        probabilities = session.run(None, {"bytes": held["bytes"]})[0]
        accuracy = np.mean(probabilities.argmax(1) == held["target"])
    assert probabilities.shape[1] == 5
    # With AVX2, the accuracy is 0.7.
    assert accuracy >= 0.7
