#!/usr/bin/env python3
"""Checks the architecture from the sources: which folder includes which, and one stem per operator.

    check_architecture.py [ROOT]

Prints one line per violation, `file:line: what is wrong`, and exits 1 where there is any. The table below is the only place
that knows the edges; CMakeLists.txt repeats them as LINKS, and the two are compared.
"""

import re
import sys
from pathlib import Path

MAY_INCLUDE = {
    "core": set(),
    "autograd": {"core"},
    "nn": {"autograd", "core"},
    "optim": {"autograd", "core"},
    "models": {"nn", "autograd", "core"},
    "data": {"core"},
    "distributed": {"core", "autograd"},
    "train": {"distributed", "data", "optim", "nn", "autograd", "core"},
}
# Edges that are open to one stem only: (folder, included folder) -> stem.
ONLY_IN = {
    ("distributed", "nn"): "distributed_data_parallel",
    ("distributed", "optim"): "sharded_optimizer",
}
# Headers of core/ops that are no operator, but what several share.
NOT_AN_OPERATOR = {"broadcast", "dispatch", "operands", "pool_windows", "segment"}

SOURCES = {".h", ".cpp", ".cuh", ".cu"}
# Folders whose headers are not installed: kernels, and what needs a library that users need not have.
PRIVATE_FOLDERS = {"cpu", "cuda", "mpi"}
# What the libraries are built with and their users need not have (the PRIVATE dependencies in CMakeLists.txt).
PRIVATE_HEADERS = re.compile(r"(unsupported/)?Eigen/|(oneapi/)?dnnl|nlohmann/|zlib\.h|utf8proc\.h|jpeglib\.h|jerror\.h|png\.h|gloo/|mpi\.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def files_of(root, folder):
    return sorted(path for path in (root / folder).rglob("*") if path.suffix in SOURCES)


def includes_of(path):
    """(line number, delimiter, included name) of each #include line."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match[1], match[2]


def is_public_header(path, root):
    return path.suffix == ".h" and not PRIVATE_FOLDERS & set(path.relative_to(root).parts[:-1])


def check_spelling(folder, delimiter, name):
    """Ours are "tandem/<folder>/...", all others <...>. The programs share headers as "tools/..."."""
    parts = name.split("/")
    ours = len(parts) > 2 and parts[0] == "tandem" and parts[1] in MAY_INCLUDE
    if delimiter == '"' and not ours and not (folder == "tools" and parts[0] == "tools"):
        yield f'"{name}": ours are spelled "tandem/<folder>/...", headers of others <...>'
    if delimiter == "<" and parts[0] == "tandem":
        yield f'<{name}>: spell it "{name}"'


def check_edge(folder, stem, name):
    if folder not in MAY_INCLUDE or not name.startswith("tandem/"):
        return
    target = name.split("/")[1]
    if target == folder or target in MAY_INCLUDE[folder]:
        return
    only = ONLY_IN.get((folder, target))
    if stem != only:
        allowed = f"{target} only in {only}.*" if only else ", ".join(sorted(MAY_INCLUDE[folder])) or "nothing of ours"
        yield f"{folder} includes {target} (it may include {allowed})"


def check_public(name):
    if PRIVATE_HEADERS.match(name):
        yield f"a public header includes {name}, which users need not have"
    if name.startswith("tandem/") and PRIVATE_FOLDERS & set(name.split("/")):
        yield f"a public header includes {name}, which is not installed"


def check_includes(root):
    for folder in [*MAY_INCLUDE, "tools"]:
        for path in files_of(root, folder):
            for number, delimiter, name in includes_of(path):
                found = [*check_spelling(folder, delimiter, name), *check_edge(folder, path.stem, name)]
                if folder != "tools" and is_public_header(path, root):
                    found += check_public(name)
                for violation in found:
                    yield f"{path.relative_to(root)}:{number}: {violation}"


def check_notices(root):
    """A library's or a program's words to the user must not end the run if they do not arrive."""
    for folder in [*MAY_INCLUDE, "tools"]:
        for path in files_of(root, folder):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if "fmt::print(stderr" in line:
                    yield f"{path.relative_to(root)}:{number}: fmt::print throws if stderr takes nothing: use std::fputs"


def check_stems(root):
    ops = root / "core/ops"
    for header in sorted(ops.glob("*.h")):
        if header.stem in NOT_AN_OPERATOR:
            continue
        has_kernels = "namespace kernels {" in header.read_text(encoding="utf-8")  # cat, for one, is made of copies
        for needed in [ops / f"{header.stem}.cpp"] + [ops / "cpu" / f"{header.stem}.cpp"] * has_kernels:
            if not needed.exists():
                yield f"{header.relative_to(root)}:1: no {needed.relative_to(root)} beside it (one operator, one stem)"
    for source in sorted(ops.glob("*.cpp")):
        if not source.with_suffix(".h").exists():
            yield f"{source.relative_to(root)}:1: no {source.stem}.h beside it (one operator, one stem)"


def check_links(root):
    """tandem_folder(NAME LINKS ...) gives exactly the edges of the table."""
    text = re.sub(r"#.*", "", (root / "CMakeLists.txt").read_text(encoding="utf-8"))
    declared = {}
    for match in re.finditer(r"tandem_folder\(\s*(\w+)(?:\s+LINKS\s+([^)]*))?\)", text):
        declared[match[1]] = set((match[2] or "").split())
    for folder, links in declared.items():
        if folder not in MAY_INCLUDE:
            yield f"CMakeLists.txt:1: tandem_folder({folder}) is not in the table"
            continue
        opened = {to for (start, to), stem in ONLY_IN.items()
                  if start == folder and any(path.stem == stem for path in files_of(root, folder))}
        expected = MAY_INCLUDE[folder] | opened
        if links != expected:
            yield f"CMakeLists.txt:1: {folder} LINKS {sorted(links)}, the table says {sorted(expected)}"
    for folder in MAY_INCLUDE:
        if folder not in declared and files_of(root, folder):
            yield f"CMakeLists.txt:1: no tandem_folder({folder}), but the folder has sources"
    for match in re.finditer(r"target_link_libraries\(\s*tandem_(\w+)([^)]*)\)", text):
        if match[1] in MAY_INCLUDE and (other := re.search(r"(?:\btandem_|Tandem::)(?!flags)\w+", match[2])):
            yield f"CMakeLists.txt:1: {match[1]} links {other[0]} past LINKS"


def check(root):
    return [*check_includes(root), *check_notices(root), *check_stems(root), *check_links(root)]


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    if not files_of(root, "core"):
        sys.exit(f"check_architecture: {root} is not the source tree: no sources in core/")
    violations = check(root)
    print(*violations, sep="\n")
    sys.exit(1 if violations else 0)


if __name__ == "__main__":
    main()
