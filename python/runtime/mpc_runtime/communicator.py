"""Connects the ranks of a distributed run.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import traceback
import weakref
from typing import Any, Callable

import numpy as np

from mpc_runtime import library
from mpc_runtime.errors import UsageError

_MOST = 2**31 - 1


class Communicator:
    """The ranks that train together: processes with a device each.

    `Communicator.connect()` connects the ranks that a launcher such as mpirun has
    started. `Communicator(rank, size, backend)` takes a back end of the program:
    an object with four methods, on arrays of u8 in host memory. All ranks get
    equal calls. An exception ends the call with an error.

    - `exchange(source, target)`: sends row r of `source`, u8[size,n], to rank r,
      and receives row r of `target` from rank r
    - `gather(data)`: gives every rank the rows of all ranks; the own row of
      `data`, u8[size,n], is in place
    - `broadcast(data, root)`: gives every rank `data`, u8[n], of the rank `root`
    - `barrier()`: returns once all ranks have called

    The optional method `abort(why)` ends the calls in which other ranks wait. The
    attribute `name`, if there is one, names the back end.

    Pass a communicator to the sessions of all ranks, and make equal calls on all
    ranks. A communicator is a context manager that closes itself, unless an
    exception leaves the block: the other ranks may then wait for this rank, and
    the end of the process tells them.

    Raises UsageError unless `rank` is in [0, size), and TypeError if a method is
    missing.
    """

    def __init__(self, rank: int, size: int, backend: Any):
        rank = library.as_int("rank", rank, 0, _MOST)
        size = library.as_int("size", size, 1, _MOST)
        self._functions = _Functions(rank, size, backend)
        handle = ctypes.c_void_p()
        library.call(
            "communicator_create",
            rank,
            size,
            ctypes.byref(self._functions.struct),
            ctypes.byref(handle),
        )
        self._own(handle)

    @classmethod
    def connect(cls, *, ranks: int = 0, rank_timeout: float = 600) -> "Communicator":
        """Connects this process with the other ranks of its launcher, as
        `mpc train` does. Without a launcher, there is a single rank.

        `ranks` is the number of ranks that the launcher must have started; 1
        trains alone, 0 takes any number. `rank_timeout` is the longest wait for
        another rank, in seconds.

        Raises UsageError for impossible values and another number of ranks, and
        RankError if the library is missing or a rank does not come in time.
        """
        options = library.new(
            library.CCommunicatorOptions,
            library.as_int("ranks", ranks, 0, _MOST),
            float(rank_timeout),
        )
        communicator = cls.__new__(cls)
        handle = ctypes.c_void_p()
        library.call(
            "communicator_connect", ctypes.byref(options), ctypes.byref(handle)
        )
        communicator._functions = None
        communicator._own(handle)
        return communicator

    def _own(self, handle: ctypes.c_void_p) -> None:
        self._handle: ctypes.c_void_p | None = handle
        free = library.load().mpc_communicator_free
        self._free = weakref.finalize(self, free, handle)
        # The last user ends MPI, which waits for the other ranks. At exit after
        # an exception, they may wait for this rank.
        self._free.atexit = False

    def _open(self) -> ctypes.c_void_p:
        if self._handle is None:
            raise UsageError("the communicator is closed")
        return self._handle

    @property
    def rank(self) -> int:
        """The rank of this process, in [0, size)."""
        return library.plain("communicator_rank", self._open())

    @property
    def size(self) -> int:
        """The number of ranks."""
        return library.plain("communicator_size", self._open())

    @property
    def local_rank(self) -> int:
        """The rank among those on this machine; 0 for a back end of the
        program."""
        return library.plain("communicator_local_rank", self._open())

    @property
    def local_size(self) -> int:
        """The number of ranks on this machine; 1 for a back end of the
        program."""
        return library.plain("communicator_local_size", self._open())

    @property
    def backend(self) -> str:
        """The back end: "mpi", "gloo", the program's name, or "" for a single
        rank."""
        return library.plain("communicator_backend", self._open()).decode()

    @property
    def bytes_sent(self) -> int:
        """The bytes that this rank has sent so far."""
        return library.plain("communicator_bytes_sent", self._open())

    def barrier(self) -> None:
        """Returns once all ranks have called. Raises RankError if a rank is
        lost."""
        library.call("communicator_barrier", self._open())

    def abort(self, why: str) -> None:
        """Ends all other ranks with `why` as the reason. With MPI, ends this
        process too."""
        library.plain(
            "communicator_abort", self._open(), library.encode(why, "a reason")
        )

    def close(self) -> None:
        """Frees the communicator once no session has it. If mpc has begun MPI,
        this waits for all ranks. Closing twice does nothing."""
        self._handle = None
        self._free()

    def __enter__(self) -> "Communicator":
        return self

    def __exit__(self, kind: Any, *exception: Any) -> None:
        if kind is None:
            self.close()

    def __repr__(self) -> str:
        if self._handle is None:
            return "<mpc communicator, closed>"
        return f"<mpc communicator: rank {self.rank} of {self.size}>"


class _Functions:
    """The methods of a back end as functions of C."""

    def __init__(self, rank: int, size: int, backend: Any):
        for name in ("exchange", "gather", "broadcast", "barrier"):
            if not callable(getattr(backend, name, None)):
                raise TypeError(
                    f"the back end {type(backend).__name__} has no method {name}"
                )

        def view(address: int, count: int, writable: bool) -> np.ndarray:
            memory = (ctypes.c_uint8 * count).from_address(address)
            array = np.frombuffer(memory, np.uint8)
            array.flags.writeable = writable
            return array

        def exchange(_: Any, source: int, target: int, count: int) -> None:
            shape = (size, count)
            backend.exchange(
                view(source, size * count, False).reshape(shape),
                view(target, size * count, True).reshape(shape),
            )

        def gather(_: Any, data: int, count: int) -> None:
            backend.gather(view(data, size * count, True).reshape(size, count))

        def broadcast(_: Any, data: int, count: int, root: int) -> None:
            backend.broadcast(view(data, count, rank != root), root)

        def abort(_: Any, why: bytes) -> None:
            backend.abort(why.decode(errors="replace"))

        types = dict(library.CBackend._fields_)
        self._kept = [
            types["exchange"](self._guard(exchange)),
            types["gather"](self._guard(gather)),
            types["broadcast"](self._guard(broadcast)),
            types["barrier"](self._guard(lambda _: backend.barrier())),
        ]
        if callable(getattr(backend, "abort", None)):
            self._kept.append(types["abort"](self._guard(abort)))
        name = getattr(backend, "name", type(backend).__name__)
        self._name = library.encode(name, "the name of a back end")
        self.struct = library.new(library.CBackend, self._name, None, *self._kept)

    @staticmethod
    def _guard(function: Callable[..., None]) -> Callable[..., int]:
        """Returns a function that returns 0, or 1 after an exception, which it
        prints: C cannot pass it on."""

        def guarded(*arguments: Any) -> int:
            try:
                function(*arguments)
                return 0
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                return 1

        return guarded
