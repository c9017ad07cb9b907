"""Trains published models at usual sizes and compares losses with PyTorch's.

    zoo.py [MODEL...] [--mpc PATH] [--folder FOLDER] [--precision MODE,...]
           [--small] [--guarded] [-- FLAG...]

The models come from torchvision, timm, transformers and
segmentation-models-pytorch. A model gets weights from a seed, is written by the
current exporter and takes three steps of SGD without dropout: in PyTorch in
float32 and under autocast, and in mpc in each precision, on the same data.
FOLDER keeps PyTorch's results. `--small` uses small inputs, to find refusals
soon. FLAG goes to `mpc train`.

The C library overwrites freed memory while mpc runs. With `--guarded` each step
of the training function also runs alone, with each operand between guard pages
(RuntimeTests, GuardedSteps).

An error is the largest difference from PyTorch's float32 losses over the steps,
relative to the loss. In bf16-mixed mpc may err three times as much as autocast.
In 32-true it may err ten times as much as PyTorch in float32 with each weight
off by its last bit. An error below 0.5 %, or 0.01 % in 32-true, passes, because
PyTorch's error may be small by chance.

Needs the packages in requirements.txt and zoo-requirements.txt.

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import typing

import numpy as np
import onnx
import torch
from torch import nn

ROOT = pathlib.Path(__file__).parents[2]
STEPS = 3
# For each precision: the run whose error is the measure, the allowed multiple,
# and the error that always passes.
BOUNDS = {"32-true": ("nudged", 10.0, 1e-4), "bf16-mixed": ("autocast", 3.0, 5e-3)}


class Scores(nn.Module):
    """A model that returns only one of its results."""

    def __init__(self, model, pick):
        super().__init__()
        self.model, self.pick = model, pick

    def forward(self, x):
        return self.pick(self.model(x))


@dataclasses.dataclass
class Entry:
    make: typing.Callable[[], nn.Module]
    size: int
    """The size of the image or, with `vocabulary`, the tokens."""
    small: int
    loss: str = "softmax_cross_entropy"
    batch: int = 2
    rate: float = 0.002
    vocabulary: int = 0
    attention: str = ""


def torchvision_model(name, **options):
    def make():
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options)

    return make


def segmentation(name):
    def make():
        import torchvision

        model = torchvision.models.get_model(
            name, weights=None, weights_backbone=None, num_classes=21
        )
        return Scores(model, lambda result: result["out"])

    return make


def timm_model(name, **options):
    def make():
        import timm

        return timm.create_model(name, pretrained=False, **options)

    return make


def unet():
    import segmentation_models_pytorch

    return segmentation_models_pytorch.Unet(
        "resnet34", encoder_weights=None, classes=21
    )


def transformer(model, config, pick, **options):
    """Builds a model from its published configuration, with attention in plain
    operators, which can be exported."""

    def make():
        import transformers

        settings = getattr(transformers, config)(**options)
        settings._attn_implementation = "eager"
        built = getattr(transformers, model)(settings)
        return Scores(built, pick)

    return make


def logits(result):
    return result.logits


def hidden(result):
    return result.last_hidden_state


def pooled(result):
    return result.pooler_output


CACHELESS = {"use_cache": False}
DROPLESS = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

ZOO = {
    "resnet50": Entry(torchvision_model("resnet50"), 224, 64),
    "mobilenet_v3": Entry(torchvision_model("mobilenet_v3_large"), 224, 64),
    "efficientnet_b0": Entry(timm_model("efficientnet_b0"), 224, 64),
    "convnext_tiny": Entry(torchvision_model("convnext_tiny"), 224, 64),
    "vit": Entry(timm_model("vit_small_patch16_224"), 224, 224),
    "swin_t": Entry(torchvision_model("swin_t"), 224, 64),
    "regnet": Entry(torchvision_model("regnet_y_1_6gf"), 384, 64),
    "densenet121": Entry(torchvision_model("densenet121"), 224, 64),
    "deeplabv3": Entry(segmentation("deeplabv3_resnet50"), 513, 65),
    "fcn": Entry(segmentation("fcn_resnet50"), 448, 64),
    "lraspp": Entry(segmentation("lraspp_mobilenet_v3_large"), 640, 64),
    "unet": Entry(unet, 512, 64),
    "segformer": Entry(
        transformer(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            logits,
            num_labels=21,
            classifier_dropout_prob=0.0,
            drop_path_rate=0.0,
            **DROPLESS,
        ),
        *(512, 64),
    ),
    "bert": Entry(
        transformer("BertForMaskedLM", "BertConfig", logits, **DROPLESS),
        *(128, 16),
        vocabulary=30522,
    ),
    "distilbert": Entry(
        transformer("DistilBertForMaskedLM", "DistilBertConfig", logits),
        *(128, 16),
        vocabulary=30522,
    ),
    "gpt2": Entry(
        transformer("GPT2LMHeadModel", "GPT2Config", logits, **CACHELESS),
        *(256, 16),
        vocabulary=50257,
        batch=1,
    ),
    "t5_encoder": Entry(
        transformer("T5EncoderModel", "T5Config", hidden, dropout_rate=0.0),
        *(128, 16),
        vocabulary=32128,
        loss="mse",
    ),
    "mobileone": Entry(timm_model("mobileone_s1"), 224, 64),
    "hybrid": Entry(timm_model("coatnet_0_rw_224"), 224, 224),
    "clip_vision": Entry(
        transformer("CLIPVisionModel", "CLIPVisionConfig", pooled),
        *(224, 224),
        loss="mse",
    ),
}


def make_module(entry):
    torch.manual_seed(0)
    module = entry.make().train()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        # Disables torchvision's and timm's dropout of whole branches.
        for name in ("p", "drop_prob"):
            if type(part).__name__ in ("StochasticDepth", "DropPath"):
                if hasattr(part, name):
                    setattr(part, name, 0.0)
    return module


def nudge(module):
    """Moves each weight by about its last bit, up or down."""
    with torch.no_grad():
        for weight in module.parameters():
            weight *= 1 + torch.randn_like(weight).sign() * 2.0**-23


def make_inputs(entry, size, random):
    if entry.vocabulary:
        shape = STEPS * entry.batch, size
        return random.randint(0, entry.vocabulary, shape, np.int64)
    shape = STEPS * entry.batch, 3, size, size
    return random.standard_normal(shape).astype(np.float32)


def make_labels(entry, scores, random):
    """Draws labels for all samples, from the scores of one batch."""
    shape = (STEPS * scores.shape[0], *scores.shape[1:])
    if entry.loss == "mse":
        return random.standard_normal(shape).astype(np.float32)
    axis = class_axis(scores)
    classes = scores.shape[axis]
    return random.randint(0, classes, np.delete(shape, axis), np.int64)


def class_axis(scores):
    """Returns the second axis of images, and the last of tokens."""
    return 2 if scores.dim() == 3 else 1


def compute_loss(entry, scores, labels):
    scores = scores.float()
    if entry.loss == "mse":
        return nn.functional.mse_loss(scores, labels)
    return nn.functional.cross_entropy(
        scores.movedim(class_axis(scores), 1), labels
    )


def take_steps(entry, module, inputs, labels, context):
    """Returns the loss of each step, before its update."""
    optimizer = torch.optim.SGD(module.parameters(), lr=entry.rate)
    losses = []
    for step in range(STEPS):
        part = slice(step * entry.batch, (step + 1) * entry.batch)
        with context():
            scores = module(torch.from_numpy(inputs[part]))
        loss = compute_loss(entry, scores, torch.from_numpy(labels[part]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def export(module, inputs, path):
    torch.onnx.export(
        module,
        (torch.from_numpy(inputs),),
        path,
        input_names=["x"],
        output_names=["scores"],
        opset_version=18,
        dynamo=True,
        optimize=False,
        external_data=True,
        verbose=False,
    )


def prepare(entry, size, folder):
    """Writes the model, the data and, last, PyTorch's losses."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.RandomState(0)
    module = make_module(entry)
    inputs = make_inputs(entry, size, random)
    first = inputs[: entry.batch]
    export(module, first, folder / "model.onnx")
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    ops = {node.op_type for node in model.graph.node}
    if ops & {"Dropout", "RandomUniform", "RandomUniformLike", "Bernoulli"}:
        sys.exit(f"{folder.name}: there is dropout left")
    with torch.no_grad():
        labels = make_labels(entry, make_module(entry)(torch.from_numpy(first)), random)
    np.savez(folder / "data.npz", x=inputs, target=labels)
    autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
    losses = {}
    for name, context in (
        ("float32", contextlib.nullcontext),
        ("nudged", contextlib.nullcontext),
        ("autocast", autocast),
    ):
        module = make_module(entry)
        if name == "nudged":
            nudge(module)
        losses[name] = take_steps(entry, module, inputs, labels, context)
    (folder / "losses.json").write_text(json.dumps(losses))


def execute(command, log, **environment):
    """Returns the standard output; None and the reason on failure."""
    process = subprocess.run(
        [str(word) for word in command],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )
    log.write_text(process.stdout + process.stderr)
    if process.returncode == 0:
        return process.stdout, ""
    lines = (process.stderr or process.stdout).strip().splitlines() or [""]
    return None, f"code {process.returncode}: {lines[-1]}"


def list_flags(entry, precision):
    flags = ["--batch-size", entry.batch, "--loss", entry.loss]
    return [*flags, "--optimizer", "sgd", "--precision", precision]


def train(arguments, entry, folder, precision):
    """Returns mpc's losses, or the reason why there are none."""
    metrics = folder / f"{precision}.jsonl"
    command = [arguments.mpc, "train", folder / "model.onnx"]
    command += list_flags(entry, precision)
    command += ["--data", folder / "data.npz", "--lr", entry.rate]
    command += ["--max-steps", STEPS, "--no-shuffle", "--quiet"]
    command += ["--metrics", metrics, "--overwrite-metrics", *arguments.flags]
    output, message = execute(
        command, folder / f"{precision}.log", MALLOC_PERTURB_="165"
    )
    if output is None:
        return None, message
    events = [json.loads(line) for line in metrics.read_text().splitlines()]
    return [event["loss"] for event in events if event["event"] == "train"], ""


def guard(arguments, entry, folder, precision):
    """Returns the number of steps that ran on guarded memory, or the reason for
    failure."""
    artifact = folder / "model.mpc"
    command = [arguments.mpc, "compile", folder / "model.onnx", "-o", artifact]
    command += list_flags(entry, precision)
    output, message = execute(command, folder / "compile.log")
    if output is None:
        return None, message
    command = [arguments.tests, "--gtest_filter=GuardedSteps.*"]
    output, message = execute(
        command, folder / "guarded.log", MPC_GUARDED_ARTIFACTS=str(artifact)
    )
    found = re.search(r": (\d+) steps$", output or "", re.MULTILINE)
    return (found[1], "") if found else (None, message or "no step ran")


def compare(losses, expected):
    return max(
        abs(loss - value) / abs(value) if np.isfinite(loss) else np.inf
        for loss, value in zip(losses, expected)
    )


def try_model(arguments, name):
    """Returns a row of the table, and true if it passes."""
    entry = ZOO[name]
    size = entry.small if arguments.small else entry.size
    folder = arguments.folder / f"{name}-{size}"
    if not (folder / "losses.json").exists():
        # PyTorch's memory is freed with its process.
        command = [sys.executable, __file__, name, "--prepare"]
        command += ["--folder", str(arguments.folder)]
        command += ["--small"] * arguments.small
        process = subprocess.run(command, check=False, capture_output=True, text=True)
        if process.returncode != 0:
            return [name, size, process.stderr.strip()[-200:]], False
    reference = json.loads((folder / "losses.json").read_text())
    expected = reference["float32"]
    errors = {
        name: compare(losses, expected) for name, losses in reference.items()
    }
    cells = [name, f"{entry.batch}x{size}", " ".join(f"{x:.4f}" for x in expected)]
    cells += [f"{errors[name]:.1e}" for name in ("nudged", "autocast")]
    isGood = True
    for precision in arguments.precision.split(","):
        losses, message = train(arguments, entry, folder, precision)
        if not losses:
            cells.append(message)
            isGood = False
            continue
        name, times, floor = BOUNDS[precision]
        error = compare(losses, expected)
        holds = len(losses) == STEPS and error <= max(times * errors[name], floor)
        isGood &= holds
        cells.append(f"{error:.1e}" + ("" if holds else " **differs**"))
    if arguments.guarded:
        steps, message = guard(arguments, entry, folder, "bf16-mixed")
        isGood &= steps is not None
        cells.append(steps or message)
    return cells, isGood


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--mpc", default=ROOT / "build" / "bin" / "mpc")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=ROOT / "build" / "zoo"
    )
    parser.add_argument("--precision", default=",".join(BOUNDS))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--guarded", action="store_true")
    parser.add_argument(
        "--tests", default=ROOT / "build" / "test" / "runtime" / "RuntimeTests"
    )
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    words = sys.argv[1:]
    place = words.index("--") if "--" in words else len(words)
    arguments = parser.parse_args(words[:place])
    arguments.flags = words[place + 1 :]
    unknown = set(arguments.models) - set(ZOO)
    if unknown:
        parser.error(f"no {', '.join(unknown)}; there is {', '.join(ZOO)}")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.prepare:
        for name in arguments.models:
            entry = ZOO[name]
            size = entry.small if arguments.small else entry.size
            prepare(entry, size, arguments.folder / f"{name}-{size}")
        return 0
    head = ["model", "input", "PyTorch's losses", "nudged", "autocast"]
    head += arguments.precision.split(",")
    rows = [head + ["guarded steps"] * arguments.guarded]
    rows.append(["---"] * len(rows[0]))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    failed = 0
    for name in arguments.models or ZOO:
        cells, isGood = try_model(arguments, name)
        failed += not isGood
        print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
