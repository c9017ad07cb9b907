"""Trains with a schedule and checkpoints, as `mpc train` does.

SPDX-License-Identifier: Apache-2.0
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
import weakref
from typing import Any, Iterable, Mapping, Sequence

from mpc_runtime import library
from mpc_runtime.artifact import PathLike
from mpc_runtime.errors import UsageError
from mpc_runtime.session import Batch, Session

_MOST = 2**63 - 1


@dataclasses.dataclass(frozen=True)
class BatchResult:
    """The results of a batch. `float(result)` is the loss.

    `is_step` is True if the batch completed an update attempt: always, unless
    the artifact accumulates gradients. The other figures then describe the
    attempt: `loss` is the mean over its batches, before the update. `skipped` is
    True if gradients were not finite, and no weight changed. Figures that were
    not measured are None.
    """

    is_step: bool
    skipped: bool
    loss: float
    learning_rate: float | None
    accuracy: float | None
    grad_norm: float | None
    loss_scale: float | None

    def __float__(self) -> float:
        return self.loss


@dataclasses.dataclass(frozen=True)
class Progress:
    """The place of a trainer in its run.

    `step` counts update attempts, skipped ones too, and `batches` the batches
    run by all ranks: to continue, leave out so many. `learning_rate` is the rate
    of the next update.
    """

    step: int
    batches: int
    samples: int
    skipped: int
    epoch: int
    step_in_epoch: int
    batch_in_step: int
    learning_rate: float


class Trainer:
    """Trains a session's model with a schedule, checkpoints and resuming.

    The options mean what the flags of `mpc train` mean. `lr_scheduler` is a text
    such as "cosine" or "step:100:0.5". `total_steps` counts the whole run, the
    steps before a resume too; "linear", "cosine" and "one-cycle" need it.
    `checkpoint_dir` is the folder of checkpoints. `resume="auto"` continues from
    the newest undamaged checkpoint there, or starts anew if there is none.
    `data` names the data and their order: a run resumes only with the same name.
    `best`, a metric such as "accuracy", keeps the best weights, and
    `early_stopping`, such as "loss:5", tells when to stop; both, and the schedule
    "plateau", follow the calls of `evaluate`.
    `notes` tells what a resume has changed.

    If the session has a communicator, all ranks need equal options and make equal
    calls, each with batches of its own: of all batches, rank r of R takes r,
    r + R, r + 2 R, ... All start with the state of rank 0, which alone reads and
    writes checkpoints. A call that is refused on one rank raises RankError on the
    others.

    A trainer locks its folder of checkpoints until `close`, and is a context
    manager. Threads may share it, like its session.

    Raises UsageError for a wrong option, or for a folder with checkpoints of an
    earlier run without `resume`; UnsupportedError if the artifact cannot train;
    CheckpointError if the checkpoint is damaged or of another run; FileError if a
    folder cannot be read, written or locked.
    """

    def __init__(
        self,
        session: Session,
        *,
        learning_rate: float = 1e-3,
        lr_scheduler: str = "constant",
        min_lr: float = 0.0,
        warmup_steps: int = 0,
        total_steps: int | None = None,
        steps_per_epoch: int | None = None,
        checkpoint_dir: PathLike | None = None,
        keep_checkpoints: int = 3,
        resume: PathLike | None = None,
        data: str = "",
        best: str | None = None,
        early_stopping: str | None = None,
        allow_nan: bool = False,
    ):
        if not isinstance(session, Session):
            raise TypeError(f"expected a Session, found {type(session).__name__}")
        options = library.new(
            library.CTrainerOptions,
            _as_float("learning_rate", learning_rate),
            library.encode(lr_scheduler, "lr_scheduler"),
            _as_float("min_lr", min_lr),
            library.as_int("warmup_steps", warmup_steps, 0, _MOST),
            library.as_int("total_steps", _or_zero(total_steps), 0, _MOST),
            library.as_int("steps_per_epoch", _or_zero(steps_per_epoch), 0, _MOST),
            _as_path(checkpoint_dir, "checkpoint_dir"),
            library.as_int("keep_checkpoints", keep_checkpoints, 0, _MOST),
            _as_path(resume, "resume"),
            library.encode(data, "data"),
            int(bool(allow_nan)),
            None if best is None else library.encode(best, "best"),
            None
            if early_stopping is None
            else library.encode(early_stopping, "early_stopping"),
        )
        self._counts = best is not None or early_stopping is not None
        self._counts |= lr_scheduler.startswith("plateau")
        self._allow_nan = allow_nan
        self.session = session
        handle = ctypes.c_void_p()
        with session._lock:
            session._derive()
            library.call(
                "trainer_create",
                session._open(),
                ctypes.byref(options),
                ctypes.byref(handle),
            )
            self.notes = self._read_notes(handle)
        self._handle: ctypes.c_void_p | None = handle
        self._free = weakref.finalize(self, library.load().mpc_trainer_free, handle)
        # At exit, a daemon thread may still be in the library.
        self._free.atexit = False
        functions = session.artifact.functions
        self._function = "step" if "step" in functions else "accumulate"

    def step(self, batch: Batch) -> BatchResult:
        """Trains one batch. Updates the weights after each batch, or after the
        last of the batches that the artifact accumulates.

        `batch` has exactly the artifact's batch size; arguments and errors are
        those of `Session.step`. Raises InvalidInputError also for values that are
        not finite, unless `allow_nan`.
        """
        result = library.new(library.CBatchResult)
        with self.session._lock:
            handle = self._open()
            structs, arrays = self.session._make_arrays(
                self._function, batch, any_count=False
            )
            self.session._derive()
            library.call(
                "trainer_run_batch", handle, structs, len(arrays), ctypes.byref(result)
            )
        return BatchResult(
            bool(result.is_step),
            bool(result.skipped),
            result.loss,
            *(
                None if math.isnan(value) or not result.is_step else value
                for value in (
                    result.learning_rate,
                    result.accuracy,
                    result.grad_norm,
                    result.loss_scale,
                )
            ),
        )

    def save(self) -> None:
        """Writes a checkpoint, the folder step-N in `checkpoint_dir`, in the
        format of `mpc train`, and removes all but the newest `keep_checkpoints`.

        Raises UsageError without `checkpoint_dir`, FileError if the checkpoint
        cannot be written, NumericError if the last loss or a weight is not
        finite. The trainer stays usable.
        """
        with self.session._lock:
            handle = self._open()
            self.session._derive()
            library.call("trainer_save", handle)
            self.notes = self._read_notes(handle)

    def check_ranks(self) -> None:
        """Makes the state of all ranks equal: averages running statistics, which
        each rank takes from batches of its own, and checks that all other state
        has equal bits. Call it before saving weights. `save` does so too.

        Raises RankError, which names the first variable that differs.
        """
        with self.session._lock:
            handle = self._open()
            self.session._derive()
            library.call("trainer_check_ranks", handle)

    def evaluate(
        self, batches: Mapping[str, Any] | Iterable[Batch], metrics: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Evaluates as `Session.evaluate` does, and counts the result for `best`,
        `early_stopping` and the schedule "plateau". The figures have two more
        keys: "is_best" is True if the weights are the best so far, and
        "should_stop" is True if early stopping ends the run. The best weights are
        kept in a checkpoint, or in memory without `checkpoint_dir`.

        `metrics` must include the metrics that the options name, but for loss and
        accuracy. Raises UsageError otherwise, and between the micro-batches of a
        step.
        """

        def count(evaluation: ctypes.c_void_p) -> dict[str, Any]:
            verdict = library.new(library.CVerdict)
            if self._counts:
                library.call(
                    "trainer_count_evaluation",
                    self._open(),
                    evaluation,
                    ctypes.byref(verdict),
                )
                self.notes = self._read_notes(self._open())
            return {
                "is_best": bool(verdict.is_best),
                "should_stop": bool(verdict.should_stop),
            }

        with self.session._lock:
            self._open()
            return self.session._evaluate(batches, metrics, self._allow_nan, count)

    def restore_best(self) -> int:
        """Ends the training: gives the session the weights of the best
        evaluation, and returns its step. Raises UsageError without `best`,
        NumericError if no evaluation had a finite value, CheckpointError if the
        checkpoint of the best is damaged."""
        step = ctypes.c_int64()
        with self.session._lock:
            library.call("trainer_restore_best", self._open(), ctypes.byref(step))
        return step.value

    @property
    def progress(self) -> Progress:
        """The place of the trainer in its run."""
        raw = library.new(library.CProgress)
        with self.session._lock:
            library.call("trainer_get_progress", self._open(), ctypes.byref(raw))
        names = [field.name for field in dataclasses.fields(Progress)]
        return Progress(*(getattr(raw, name) for name in names))

    def set_learning_rate(self, learning_rate: float) -> None:
        """Replaces the option `learning_rate` from the next batch on. The
        schedule still applies. Raises UsageError for a rate that is negative, not
        finite or below `min_lr`."""
        rate = _as_float("learning_rate", learning_rate)
        with self.session._lock:
            library.call("trainer_set_learning_rate", self._open(), rate)

    def close(self) -> None:
        """Frees the trainer and unlocks its folder. Keeps the session. Closing
        twice does nothing."""
        with self.session._lock:
            self._handle = None
            self._free()

    def __enter__(self) -> "Trainer":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def _open(self) -> ctypes.c_void_p:
        self.session._open()
        if self._handle is None:
            raise UsageError("the trainer is closed")
        return self._handle

    @staticmethod
    def _read_notes(handle: ctypes.c_void_p) -> list[str]:
        return library.plain("trainer_notes", handle).decode().splitlines()


def _or_zero(value: int | None) -> int:
    return 0 if value is None else value


def _as_float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"expected {name} as a number, found {type(value).__name__}"
        ) from error


def _as_path(value: PathLike | None, name: str) -> bytes | None:
    if value is None:
        return None
    try:
        return library.encode(os.fsdecode(value), name)
    except TypeError:
        raise TypeError(
            f"expected {name} as a path, found {type(value).__name__}"
        ) from None
