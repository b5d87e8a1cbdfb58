"""What the scripts compare_... have in common: where the programs are, how others are run, how it ends when one fails.

A script runs itself with another Python, the one that has torch, for PyTorch's side: `run([python, __file__, WORKER, ...])`.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
WORKER = "--pytorch-worker"


def fail(message):
    """Ends the script with one line that says why."""
    sys.stdout.flush()
    print(f"{Path(sys.argv[0]).name}: error: {message}", file=sys.stderr)
    sys.exit(1)


def need_programs(*names):
    for name in names:
        if not (BIN / name).exists():
            fail(f"{BIN / name} is missing: cmake --preset release && cmake --build --preset release")


def run(command, quiet=False):
    """What the command prints (`quiet`: nothing). It must succeed; its last line on stderr is the reason if it does not."""
    command = [str(part) for part in command]
    try:
        done = subprocess.run(command, text=True, stdout=subprocess.DEVNULL if quiet else subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        fail(f"{command[0]}: {error.strerror}")
    if done.returncode != 0:
        fail(f"{' '.join(command)}: {(done.stderr.strip().splitlines() or ['it said nothing'])[-1]}")
    return done.stdout


def row(*cells):
    """A line of a table in Markdown."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)
