"""What the scripts compare_... and measure_overlap have in common: where the programs are, how others are run, how it ends when one fails.

A script runs itself with another Python, the one that has torch, for PyTorch's side: `run([python, __file__, WORKER, ...])`.
"""

import argparse
import contextlib
import json
import os
import shlex
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
WORKER = "--pytorch-worker"


class Failed(Exception):
    """Of a command; says which, and why."""


def fail(message):
    """Ends the script with one line that says why."""
    sys.stdout.flush()
    print(f"{Path(sys.argv[0]).name}: error: {message}", file=sys.stderr)
    sys.exit(1)


def need_programs(*names):
    for name in names:
        if not (BIN / name).exists():
            fail(f"{BIN / name} is missing: cmake --preset release && cmake --build --preset release")


def last_line(text):
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def attempt(command, quiet=False, env=None, limit_s=None):
    """What the command prints (`quiet`: nothing). Raises Failed where it does not succeed; its last line on stderr is the reason."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, stdout=subprocess.DEVNULL if quiet else subprocess.PIPE, stderr=subprocess.PIPE, env=env, timeout=limit_s)
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise Failed(f"{shlex.join(command)}: not done in {limit_s} s") from None
    if done.returncode != 0:
        raise Failed(f"{shlex.join(command)}: {last_line(done.stderr.decode(errors='replace'))}")
    return "" if quiet else done.stdout.decode()


def run(command, **options):
    """As attempt(), but the script ends where the command fails."""
    try:
        return attempt(command, **options)
    except Failed as failed:
        fail(failed)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def run_ranks(command, ranks, limit_s):
    """Runs the command as so many ranks of one thread over loopback; what rank 0 prints. The script ends where one fails, and does not wait for
    the others, which may wait for it."""
    command = [str(part) for part in command]
    shared = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
              "GLOO_SOCKET_IFNAME": "lo"}
    with contextlib.ExitStack() as files:
        outputs, errors = ([files.enter_context(tempfile.TemporaryFile("w+")) for _ in range(ranks)] for _ in range(2))
        processes = [subprocess.Popen(command, env=environment(1, **shared, RANK=str(rank), LOCAL_RANK=str(rank)), stdout=outputs[rank],
                                      stderr=errors[rank]) for rank in range(ranks)]
        end = time.monotonic() + limit_s
        try:
            while None in (ended := [process.poll() for process in processes]) and not any(ended) and time.monotonic() < end:
                time.sleep(0.05)
        finally:
            for process in processes:
                process.kill()
        for rank, code in enumerate(ended):
            if code:
                errors[rank].seek(0)
                fail(f"{shlex.join(command)}, rank {rank} of {ranks}: {last_line(errors[rank].read())}")
        if None in ended:
            fail(f"{shlex.join(command)}, {ranks} ranks: not done in {limit_s} s")
        outputs[0].seek(0)
        return outputs[0].read()


def environment(threads, **more):
    """Of a process with so many compute threads, which is no rank unless `more` says so."""
    of_ranks = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return {**{key: value for key, value in os.environ.items() if key not in of_ranks}, "OMP_NUM_THREADS": str(threads), **more}


def torch_version(python):
    try:
        return attempt([python, "-c", "import torch; print(torch.__version__)"]).strip()
    except Failed as failed:
        fail(f"no torch there ({failed}); name a Python that has it with --python PATH")


def at_least(least):
    """A type of arguments: whole numbers."""
    def parse(text):
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from {least}")
        return value
    return parse


def list_of(parse):
    """A type of arguments: several, with commas."""
    return lambda text: [parse(part) for part in text.split(",")]


def row(*cells):
    """A line of a table in Markdown."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*cells):
    row(*cells)
    row(*["---"] * len(cells))


def write_json(path, report):
    """Whole or not at all."""
    temporary = Path(f"{path}.tmp")
    temporary.write_text(json.dumps(report, indent=2) + "\n")
    temporary.replace(path)
