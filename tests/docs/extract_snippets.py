"""Writes the C++ and CMake snippets of README.md and docs/*.md to files, which tests include: page and test cannot differ.

Usage: extract_snippets.py SOURCE OUTPUT

A snippet becomes OUTPUT/<page>/<heading>_<n>.<cpp or cmake>, the n-th of its language under its heading. C++ begins with a
#line, so that the compiler's errors point into the page. Files keep their time if their text has not changed; those of
snippets that are gone are removed.
"""
import pathlib
import re
import sys

LANGUAGES = ("cpp", "cmake")


def slug(heading):
    return re.sub(r"[^a-z0-9]+", "_", heading.lower()).strip("_")


def snippets(page):
    """Yields (heading, language, number of the first line, text)."""
    heading, language, begin, lines = "top", None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if language is None and line.startswith("```"):
            language, begin, lines = line[3:].strip() or "text", number + 1, []
        elif language is not None and line.startswith("```"):
            if language in LANGUAGES:
                yield heading, language, begin, "\n".join(lines) + "\n"
            language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith("#"):
            heading = slug(line.lstrip("#"))


def extract(source, output):
    written = set()
    for page in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        counts = {}
        for heading, language, line, text in snippets(page):
            counts[heading, language] = number = counts.get((heading, language), 0) + 1
            path = output / page.stem / f"{heading}_{number}.{language}"
            if language == "cpp":
                text = f'#line {line} "{page}"\n{text}'
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
            written.add(path)
    for path in output.rglob("*"):
        if path.is_file() and path not in written:
            path.unlink()


if __name__ == "__main__":
    extract(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
