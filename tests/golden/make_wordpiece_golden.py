#!/usr/bin/env python3
"""Makes wordpiece.json, the golden tokens of tests/data/wordpiece_test.cpp, with Hugging Face's tokenizers.

Run it where transformers and WordNet are installed; neither the build nor the tests need transformers:

    python3 tests/golden/make_wordpiece_golden.py            # rewrites the file beside this script

The file: `vocabulary`, of frequent parts of words, and `cases`: a line as `text`, or as `bytes` in hexadecimal where it is not
UTF-8, and what BertTokenizerFast makes of it, `uncased` and `cased`, with special tokens in the text split; where recognising them makes
a difference also `uncased_special` and `cased_special`. Lines are those of tools/compare_tokenizer.
"""

import collections
import itertools
import json
import tempfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import tokenizers
import transformers

HERE = Path(__file__).parent
COMPARE = HERE.parent.parent / "tools" / "compare_tokenizer"
PIECES, LINES, SEED = 2500, 300, 7


def load_compare():
    module = module_from_spec(spec_from_loader("compare_tokenizer", SourceFileLoader("compare_tokenizer", str(COMPARE))))
    module.__spec__.loader.exec_module(module)
    return module


def make_vocabulary(texts):
    """Characters and the most frequent beginnings and inner parts of words: cased and uncased, so that either way finds pieces."""
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    splitter = tokenizers.pre_tokenizers.BertPreTokenizer()
    for lower in (True, False):
        normalizer = tokenizers.normalizers.BertNormalizer(lowercase=lower)
        counts = collections.Counter()
        for text in texts:
            for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)):
                for begin, end in itertools.combinations(range(min(len(word), 16) + 1), 2):
                    counts["##" * (begin > 0) + word[begin:end]] += 1
        weighted = sorted(counts, key=lambda piece: (-counts[piece] * len(piece), piece))
        vocabulary += weighted[:PIECES]
    return list(dict.fromkeys(vocabulary))


def main():
    compare = load_compare()
    sentences = [sentence.encode() for sentence in compare.SENTENCES]
    special = [b"[CLS]", b"a[MASK]b", b"[SEP]x[PAD]", b"[[MASK]]", b"[MASK", b"[mask] [UNK]\0[MASK]\xff", b"[MA\xcc\x81SK]"]
    lines = sentences + special + compare.make_lines(LINES, SEED)
    texts = compare.SENTENCES * 3 + [line.decode(errors="ignore") for line in compare.make_lines(4000, SEED + 1)]
    vocabulary = make_vocabulary(texts)
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "vocab.txt"
        path.write_text("".join(token + "\n" for token in vocabulary), encoding="utf-8")
        ids = {(lower, special): compare.reference(lines, lower, special, str(path)) for lower in (True, False) for special in (False, True)}
    for i, line in enumerate(lines):
        try:
            case = {"text": line.decode()}
        except UnicodeDecodeError:
            case = {"bytes": line.hex()}
        for lower, name in ((True, "uncased"), (False, "cased")):
            case[name] = ids[lower, False][i]
            if ids[lower, True][i] != ids[lower, False][i]:
                case[name + "_special"] = ids[lower, True][i]
        cases.append(case)
    head = json.dumps({"versions": {"tokenizers": tokenizers.__version__, "transformers": transformers.__version__},
                       "vocabulary": vocabulary}, ensure_ascii=False, separators=(",", ":"))
    rows = ",\n".join(json.dumps(case, ensure_ascii=False, separators=(",", ":")) for case in cases)
    (HERE / "wordpiece.json").write_text(f'{head[:-1]},\n"cases":[\n{rows}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
