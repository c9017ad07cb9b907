"""An unattended pipeline uses mpc: a gate for models, a tested precision
policy, and reports that another program reads.

SPDX-License-Identifier: Apache-2.0
"""

import json
import math

import mpctest
from journey import CLASSES, TEST, TRAIN, USAGE, perceptron, refused, save

CNN = mpctest.MODELS / "digits-cnn.onnx"
MIXED = ["--batch-size", 32, "--precision", "bf16-mixed"]


def answer(*arguments, code=0):
    """Returns the one object that a command prints."""
    process = mpctest.mpc(*arguments)
    assert process.returncode == code, process.stderr
    assert process.stdout.count("\n") == 1
    return json.loads(process.stdout), process.stderr


def test_the_gate(tmp_path):
    found, said = answer("check", CNN, *CLASSES, "--format", "json", "-q")
    assert found == {"file": str(CNN), "ok": True, "findings": []} and not said
    model = perceptron(last="Unheard")
    model.graph.node[1].op_type = "Unseen"
    path = save(model, tmp_path / "odd.onnx")
    found, _ = answer("check", path, "--format", "json", "-q", code=1)
    assert not found["ok"]
    errors = [f["message"] for f in found["findings"] if f["severity"] == "error"]
    assert any("Unheard" in text for text in errors)
    assert any("Unseen" in text for text in errors)
    # mpc answers a flag of other tools.
    said = refused(USAGE, "check", path, "--json")
    assert "did you mean --format?" in said
    said = refused(USAGE, "version")
    assert "did you mean --version?" in said


def test_dimensions_have_any_name(tmp_path):
    model = perceptron()
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "p: q"
    path = save(model, tmp_path / "odd.onnx")
    found, _ = answer("inspect", path, "--format", "json")
    given = model.graph.input[0]
    assert found["inputs"][0]["name"] == given.name
    assert found["inputs"][0]["type"] == "f32"
    assert found["inputs"][0]["shape"][0] == "p: q"


def test_what_a_model_is(tmp_path):
    found, _ = answer("inspect", CNN, "--format", "json", "--parameters", "--layers")
    assert found["kind"] == "model"
    image = {"name": "image", "type": "f32", "shape": ["N", 1, 8, 8]}
    assert found["inputs"] == [image]
    parameters = {each["name"]: each for each in found["parameters"]}
    assert parameters["conv1.weight"]["shape"] == [32, 1, 3, 3]
    assert parameters["conv1.weight"]["trained"]
    assert not parameters["bn1.running_mean"]["trained"]
    trained = sum(p["elements"] for p in parameters.values() if p["trained"])
    layers = {each["node"]: each for each in found["layers"]}
    assert layers["fc2"]["output"]["shape"] == ["N", 10]
    artifact = tmp_path / "model.mpc"
    mpctest.mpc_ok("compile", CNN, *CLASSES, *MIXED, "-o", artifact)
    found, _ = answer("inspect", artifact, "--format", "json", "--parameters")
    assert found["kind"] == "artifact" and found["precision"] == "bf16-mixed"
    inputs = {each["name"]: each for each in found["functions"]["step"]["inputs"]}
    assert inputs["image"]["shape"] == [32, 1, 8, 8]
    masters = [v["shape"] for v in found["variables"] if v["role"] == "parameter"]
    assert sum(math.prod(shape) for shape in masters) == trained


def test_what_a_run_was(tmp_path):
    checkpoints, metrics = tmp_path / "ck", tmp_path / "m.jsonl"
    mpctest.mpc_ok(
        *("train", CNN, "--data", TRAIN, "--val-data", TEST, *CLASSES, *MIXED, "-q"),
        *("--max-steps", 4, "--checkpoint-every", 2, "--checkpoint-dir", checkpoints),
        *("--metrics", metrics, "--optimizer", "adam"),
    )
    found, _ = answer("inspect", metrics, "--format", "json")
    assert found["events"]["train"] == 4 and found["end"]["exit_code"] == 0
    best = found["best_eval"]["eval_accuracy"]
    found, _ = answer("inspect", checkpoints, "--format", "json")
    assert [each["step"] for each in found["checkpoints"]] == [2, 4]
    newest = found["checkpoints"][-1]["folder"]
    found, _ = answer("inspect", newest, "--format", "json")
    assert found["progress"]["step"] == 4 and found["recipe"]["optimizer"] == "adam"
    assert "conv1.weight" in [each["name"] for each in found["arrays"]]
    flags = ["--data", TEST, *CLASSES, "--precision", "bf16-mixed"]
    found, _ = answer(
        *("eval", CNN, "--checkpoint", checkpoints, *flags, "-q"),
        *("--format", "jsonl", "--batch-size", 32),
    )
    assert found["eval_accuracy"] == best
    found, _ = answer("inspect", TEST, "--format", "json")
    assert {a["name"]: a["type"] for a in found["arrays"]}["image"] == "u8"
    table = tmp_path / "t.csv"
    table.write_text("day,load\nMon,3\nTue,4\n")
    found, _ = answer("inspect", table, "--format", "json")
    assert found["rows"] == 2
    assert [each["numbers"] for each in found["columns"]] == [False, True]


def test_a_policy_of_ones_own(tmp_path):
    policy = tmp_path / "policy.json"
    rule = {"op": "Conv", "node": "^conv1", "class": "deny", "reason": "first layer"}
    policy.write_text(json.dumps({"preset": "torch", "rules": [rule]}))
    flags = [*CLASSES, *MIXED, "--policy", policy]
    process = mpctest.mpc_ok("explain", CNN, *flags, "--format", "jsonl", "-q")
    assert not process.stderr
    lines = map(json.loads, process.stdout.split("\n")[:-1])
    decided = {each["id"]: each for each in lines}
    for name in ("conv1", "conv1#dw"):
        assert decided[name]["compute"] == "f32"
        assert decided[name]["why"] == "first layer"
    assert decided["conv2"]["compute"] == "bf16"
    # The artifact has the explained types.
    emitted = mpctest.mpc_ok("compile", CNN, *flags, "--emit", "precision", "-o", "-")
    for line in emitted.stdout.split("\n"):
        if " mpc.conv " in line:
            assert ("#conv2)" in line) == ("xbf16>" in line), line
