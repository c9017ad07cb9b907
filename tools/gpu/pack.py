"""Gathers the files with which a GPU machine can check mpc without compiler or
network: artifacts, inputs, expected results, and the runtime's sources.

    pack.py [--output DIR] [--target sm_90] [--models DIR] [--parts NAME,...]
            [--no-archive]

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import concurrent.futures
import itertools
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(ROOT / "test" / name) for name in ("", "numerics", "e2e/exporters")]

import capi  # noqa: E402  (found through the path above)
import gpu_cases  # noqa: E402
import steps  # noqa: E402
import test_families  # noqa: E402
import test_forward  # noqa: E402
from cases import CASES  # noqa: E402

BUILD = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build"))
MPC = BUILD / "bin" / "mpc"
LIBRARY = BUILD / "lib" / "libmpc_runtime.so"
PRECISIONS = ["32-true", "bf16-mixed", "16-mixed", "64-true"]
LOW = ["bf16-mixed", "16-mixed"]
RECIPE = ["--loss", "softmax_cross_entropy", "--optimizer", "adamw"]
CURVE_STEPS, CURVE_BATCH = 20, 32
STORM_STEPS = 24
# A machine may accept 60 MiB at once, including this tree's sources. The folder
# is transferred as an archive.
LIMIT = 40 << 20
# Headers of libraries that the runtime's sources include.
HEADERS = ["/usr/include/nlohmann", "/usr/include/xxhash.h"]


class Pack:
    def __init__(self, folder, target, models):
        self.folder, self.target, self.models = folder, target, models
        self.runtime = capi.Runtime(LIBRARY)
        self.manifest = {
            "target": target,
            "commit": git("rev-parse", "HEAD") or "an unknown commit",
            "changed": bool(git("status", "--porcelain")),
        }

    def try_to_compile(self, model, name, *flags):
        """Compiles the model for the GPU. Returns the artifact's path in the
        pack, and the error."""
        path = pathlib.Path("artifacts") / f"{name}.mpc"
        flags = ["--target", self.target, *flags]
        return str(path), try_to_compile(model, self.folder / path, *flags)

    def compile(self, model, name, *flags):
        path, error = self.try_to_compile(model, name, *flags)
        return sys.exit(error) if error else path

    def save(self, name, arrays):
        path = pathlib.Path("arrays") / f"{name}.npz"
        np.savez_compressed(self.folder / path, **arrays)
        return str(path)

    def add(self, kind, entry):
        self.manifest.setdefault(kind, []).append(entry)


def git(*arguments):
    """Returns git's output for this tree; empty without git."""
    if not shutil.which("git"):
        return ""
    process = subprocess.run(
        ["git", "-C", ROOT, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    return process.stdout.strip()


def try_to_compile(model, output, *flags):
    """Compiles a model. Returns the error with the command; None on success."""
    command = [str(word) for word in (MPC, "compile", model, "-o", output)]
    process = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=False
    )
    if process.returncode == 0:
        return None
    return f"{' '.join([*command, *flags])}\n{process.stderr}"


def compile_model(model, output, *flags):
    if error := try_to_compile(model, output, *flags):
        sys.exit(error)


def bind_integers(model, inputs):
    """Turns the integer inputs into constants and returns the other inputs.
    `mpc run` does this if shapes depend on them, such as Tile's repeats."""
    bound = {k: v for k, v in inputs.items() if v.dtype.kind in "iu"}
    for name, value in bound.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    for index, info in reversed(list(enumerate(model.graph.input))):
        if info.name in bound:
            del model.graph.input[index]
    return {k: v for k, v in inputs.items() if k not in bound}


def for_all(function, items):
    """Returns the results in order. Compiling uses all cores."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(function, items))


def add_ops(pack, scratch):
    """Adds every case of test/numerics in every precision, with its bound."""
    for entries in for_all(lambda case: pack_op(pack, scratch, case), CASES):
        for entry in entries:
            pack.add("ops", entry)


def pack_op(pack, scratch, case):
    entries, arrays = [], {}
    for precision in PRECISIONS:
        dtype = np.float64 if precision == "64-true" else np.float32
        cached, inputs, expected = test_forward.one_op_model(case, dtype)
        model = onnx.ModelProto()
        model.CopyFrom(cached)
        name = f"op-{case.name}-{precision}"
        path = scratch / f"{name}.onnx"
        onnx.save(model, path)
        artifact, error = pack.try_to_compile(path, name, "--precision", precision)
        if error and "known at import" in error:
            inputs = bind_integers(model, inputs)
            onnx.save(model, path)
            artifact = pack.compile(path, name, "--precision", precision)
        elif error:
            sys.exit(error)
        bound = test_forward.bound(case, precision, expected)
        arrays[f"{precision}/expected"] = expected
        arrays[f"{precision}/bound"] = np.broadcast_to(bound, np.shape(expected))
        for key, value in inputs.items():
            arrays[f"{precision}/input/{key}"] = value
        entry = {"name": case.name, "precision": precision}
        entries.append({**entry, "artifact": artifact})
    pack.save(f"op-{case.name}", arrays)
    return entries


def batches(image_shape, count, size, seed=0):
    """Returns images of noise around one pattern per class, so that a model can
    learn."""
    random = np.random.RandomState(seed)
    patterns = random.uniform(0, 16, (10, *image_shape))
    target = random.randint(0, 10, (count, size))
    noise = random.uniform(-4, 4, (count, size, *image_shape))
    image = np.clip(patterns[target] + noise, 0, 16).astype(np.float32)
    return {"image": image, "target": target}


def split(arrays):
    count = len(arrays["target"])
    return [{k: v[i] for k, v in arrays.items()} for i in range(count)]


def run_on_cpu(pack, model, scratch, flags, data):
    """Returns the outputs of the steps, and the optimizer's state after the
    first step."""
    artifact = scratch / "cpu.mpc"
    compile_model(model, artifact, *flags)
    with pack.runtime.open(artifact, "cpu") as session:
        batch, *others = split(data)
        results = steps.run_steps(session, [batch])
        moments = steps.moments(session)
        for role, values in steps.run_steps(session, others).items():
            results[role] += values
    return results, moments


def image_shape(model):
    value = onnx.load(model).graph.input[0]
    return [d.dim_value for d in value.type.tensor_type.shape.dim[1:]]


def add_curves(pack, scratch):
    """Adds losses of three models in every precision on the CPU, and the
    optimizer's state after the first step's gradients.

    The CPU also gives the bounds for the GPU: the same model in float64 shows
    the effect of a precision.
    """
    for name in ("mlp", "lenet", "resnet"):
        model = ROOT / "test" / "data" / "models" / f"{name}.onnx"
        data = batches(image_shape(model), CURVE_STEPS, CURVE_BATCH)
        arrays = pack.save(f"curve-{name}", data)
        for precision in PRECISIONS:
            flags = [*RECIPE, "--batch-size", str(CURVE_BATCH)]
            flags += ["--precision", precision]
            reference, moments = run_on_cpu(pack, model, scratch, flags, data)
            moments = pack.save(f"moments-{name}-{precision}", moments)
            for contractions in ("table", "library", "bare", "generated"):
                # Generated kernels multiply only 16 bits. Other precisions use
                # the library again.
                if contractions == "generated" and precision not in LOW:
                    continue
                pack.add(
                    "curves",
                    {
                        "model": name,
                        "precision": precision,
                        "contractions": contractions,
                        "artifact": pack.compile(
                            model,
                            f"curve-{name}-{precision}-{contractions}",
                            *flags,
                            *("--contractions", contractions),
                        ),
                        "arrays": arrays,
                        "moments": moments,
                        "cpu": reference,
                    },
                )


def add_families(pack, _):
    """Adds the steps that test/e2e/exporters/test_families.py trains: every
    model of its two folders in every precision, with PyTorch's losses."""
    for name in test_families.LOSSES:
        (data,) = (ROOT / "test" / "data").glob(f"*/{name}.npz")
        shutil.copy(data, pack.folder / "arrays")
    runs = itertools.product(test_families.MODELS, test_families.BOUND)
    for entry in for_all(lambda run: pack_family(pack, *run), runs):
        pack.add("families", entry)


def pack_family(pack, model, precision):
    name = model.split("-")[0]
    case = test_families.LOSSES[name]
    artifact = pack.compile(
        test_families.PATHS[model],
        f"family-{model}-{precision}",
        *("--precision", precision, *test_families.recipe(model)),
    )
    return {
        "model": model,
        "precision": precision,
        "artifact": artifact,
        "arrays": f"arrays/{name}.npz",
        "expected": case["float64" if precision == "64-true" else "float32"],
        "bound": test_families.BOUND[precision],
        **{key: case[key] for key in ("lr", "batch_size", "batch_axes")},
    }


def add_storm(pack, scratch):
    """Adds 16-mixed over batches whose gradients overflow, with the skipped
    steps and the scale. Adds 32-true with a NaN in one batch: from there on
    every loss is NaN."""
    model = ROOT / "test" / "data" / "models" / "mlp.onnx"
    overflow = batches(image_shape(model), STORM_STEPS, CURVE_BATCH)
    # Overflowing batches: alone, in pairs, and a long run of them.
    for step in (2, 5, 6, *range(10, 20)):
        overflow["image"][step] *= 1e6
    nan = batches(image_shape(model), STORM_STEPS, CURVE_BATCH)
    nan["image"][5, 0].flat[0] = np.nan
    for precision, data in (("16-mixed", overflow), ("32-true", nan)):
        flags = [*RECIPE, "--batch-size", str(CURVE_BATCH)]
        flags += ["--precision", precision]
        name = f"storm-mlp-{precision}"
        pack.add(
            "storm",
            {
                "model": "mlp",
                "precision": precision,
                "artifact": pack.compile(model, name, *flags),
                "arrays": pack.save(name, data),
                "cpu": run_on_cpu(pack, model, scratch, flags, data)[0],
            },
        )


# Models that are also timed without cuDNN's attention: a machine may have no NVRTC.
ATTENTION = ("gpt2", "bert", "vit")


def add_timed(pack, _):
    """Adds the models of the folder --models (export_models.py). Weights are
    drawn at the time of the measurement."""
    if not pack.models:
        sys.exit("--models is missing: the folder that export_models.py wrote")
    described = json.loads((pack.models / "models.json").read_text(encoding="utf-8"))
    for entry in for_all(lambda m: compile_timed(pack, m, "timed"), described):
        pack.add("timed", entry)
    if not pack.target.startswith("sm_"):
        return
    for model in described:
        if model["family"] in ATTENTION and not gpu_cases.is_variant(model):
            flags = ("--attention", "products")
            entry = compile_timed(pack, model, "products", *flags)
            pack.add("products", {**entry, "model": f"{entry['model']} products"})


def compile_timed(pack, model, kind, *more):
    name = f"{model['family']}-{model['size']}"
    flags = ["--loss", model["loss"], "--optimizer", "adamw"]
    flags += ["--batch-size", str(model["batch"]), "--precision", "bf16-mixed"]
    for key, array in model["arrays"].items():
        if array["axis"] != 0:
            flags += ["--batch-axis", f"{key}={array['axis']}"]
    path = pack.models / f"{name}.onnx"
    return {
        "model": name,
        "precision": "bf16-mixed",
        "artifact": pack.compile(path, f"{kind}-{name}", *flags, *more),
        **{k: model[k] for k in ("family", "size", "batch", "arrays")},
    }


# Models whose gradients are many bytes beside the time of a step.
RANKS = ("gpt2", "resnet50")
# One of them, whose optimizer has much state.
SHARDED = "gpt2"


def add_ranks(pack, _):
    """Adds models of `timed` once more, with reductions over ranks, and one model
    with an optimizer that the ranks divide."""
    for entry in pack.manifest["timed"]:
        if entry["family"] in RANKS and not gpu_cases.is_variant(entry):
            pack.add("ranks", pack_ranks(pack, entry, "ranks", "--data-parallel"))
        if entry["family"] == SHARDED and not gpu_cases.is_variant(entry):
            sharded = pack_ranks(pack, entry, "sharded", "--shard-optimizer")
            pack.add("ranks", {**sharded, "model": f"{sharded['model']} sharded"})


def pack_ranks(pack, entry, kind, flag):
    described = json.loads((pack.models / "models.json").read_text(encoding="utf-8"))
    (model,) = [
        m for m in described if f"{m['family']}-{m['size']}" == entry["model"]
    ]
    return {
        **compile_timed(pack, model, kind, flag),
        "alone": entry["artifact"],
    }


def add_sources(pack):
    """Adds the runtime's sources, their headers, and the scripts that run
    there."""
    shutil.copytree(ROOT / "runtime", pack.folder / "source" / "runtime")
    shutil.copy(ROOT / "CMakeLists.txt", pack.folder / "source")
    include = pack.folder / "source" / "include"
    include.mkdir()
    for header in map(pathlib.Path, HEADERS):
        copy = shutil.copytree if header.is_dir() else shutil.copy
        copy(header, include / header.name)
    for script in sorted(HERE.glob("*.py")):
        shutil.copy(script, pack.folder)
    for name in ("families", "export"):
        shutil.copy(ROOT / "tools" / "models" / f"{name}.py", pack.folder)


def add_library(pack, scratch):
    """Adds the library for a machine that cannot build the runtime from its
    sources."""
    source, build = pack.folder / "source", scratch / "runtime-build"
    for command in (
        (
            *("cmake", "-G", "Ninja", "-S", source, "-B", build),
            *("-DMPC_RUNTIME_ONLY=ON", "-DMPC_UNITY=ON"),
            f"-DCMAKE_CXX_FLAGS=-I{source / 'include'}",
        ),
        ("ninja", "-C", build),
    ):
        subprocess.run(
            [str(word) for word in command], check=True, stdout=subprocess.DEVNULL
        )
    (pack.folder / "lib").mkdir()
    shutil.copy(build / "lib" / LIBRARY.name, pack.folder / "lib")


PARTS = {
    "timed": add_timed,
    "ranks": add_ranks,
    "families": add_families,
    "curves": add_curves,
    "storm": add_storm,
    "ops": add_ops,
}


def write_archive(folder):
    """Writes the archive. Artifacts of small models are alike, so that a large
    compression window halves gzip's size."""
    archive = folder.with_name(folder.name + ".tar.xz")
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 64 << 20}]
    with (
        lzma.open(archive, "wb", filters=filters) as file,
        tarfile.open(fileobj=file, mode="w|") as tar,
    ):
        tar.add(folder, folder.name)
    return archive


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default=ROOT / "build" / "gpu-check")
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument(
        "--no-archive", action="store_true", help="for a GPU of this machine"
    )
    options = parser.parse_args()
    folder = pathlib.Path(options.output).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("artifacts", "arrays"):
        (folder / name).mkdir(parents=True)
    pack = Pack(folder, options.target, options.models)
    with tempfile.TemporaryDirectory() as scratch:
        for part in options.parts.split(","):
            print(f"==> Packing {part}", file=sys.stderr, flush=True)
            PARTS[part](pack, pathlib.Path(scratch))
        add_sources(pack)
        if options.target.startswith("sm_"):
            add_library(pack, pathlib.Path(scratch))
    with open(folder / "manifest.json", "w", encoding="utf-8") as file:
        json.dump(pack.manifest, file, indent=1)
    if options.no_archive:
        return
    archive = write_archive(folder)
    size = os.path.getsize(archive)
    print(f"{archive}: {size / 2**20:.1f} MiB")
    if size > LIMIT:
        sys.exit(f"the pack is larger than {LIMIT >> 20} MiB")


if __name__ == "__main__":
    main()
