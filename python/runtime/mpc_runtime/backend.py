"""The interface of ONNX for backends, over mpc.

    import mpc_runtime.backend as backend
    outputs = backend.prepare(model).run([x])

Needs the packages onnx and mpc-compiler.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import collections
import pathlib
import tempfile
from typing import Any, Sequence

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from mpc_runtime.command import compile_model, run_command
from mpc_runtime.errors import InvalidInputError, UnsupportedError, UsageError
from mpc_runtime.session import Session
from mpc_runtime.tensors import BFLOAT16

# Shapes for which a model stays compiled.
MOST_SESSIONS = 8
_DEVICES = {"CPU": "cpu", "CUDA": "cuda"}


def _device_of(device: str) -> str:
    """Returns mpc's name of a device of ONNX, "CPU" or "CUDA:1"."""
    kind, _, number = device.partition(":")
    if kind not in _DEVICES:
        raise UsageError(f"expected the device CPU or CUDA, found {device!r}")
    return _DEVICES[kind] + (f":{number}" if number and kind == "CUDA" else "")


class MpcBackendRep(BackendRep):
    """A model that is compiled once for each set of shapes of its inputs."""

    def __init__(self, model: onnx.ModelProto, device: str, flags: dict[str, Any]):
        given = {tensor.name for tensor in model.graph.initializer}
        self._model = model
        self._device = device
        self._flags = flags
        self._inputs = [v for v in model.graph.input if v.name not in given]
        self._outputs = [value.name for value in model.graph.output]
        # Sessions by shapes; None where shapes depend on values of inputs.
        self._sessions: collections.OrderedDict[tuple, Session | None] = (
            collections.OrderedDict()
        )

    def run(self, inputs: Any, **kwargs: Any) -> tuple:
        """Runs the model. `inputs` lists an array for each input, or maps names
        to arrays. Returns the outputs as a named tuple of arrays.

        Raises an `Error` with mpc's message. If shapes of the model depend on
        values of inputs, each run compiles the model.
        """
        arrays = self._name_inputs(inputs)
        key = tuple((name, a.shape, a.dtype.str) for name, a in arrays.items())
        if key not in self._sessions:
            self._sessions[key] = self._compile(arrays)
            if len(self._sessions) > MOST_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        session = self._sessions[key]
        if session is None:
            values = self._run_once(arrays)
        else:
            values = session.run("forward", arrays)
        missing = [name for name in self._outputs if name not in values]
        if missing:
            raise UnsupportedError(f"mpc gives no output {missing[0]!r}")
        # Names of ONNX need not be identifiers: rename numbers those.
        kind: Any = collections.namedtuple(  # type: ignore[misc]
            "Outputs", self._outputs, rename=True
        )
        return kind(*(values[name] for name in self._outputs))

    def _name_inputs(self, inputs: Any) -> dict[str, np.ndarray]:
        names = [value.name for value in self._inputs]
        if isinstance(inputs, dict):
            unknown = [name for name in inputs if name not in names]
            if unknown or len(inputs) != len(names):
                raise UsageError(f"expected arrays for {names}, found {list(inputs)}")
            inputs = [inputs[name] for name in names]
        elif not isinstance(inputs, (list, tuple)):
            inputs = [inputs]
        if len(inputs) != len(names):
            raise UsageError(f"expected {len(names)} arrays, found {len(inputs)}")
        arrays = {}
        for value, array in zip(self._inputs, inputs):
            if not value.type.HasField("tensor_type"):
                raise UnsupportedError(f"input {value.name!r} is no tensor")
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            array = np.asarray(array)
            if array.dtype != dtype:
                raise InvalidInputError(
                    f"input {value.name!r}: expected {dtype}, found {array.dtype}"
                )
            if dtype.kind not in "biuf" and dtype != BFLOAT16:
                raise UnsupportedError(f"input {value.name!r}: no type {dtype}")
            arrays[value.name] = array
        return arrays

    def _compile(self, arrays: dict[str, np.ndarray]) -> Session | None:
        shapes = [
            f"{name}={'x'.join(map(str, array.shape))}"
            for name, array in arrays.items()
            if array.ndim > 0
        ]
        try:
            artifact = compile_model(
                self._model, shape=shapes, device=self._device, **self._flags
            )
        except (InvalidInputError, UnsupportedError, UsageError):
            # mpc run knows the values, too. Its message is better otherwise.
            return None
        return Session(artifact, device=self._device.partition(":")[0])

    def _run_once(self, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with tempfile.TemporaryDirectory(prefix="mpc-") as folder:
            flags = []
            for i, (name, array) in enumerate(arrays.items()):
                if array.dtype.kind not in "biuf":
                    raise UnsupportedError(f"no file has {array.dtype} for {name!r}")
                path = pathlib.Path(folder) / f"{i}.npy"
                np.save(path, np.asarray(array, order="C"))
                flags.append(f"{name}=@{path}")
            output = pathlib.Path(folder) / "outputs.npz"
            run_command(
                "run",
                self._model,
                input=flags,
                output=output,
                device=self._device,
                **self._flags,
            )
            with np.load(output) as values:
                return dict(values)


class MpcBackend(Backend):
    """`onnx.backend.base.Backend` over mpc."""

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """True for "CPU", and for "CUDA" and "CUDA:N", which need a driver to
        run."""
        kind, _, number = device.partition(":")
        return kind in _DEVICES and (number == "" or number.isdecimal())

    @classmethod
    def prepare(
        cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any
    ) -> MpcBackendRep:
        """Returns a model to run. `kwargs` are flags of `mpc compile`, such as
        `precision="bf16-mixed"`. Compiles at the first run, when all shapes are
        known. Raises onnx.checker.ValidationError for an invalid model."""
        super().prepare(model, device, **kwargs)
        flags = {"as_exported": True, **kwargs}
        return MpcBackendRep(model, _device_of(device), flags)

    @classmethod
    def run_model(
        cls, model: onnx.ModelProto, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> tuple:
        """Runs a model once: `prepare(model).run(inputs)`."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Sequence[Any],
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype, tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple:
        """Runs one node on `inputs`, arrays for its inputs that are not empty.

        `outputs_info` has the type and shape of each output; without, ONNX's
        shape inference finds them. `opset_version` chooses the opset.
        """
        opset = kwargs.pop("opset_version", onnx.defs.onnx_opset_version())
        names = [name for name in node.input if name]
        arrays = [np.asarray(array) for array in inputs]
        if len(arrays) != len(names):
            raise UsageError(f"expected {len(names)} arrays, found {len(arrays)}")
        values = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, arrays)
        ]
        outputs = [name for name in node.output if name]
        if outputs_info is None:
            infos = [onnx.ValueInfoProto(name=name) for name in outputs]
        else:
            infos = [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape
                )
                for name, (dtype, shape) in zip(outputs, outputs_info)
            ]
        imports = [helper.make_opsetid(node.domain, 1)] if node.domain else []
        model = helper.make_model(
            helper.make_graph([node], "node", values, infos),
            opset_imports=[helper.make_opsetid("", opset), *imports],
        )
        if outputs_info is None:
            model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        return cls.run_model(model, arrays, device, **kwargs)


prepare = MpcBackend.prepare
run_model = MpcBackend.run_model
run_node = MpcBackend.run_node
supports_device = MpcBackend.supports_device
