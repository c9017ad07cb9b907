"""Kills a rank of a distributed run at random moments, and checks that the whole
run ends and can be resumed.

    kill_ranks.py [MOMENT...] [--count N] [--first N] [--ranks R]
                  [--launcher COMMAND] [--signal S] [--seconds S] [--keep FOLDER]
                  [--shard-optimizer]

MOMENT is one of:

    start       between the start of the launcher and the first step
    compile     the same, without compiled kernels in the cache
    training    after a random step
    evaluation  during an evaluation
    checkpoint  while rank 0 writes a checkpoint
    end         after the last step: last checkpoint, evaluation and output

The default is all moments, in turn. A case depends on its number alone, but the
system decides how far the run has come: `kill_ranks.py end --first 120 --count
1` repeats one. A case fails unless

  - all processes of the run end within S seconds (default: 30), the launcher
    with an exit code other than 0, and
  - the newest checkpoint resumes on 1, 2 and 3 ranks with the same samples per
    step. Epochs, samples and losses must be those of a run on one rank that was
    not killed. Without a checkpoint, the run must start anew.

With --shard-optimizer, the runs that are killed divide AdamW among their ranks.
Each resumes on 1, 2 and 3 ranks twice: with the flag and without.

A run that ends before the kill must have exit code 0. R is the number of ranks
(default: 2), COMMAND the launcher (default: mpirun --oversubscribe), and S the
signal (default: KILL). Folders of failed cases are kept in FOLDER, and the exit
code is 1. MPC_BUILD_DIR names the build (default: build/ of this tree).

SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).parents[1]
MPC = pathlib.Path(os.environ.get("MPC_BUILD_DIR", ROOT / "build")) / "bin" / "mpc"
MODEL = ROOT / "test" / "data" / "models" / "mlp.onnx"
DIGITS = ROOT / "test" / "data" / "digits"

MOMENTS = ("start", "compile", "training", "evaluation", "checkpoint", "end")
STEPS, SAVE_EVERY, EVALUATE_EVERY = 150, 25, 40
GLOBAL_BATCH = 48  # 1, 2, 3, 4 and 6 ranks divide it
RESUMED_STEPS = 10
# Sums in another order round otherwise, and differences grow with the steps.
TOLERANCE = 1e-3
# Seconds in which an undisturbed run must end.
TIMEOUT = 300

Outcome = collections.namedtuple("Outcome", "code text seconds hit")


class Failed(Exception):
    """A case that failed, with the reason."""


def make_data(folder):
    """The digits, and for evaluations of a visible length many copies."""
    shutil.copy(DIGITS / "digits-train.npz", folder / "train.npz")
    with np.load(DIGITS / "digits-test.npz") as arrays:
        copies = {name: np.concatenate([arrays[name]] * 100) for name in arrays}
    np.savez(folder / "val.npz", **copies)


def train_command(options, data, folder, *flags, shards=None):
    """`shards` is True if the run divides the optimizer, by default as the
    options say."""
    if options.shard_optimizer:
        flags += ("--optimizer", "adamw")
        if shards or shards is None:
            flags += ("--shard-optimizer",)
    return [
        *(MPC, "train", MODEL, "--loss", "softmax_cross_entropy"),
        *("--lr", 0.002 if options.shard_optimizer else 0.05),
        *("--data", data / "train.npz", "--val-data", data / "val.npz"),
        *("--val-every", EVALUATE_EVERY, "--checkpoint-every", SAVE_EVERY),
        *("--global-batch-size", GLOBAL_BATCH, "--device", "cpu"),
        *("--threads", 1, "--checkpoint-dir", folder / "run"),
        *("--metrics", folder / "metrics.jsonl", "--resume", "auto"),
        *("--output", folder / "trained.npz", *flags),
    ]


def launch(options, ranks, command, **more):
    """Starts a command on several ranks."""
    environment = os.environ | {
        # Open MPI asks root twice.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        **more.pop("environment", {}),
    }
    launcher = [*shlex.split(options.launcher), "-n", ranks] if ranks > 1 else []
    return subprocess.Popen(
        [*map(str, [*launcher, *command])],
        stdin=subprocess.DEVNULL,
        env=environment,
        **more,
    )


def find_ranks(folder):
    """The processes of mpc that work in `folder`, by rank."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            if words[0] != bytes(MPC) or bytes(folder / "run") not in words:
                continue
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        values = dict(v.split(b"=", 1) for v in variables if b"=" in v)
        rank = values.get(b"OMPI_COMM_WORLD_RANK", values.get(b"PMI_RANK", b"0"))
        found[int(rank)] = int(process.name)
    return found


def read_events(path):
    """The events of a metrics file, whose last line may be incomplete."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text().splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            break
    return events


def read_steps(path):
    """The training steps of a metrics file by number."""
    return {e["step"]: e for e in read_events(path) if e["event"] == "train"}


class Watch:
    """Follows a metrics file while a run writes it."""

    def __init__(self, path):
        self.path, self.position, self.steps = path, 0, 0

    def count(self):
        """The number of the newest step."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self.position)
                text = file.read()
        except OSError:
            return self.steps
        whole = text[: text.rfind(b"\n") + 1]
        self.position += len(whole)
        self.steps += whole.count(b'"event":"train"')
        return self.steps


def wait_for(run, condition):
    """Waits until the condition holds. False if the run ends before."""
    end = time.monotonic() + TIMEOUT
    while time.monotonic() < end:
        if condition():
            return True
        if run.poll() is not None:
            return False
        time.sleep(0.0002)
    raise Failed(f"the run has hung for {TIMEOUT} s")


def wait_for_moment(moment, run, folder, times, chance):
    """Waits for the moment of the kill. False if the run ends before."""
    watch = Watch(folder / "metrics.jsonl")
    evaluations = STEPS // EVALUATE_EVERY
    if moment in ("start", "compile"):
        delay, begin = chance.uniform(0, times[moment]), time.monotonic()
        return wait_for(run, lambda: time.monotonic() - begin >= delay)
    if moment == "training":
        step = chance.randint(1, STEPS - 1)
        return wait_for(run, lambda: watch.count() >= step)
    if moment == "evaluation":
        step = EVALUATE_EVERY * chance.randint(1, evaluations)
        delay = chance.uniform(0, times["evaluation"])
        reached = wait_for(run, lambda: watch.count() >= step)
        time.sleep(delay)
        return reached
    if moment == "checkpoint":
        # The file of a later checkpoint than this one.
        step = SAVE_EVERY * chance.randint(0, STEPS // SAVE_EVERY - 1)
        names = folder / "run"

        def is_writing():
            try:
                found = os.listdir(names)
            except OSError:
                return False
            return any(
                name.endswith(".tmp") and int(name[5:-4]) > step
                for name in found
                if name.startswith("step-")
            )

        return wait_for(run, is_writing)
    delay = chance.uniform(0, times["end"])
    reached = wait_for(run, lambda: watch.count() >= STEPS)
    time.sleep(delay)
    return reached


def run_and_kill(options, number, moment, data, folder, times):
    """Starts a run, kills a rank, and waits for the end of all processes."""
    chance = random.Random(f"{moment} {number}")
    victim = chance.randrange(options.ranks)
    cold = {"MPC_KERNEL_CACHE": str(folder / "cache")}
    log = folder / "log.txt"
    with open(log, "wb") as output:
        run = launch(
            options,
            options.ranks,
            train_command(options, data, folder, "--max-steps", STEPS),
            environment=cold if moment == "compile" else {},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    hit = False
    try:
        if wait_for_moment(moment, run, folder, times, chance):
            wait_for(run, lambda: victim in find_ranks(folder))
            process = find_ranks(folder).get(victim)
            if process:
                try:
                    os.kill(process, options.signal)
                    hit = True
                except ProcessLookupError:
                    pass
        begin = time.monotonic()
        limit = options.seconds if hit else TIMEOUT
        try:
            code = run.wait(limit)
        except subprocess.TimeoutExpired:
            raise Failed(f"the launcher still runs after {limit} s") from None
        while find_ranks(folder):
            if time.monotonic() - begin > limit:
                left = ", ".join(f"rank {r}" for r in sorted(find_ranks(folder)))
                raise Failed(f"{left} still running after {limit} s")
            time.sleep(0.01)
        seconds = time.monotonic() - begin
    finally:
        for process in find_ranks(folder).values():
            os.kill(process, signal.SIGKILL)
        run.kill()
        run.wait()
    return victim, Outcome(code, log.read_text(errors="replace"), seconds, hit)


def check_end(outcome):
    if outcome.hit and outcome.code == 0 and "wrote " not in outcome.text:
        raise Failed("the launcher says that all is well")
    if not outcome.hit and outcome.code != 0:
        raise Failed(f"nothing was killed, but the exit code is {outcome.code}")


def newest(folder):
    """The step of the newest complete checkpoint; 0 if there is none."""
    names = [p.name for p in (folder / "run").glob("step-*")]
    return max((int(n[5:]) for n in names if n[5:].isdigit()), default=0)


def check_resume(options, ranks, data, folder, expected, shards):
    """Resumes a copy of the run, and compares steps with an undisturbed run."""
    copy = folder / f"on-{ranks}{'-sharded' if shards else ''}"
    copy.mkdir()
    if (folder / "run").exists():
        shutil.copytree(folder / "run", copy / "run", symlinks=True)
    first = newest(copy)
    last = min(first + RESUMED_STEPS, STEPS)
    process = launch(
        options,
        ranks,
        train_command(options, data, copy, "--max-steps", last, shards=shards),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        text, _ = process.communicate(timeout=TIMEOUT)
    finally:
        process.kill()
    where = f"resumed at step {first} on {ranks} ranks"
    if shards:
        where += " with --shard-optimizer"
    if process.returncode != 0:
        raise Failed(f"{where}: exit code {process.returncode}\n{text}")
    steps = read_steps(copy / "metrics.jsonl")
    if sorted(steps) != list(range(first + 1, last + 1)):
        raise Failed(f"{where}: made the steps {sorted(steps)}")
    for number, step in steps.items():
        for key in ("epoch", "samples"):
            if step[key] != expected[number][key]:
                raise Failed(
                    f"{where}: {key} {step[key]} at step {number}, expected "
                    f"{expected[number][key]}"
                )
        loss = expected[number]["loss"]
        if not abs(step["loss"] - loss) <= TOLERANCE * abs(loss):
            raise Failed(
                f"{where}: loss {step['loss']} at step {number}, expected {loss}"
            )
    return first


def measure(options, data, folder):
    """Runs once without a kill on one rank, for the losses, and on all ranks
    with and without compiled kernels, for the seconds until moments."""
    times, expected = {}, {}
    for name, ranks in (("one", 1), ("compile", options.ranks), ("start", options.ranks)):
        (folder / name).mkdir()
        cold = {"MPC_KERNEL_CACHE": str(folder / name / "cache")}
        begin = time.monotonic()
        with open(folder / name / "log.txt", "wb") as log:
            run = launch(
                options,
                ranks,
                train_command(options, data, folder / name, "--max-steps", STEPS),
                environment=cold if name == "compile" else {},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        watch = Watch(folder / name / "metrics.jsonl")
        wait_for(run, lambda: watch.count() >= 1)
        times[name] = time.monotonic() - begin
        wait_for(run, lambda: watch.count() >= EVALUATE_EVERY)
        times["evaluation"] = time.monotonic()
        wait_for(run, lambda: watch.count() > EVALUATE_EVERY)
        times["evaluation"] = time.monotonic() - times["evaluation"]
        wait_for(run, lambda: watch.count() >= STEPS)
        times["end"] = time.monotonic()
        if run.wait(TIMEOUT) != 0:
            raise Failed((folder / name / "log.txt").read_text())
        times["end"] = time.monotonic() - times["end"]
    expected = read_steps(folder / "one" / "metrics.jsonl")
    return times, expected


def run_case(options, number, moment, data, folder, times, expected):
    victim, outcome = run_and_kill(options, number, moment, data, folder, times)
    check_end(outcome)
    for shards in (False, True) if options.shard_optimizer else (False,):
        for ranks in (1, 2, 3):
            first = check_resume(options, ranks, data, folder, expected, shards)
    done = "killed" if outcome.hit else "ended before"
    print(
        f"{number} {moment}: rank {victim} {done}, exit code {outcome.code}, all "
        f"ended in {outcome.seconds:.2f} s; resumed at step {first} on 1, 2 and 3 "
        "ranks",
        flush=True,
    )
    return outcome


def parse_arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("moments", nargs="*", metavar="MOMENT")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--launcher", default="mpirun --oversubscribe")
    parser.add_argument("--signal", default="KILL")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--shard-optimizer", action="store_true")
    options = parser.parse_args()
    for moment in options.moments:
        if moment not in MOMENTS:
            sys.exit(f"error: expected some of {', '.join(MOMENTS)}, found '{moment}'")
    options.moments = options.moments or list(MOMENTS)
    options.signal = signal.Signals[f"SIG{options.signal}"]
    return options


def main():
    options = parse_arguments()
    outcomes, failed = [], 0
    with tempfile.TemporaryDirectory(prefix="kill-ranks-") as name:
        data = pathlib.Path(name)
        make_data(data)
        times, expected = measure(options, data, data)
        for number in range(options.first, options.first + options.count):
            moment = options.moments[number % len(options.moments)]
            folder = data / f"{number}-{moment}"
            folder.mkdir()
            try:
                outcomes.append(
                    run_case(options, number, moment, data, folder, times, expected)
                )
            except Failed as reason:
                failed += 1
                print(f"{number} {moment}: {reason}", flush=True)
                if options.keep:
                    shutil.copytree(folder, options.keep / folder.name, symlinks=True)
            shutil.rmtree(folder)
    killed = [outcome.seconds for outcome in outcomes if outcome.hit]
    if killed:
        print(
            f"{len(killed)} killed, all ended in {statistics.median(killed):.2f} s "
            f"(median), {max(killed):.2f} s (most)"
        )
    print(f"{options.count} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
