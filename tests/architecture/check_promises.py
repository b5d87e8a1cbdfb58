#!/usr/bin/env python3
"""Checks docs/ddp.md: every promise has its line and a test, and every test that is named exists.

    check_promises.py [ROOT]

Prints one line per violation and exits 1 where there is any.
"""

import re
import sys
from pathlib import Path

PROMISES = 33
ROW = re.compile(r"^\| (\d+)( \*)? \|")
NAMED_TEST = re.compile(r"`([A-Z]\w+)\.(\w+)`")
DEFINED_TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)


def defined_tests(root):
    return {match for path in (root / "tests").rglob("*_test.cpp") for match in DEFINED_TEST.findall(path.read_text(encoding="utf-8"))}


def check(root):
    tests = defined_tests(root)
    kept = set()
    for number, line in enumerate((root / "docs/ddp.md").read_text(encoding="utf-8").splitlines(), 1):
        named = NAMED_TEST.findall(line)
        for test in named:
            if test not in tests:
                yield f"docs/ddp.md:{number}: there is no test {'.'.join(test)}"
        if row := ROW.match(line):
            if not named:
                yield f"docs/ddp.md:{number}: promise {row[1]} names no test"
            kept.add(int(row[1]))
    for missing in sorted(set(range(1, PROMISES + 1)) - kept):
        yield f"docs/ddp.md:1: promise {missing} is missing"


def main():
    violations = list(check(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
    print(*violations, sep="\n")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
