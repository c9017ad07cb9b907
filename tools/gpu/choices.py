"""Times cuBLASLt's proposals for each product of a plan, and tries the
epilogues that training uses.

    choices.py LINES MODEL ARTIFACT LIBRARY

Appends a line of JSON to LINES for each distinct product: the microseconds of
each proposal, and of the first proposal with each epilogue, or the library's
status if there is no proposal. Operands are random numbers: zeros would draw
less power.

SPDX-License-Identifier: Apache-2.0
"""

import ctypes
import os
import pathlib
import sys

import numpy as np

import capi
import processes
import report
import roof

# Constants of cuda.h, library_types.h and cublasLt.h.
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
COMPUTE = {"f32": 68, "f64": 70, "tf32": 77}
BATCH_COUNT, STRIDED_BATCH_OFFSET = 5, 6
TRANS_A, TRANS_B, EPILOGUE, BIAS_POINTER = 3, 4, 7, 8
AUX_POINTER, AUX_LD, BIAS_TYPE = 11, 12, 26
WORKSPACE_BYTES, REDUCTION_MASK = 1, 3
DETERMINISTIC = 2
PROPOSALS, RUNS = 8, 10
WORKSPACE = 32 << 20
EPILOGUES = {
    "bias": 4,
    "gelu_aux_bias": 32 | 4 | 128,
    "dgelu": 64 | 128,
    "dgelu_bgrad": 64 | 16 | 128,
    "bgrad_a": 256,
    "bgrad_b": 512,
}
# The block of random numbers that is repeated through all memory.
RANDOM_BYTES = 16 << 20


class Library:
    """A library whose calls must succeed. `status` is for calls that may fail."""

    def __init__(self, names, folders):
        self.library = self.load(names, folders)

    @staticmethod
    def load(names, folders):
        tried = [pathlib.Path(f) / n for n in names for f in folders]
        for path in [*(str(p) for p in tried if p.exists()), *names]:
            try:
                return ctypes.CDLL(path)
            except OSError:
                continue
        raise OSError(f"none of {', '.join(names)} was found")

    def status(self, name, *arguments):
        return getattr(self.library, name)(*arguments)

    def call(self, name, *arguments):
        if code := self.status(name, *arguments):
            raise OSError(f"{name}: status {code}")


def created(library, name, *arguments):
    handle = ctypes.c_void_p()
    library.call(name, ctypes.byref(handle), *arguments)
    return handle


def created_of_kind(library, name, kind):
    """Calls functions that take the handle after the value."""
    handle = ctypes.c_void_p()
    library.call(name, kind, ctypes.byref(handle))
    return handle


def raw(array):
    return ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)


class GPU:
    """A stream, memory and a clock."""

    def __init__(self, folders):
        self.driver = Library(["libcuda.so.1"], folders)
        self.driver.call("cuInit", 0)
        context = created(self.driver, "cuDevicePrimaryCtxRetain", 0)
        self.driver.call("cuCtxPushCurrent_v2", context)
        self.stream = created(self.driver, "cuStreamCreate", 1)
        self.events = [created(self.driver, "cuEventCreate", 0) for _ in "be"]
        self.memory = {}
        bits = np.random.RandomState(0).uniform(-1, 1, RANDOM_BYTES // 4)
        self.random = bits.astype(np.float32)

    def buffer(self, name, size):
        """Returns the memory of a name, filled once. It grows on demand."""
        address, held = self.memory.get(name, (None, 0))
        if held >= size:
            return address
        if address:
            self.driver.call("cuMemFree_v2", address)
        address = ctypes.c_uint64()
        self.driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        for begin in range(0, size, RANDOM_BYTES):
            self.driver.call(
                "cuMemcpyHtoDAsync_v2",
                ctypes.c_uint64(address.value + begin),
                ctypes.c_void_p(self.random.ctypes.data),
                ctypes.c_size_t(min(RANDOM_BYTES, size - begin)),
                self.stream,
            )
        self.driver.call("cuStreamSynchronize", self.stream)
        self.memory[name] = (address, size)
        return address

    def copy_to(self, address, array):
        array = np.ascontiguousarray(array)
        self.copy("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(address), *raw(array))

    def copy_from(self, array, address):
        pointer, size = raw(array)
        self.copy("cuMemcpyDtoHAsync_v2", pointer, ctypes.c_uint64(address), size)

    def copy(self, name, *arguments):
        self.driver.call(name, *arguments, self.stream)
        self.driver.call("cuStreamSynchronize", self.stream)

    def microseconds(self, run):
        """Returns the microseconds of a run; None if `run` returns a status."""
        for _ in range(2):
            if run():
                return None
        self.driver.call("cuEventRecord", self.events[0], self.stream)
        for _ in range(RUNS):
            run()
        self.driver.call("cuEventRecord", self.events[1], self.stream)
        self.driver.call("cuStreamSynchronize", self.stream)
        taken = ctypes.c_float()
        self.driver.call("cuEventElapsedTime", ctypes.byref(taken), *self.events)
        return taken.value * 1000 / RUNS


class Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


class Product:
    """A product of a plan in the library's layout: rows become columns."""

    def __init__(self, blas, gpu, handle, step, buffers):
        self.blas, self.gpu, self.handle = blas, gpu, handle
        self.step = step
        self.types = {name: buffers[step[name]]["type"] for name in "abc"}
        compute = step.get("compute") or "f32"
        if self.types["c"] == "f64":
            compute = "f64"
        scale = "f64" if compute == "f64" else "f32"
        self.wide = ctypes.c_double if scale == "f64" else ctypes.c_float
        self.description = created(
            blas, "cublasLtMatmulDescCreate", COMPUTE[compute], TYPES[scale]
        )
        self.set(TRANS_A, ctypes.c_int32(step["trans_b"]))
        self.set(TRANS_B, ctypes.c_int32(step["trans_a"]))
        m, n, k = step["m"], step["n"], step["k"]
        shapes = {
            "a": (k, m) if step["trans_a"] else (m, k),
            "b": (n, k) if step["trans_b"] else (k, n),
            "c": (m, n),
        }
        self.layouts, self.data = {}, {}
        for name, (rows, columns) in shapes.items():
            self.layouts[name] = self.layout(name, rows, columns)
            count = rows * step[f"ld{name}"] + columns
            count += (step["batch"] - 1) * step[f"stride_{name}"]
            width = roof.width_of(self.types[name])
            self.data[name] = gpu.buffer(name, count * width)

    def layout(self, name, rows, columns):
        layout = created(
            *(self.blas, "cublasLtMatrixLayoutCreate", TYPES[self.types[name]]),
            *(ctypes.c_uint64(columns), ctypes.c_uint64(rows)),
            ctypes.c_int64(self.step[f"ld{name}"]),
        )
        if self.step["batch"] > 1:
            for attribute, value in (
                (BATCH_COUNT, ctypes.c_int32(self.step["batch"])),
                (
                    STRIDED_BATCH_OFFSET,
                    ctypes.c_int64(self.step[f"stride_{name}"]),
                ),
            ):
                self.blas.call(
                    *("cublasLtMatrixLayoutSetAttribute", layout, attribute),
                    *(ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))),
                )
        return layout

    def set(self, attribute, value):
        self.blas.call(
            *("cublasLtMatmulDescSetAttribute", self.description, attribute),
            *(ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))),
        )

    def set_epilogue(self, name):
        m, n = self.step["m"], self.step["n"]
        self.set(EPILOGUE, ctypes.c_uint32(EPILOGUES[name]))
        vector = self.gpu.buffer("vector", 4 * max(m, n, self.step["k"]))
        kind = self.types["c"]
        self.set(BIAS_POINTER, vector)
        self.set(BIAS_TYPE, ctypes.c_int32(TYPES[kind]))
        if EPILOGUES[name] & 128:
            self.set(AUX_POINTER, self.gpu.buffer("aux", 4 * m * n))
            self.set(AUX_LD, ctypes.c_int64(n))

    def proposals(self):
        """Returns the library's proposals, or its status."""
        preference = created(self.blas, "cublasLtMatmulPreferenceCreate")
        for attribute, value in (
            (WORKSPACE_BYTES, ctypes.c_uint64(WORKSPACE)),
            (REDUCTION_MASK, ctypes.c_uint32(DETERMINISTIC)),
        ):
            self.blas.call(
                *("cublasLtMatmulPreferenceSetAttribute", preference, attribute),
                *(ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))),
            )
        found, count = (Heuristic * PROPOSALS)(), ctypes.c_int()
        a, b, c = (self.layouts[name] for name in "abc")
        status = self.blas.status(
            *("cublasLtMatmulAlgoGetHeuristic", self.handle, self.description),
            *(b, a, c, c, preference, PROPOSALS, found, ctypes.byref(count)),
        )
        self.blas.call("cublasLtMatmulPreferenceDestroy", preference)
        if status:
            return status
        return [f for f in found[: count.value] if f.state == 0]

    def time(self, proposal, residual=False):
        a, b, c = (self.layouts[name] for name in "abc")
        alpha, beta = self.wide(1), self.wide(1 if residual else 0)
        other = self.data["c"]
        if residual:
            other = self.gpu.buffer("residual", self.gpu.memory["c"][1])
        return self.gpu.microseconds(
            lambda: self.blas.status(
                *("cublasLtMatmul", self.handle, self.description),
                *(ctypes.byref(alpha), self.data["b"], b, self.data["a"], a),
                *(ctypes.byref(beta), other, c, self.data["c"], c),
                ctypes.byref(proposal.algorithm),
                self.gpu.buffer("workspace", WORKSPACE),
                *(ctypes.c_size_t(proposal.workspace), self.gpu.stream),
            )
        )

    def measure(self):
        found = self.proposals()
        if not isinstance(found, list) or not found:
            return {"status": found}
        result = {"proposals_us": [self.time(proposal) for proposal in found]}
        result["residual_us"] = self.time(found[0], residual=True)
        for name in EPILOGUES:
            result[f"{name}_us"] = self.measure_epilogue(name)
        return result

    def measure_epilogue(self, name):
        try:
            self.set_epilogue(name)
        except OSError as error:
            return str(error)
        found = self.proposals()
        if not isinstance(found, list) or not found:
            return f"status {found}"
        return self.time(found[0])


KEY = ("m", "n", "k", "batch", "trans_a", "trans_b", "lda", "ldb", "ldc")


def products_of(plan):
    """Returns the distinct products of the training step, by shape and types. A
    product with a kernel as its epilogue is not a single call of the
    library."""
    function = plan["functions"]["step"]
    buffers, seen = function["buffers"], {}
    for step in function["steps"]:
        if step["op"] != "matmul" or step["c"] is None:
            continue
        types = tuple(buffers[step[name]]["type"] for name in "abc")
        key = (*(step[name] for name in KEY), *types)
        seen.setdefault(key, step)
    return function["buffers"], seen


def main():
    lines, model, artifact, library = sys.argv[1:]
    processes.end_with_parent()
    folders = os.environ.get("MPC_CUDA_LIBRARY_PATH", "").split(":")
    buffers, products = products_of(capi.Runtime(library).plan(artifact))
    gpu = GPU(folders)
    blas = Library(["libcublasLt.so.13", "libcublasLt.so.12"], folders)
    handle = created(blas, "cublasLtCreate")
    for key, step in products.items():
        shape = dict(zip((*KEY, "a", "b", "c"), key))
        try:
            result = Product(blas, gpu, handle, step, buffers).measure()
        except OSError as error:
            result = {"error": str(error)}
        name = step.get("name")
        report.append(
            lines, "choices", {"model": model, "step": name, **shape, **result}
        )


if __name__ == "__main__":
    main()
