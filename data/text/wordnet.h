// WordNet's glosses as a text corpus: 117,659 short documents of plain English.
//
// Source: Fellbaum, "WordNet: an electronic lexical database", 1998; Debian's package wordnet-base has version 3.0. The
// format is that of wndb(5WN): behind a licence, whose lines begin with two spaces, each line is a synset; its gloss
// stands behind " | ".
#pragma once

#include <filesystem>

#include "tandem/data/text/text_corpus.h"

namespace tandem::data {

inline constexpr const char* kWordNetFolder = "/usr/share/wordnet";

/// Each synset of data.noun, data.verb, data.adj and data.adv is a document: what its gloss says outside of double
/// quotes (first the definition) and each example in quotes are its sentences. Throws Error with path and byte offset
/// where a file is missing, a line is no synset, or it is not UTF-8.
TextCorpus read_wordnet(const std::filesystem::path& folder = kWordNetFolder);

}  // namespace tandem::data
