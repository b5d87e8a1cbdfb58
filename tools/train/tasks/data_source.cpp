#include "tools/train/tasks/data_source.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "tandem/core/fnv1a.h"
#include "tandem/data/cifar10.h"
#include "tandem/data/fashion_mnist.h"
#include "tandem/data/images/image_folder.h"
#include "tandem/data/synthetic.h"
#include "tandem/data/tensors_dataset.h"
#include "tandem/data/text/synthetic_text.h"
#include "tandem/data/text/text_data.h"
#include "tandem/data/text/text_tensors.h"
#include "tandem/data/text/wordnet.h"
#include "tandem/train/format.h"
#include "tools/train/bad_images.h"
#include "tools/train/settings/bert_settings.h"

namespace tandem::train {
namespace {

using data::Split;

DataSource open_tensors(const std::string& file) {
  DataSource source{.train = {}, .test = {}, .shuffle = false};
  if (data::tensors_kind(file) == data::TensorsKind::text) {
    source.train = std::make_shared<data::TextTensors>(file);
  } else {
    source.train = std::make_shared<data::TensorsDataset>(file);
  }
  source.test = source.train;
  return source;
}

// Two ranges of samples of one kind: for training, and a quarter as many for the test.
template <class Dataset, class Options>
DataSource synthetic_ranges(const Settings& settings, Options options) {
  options.size = *settings.synthetic_samples;
  options.seed = static_cast<std::uint64_t>(settings.seed);
  DataSource source{.train = std::make_shared<Dataset>(options), .test = {}};
  options.first = options.size;
  options.size = std::max<std::int64_t>(1, options.size / 4);
  source.test = std::make_shared<Dataset>(options);
  return source;
}

DataSource open_synthetic(const Settings& settings) {
  if (is_bert(settings))
    return synthetic_ranges<data::SyntheticText>(
        settings, data::SyntheticTextOptions{.seq_length = *settings.seq_length,
                                             .vocabulary_size = bert_config_of(settings).vocab_size,
                                             .pairs = settings.sentence_pairs});
  const bool is_small = !settings.image_size;  // mlp and convnet take one kind of image only
  return synthetic_ranges<data::Synthetic>(
      settings,
      data::SyntheticOptions{.sample_shape = is_small ? core::Shape{1, 28, 28}
                                                      : core::Shape{3, *settings.image_size, *settings.image_size},
                             .classes = settings.classes.value_or(is_small ? 10 : 1000)});
}

// Errors of what a corpus is made into do not know where it is from.
template <class Open>
auto naming_data(const Settings& settings, Open&& open) {
  try {
    return open();
  } catch (const core::Error& error) {
    core::fail("--data {}: {}", *settings.data, error.what());
  }
}

std::string hexadecimal(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

template <class T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Every token in its order, and where sentences end: samples are made of both.
std::string hash_corpus(const data::MaskedLmDataset& text) {
  const data::TokenCorpus& corpus = text.corpus();
  return hexadecimal(core::fnv1a(bytes_of(corpus.sentence_ends), core::fnv1a(bytes_of(corpus.tokens))));
}

DataSource open_text(const Settings& settings, const data::TextCorpus& corpus) {
  data::TextDataOptions options{.vocabulary = {},
                                .vocabulary_size = bert_config_of(settings).vocab_size,
                                .words = settings.cased ? data::kCased : data::kUncased,
                                .samples = {.seq_length = *settings.seq_length, .pairs = settings.sentence_pairs}};
  if (settings.vocab) {
    data::TokenizerFile given = data::load_tokenizer(*settings.vocab, settings.cased);
    options.vocabulary = std::move(given.vocabulary);
    options.words = given.words;
  }
  std::optional<data::TextCorpus> test;
  if (settings.eval_data) test = data::read_text_corpus(*settings.eval_data);
  data::TextData text =
      naming_data(settings, [&] { return data::open_text_data(corpus, options, test ? &*test : nullptr); });
  const std::string train_contents = hash_corpus(*text.train), test_contents = hash_corpus(*text.test);
  return {.train = std::move(text.train),
          .test = std::move(text.test),
          .train_contents = train_contents,
          .test_contents = test_contents,
          .tokenizer = data::TokenizerFile{text.tokenizer.vocabulary(), options.words},
          .unigram_entropy = text.unigram_entropy};
}

DataSource open_image_folder(const Settings& settings, const std::string& folder) {
  DataSource source{.train = {}, .test = {}};
  const auto open = [&](Split split, std::string& contents) {
    data::ImageFiles images = data::list_image_files(folder, split, settings.val_fraction);
    check_images(settings, split, images, source.notes);
    note_listing(split, images, source.notes);
    contents = hexadecimal(data::hash_of(images));
    return std::make_shared<data::ImageFolder>(
        std::move(images),
        data::ImageFolderOptions{.image_size = *settings.image_size, .augment = split == Split::train});
  };
  const auto train = open(Split::train, source.train_contents);
  source.train = train;
  source.test = open(Split::test, source.test_contents);
  source.class_names = train->class_names();
  return source;
}

DataSource open_any(const Settings& settings) {
  const auto& [kind, place] = data_name(*settings.data);
  if (kind == "tensors") return open_tensors(place);
  if (kind == "imagefolder") return open_image_folder(settings, place);
  if (kind == "text") return open_text(settings, data::read_text_corpus(place));
  if (kind == "wordnet") return open_text(settings, data::read_wordnet(*settings.data_dir));
  if (kind == "synthetic") return open_synthetic(settings);
  const std::string& folder = *settings.data_dir;
  if (kind == "cifar10")
    return {.train = std::make_shared<data::Cifar10>(folder, Split::train, /*augment=*/true),
            .test = std::make_shared<data::Cifar10>(folder, Split::test),
            .class_names = {data::kCifar10Classes.begin(), data::kCifar10Classes.end()}};
  const auto& normalization = kind == "mnist" ? data::kMnistNormalization : data::kFashionMnistNormalization;
  const auto& classes = kind == "mnist" ? data::kMnistClasses : data::kFashionMnistClasses;
  return {.train = std::make_shared<data::FashionMnist>(folder, Split::train, normalization),
          .test = std::make_shared<data::FashionMnist>(folder, Split::test, normalization),
          .class_names = {classes.begin(), classes.end()}};
}

std::uint64_t vocabulary_fingerprint(const DataSource& source) {
  std::uint64_t hash = core::fnv1a("");
  if (!source.tokenizer) return hash;
  const data::Vocabulary& vocabulary = source.tokenizer->vocabulary;
  for (std::int64_t i = 0; i < vocabulary.size(); ++i) hash = core::fnv1a(vocabulary.token(i) + "\n", hash);
  return hash;
}

// Of `count` samples, from the first to the last.
std::uint64_t hash_samples(const data::Dataset& dataset, std::int64_t count, std::uint64_t hash) {
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < count; ++i)
    samples.push_back(std::min(dataset.size() - 1, dataset.size() * i / (count - 1)));
  const data::Batch batch = dataset.read(samples);
  for (const core::Tensor* tensor :
       {&batch.input, &batch.target, &batch.attention_mask, &batch.token_type_ids, &batch.next_sentence}) {
    if (!tensor->defined()) continue;
    hash = core::fnv1a(tensor->shape().str(), hash);
    hash = core::fnv1a({static_cast<const char*>(tensor->raw_data()), tensor->bytes()}, hash);
  }
  return hash;
}

// What classes and words are called.
std::uint64_t hash_names(const DataSource& source) {
  std::uint64_t hash = vocabulary_fingerprint(source);
  for (const std::string& name : source.class_names) hash = core::fnv1a(name + "\n", hash);
  return hash;
}

}  // namespace

const data::LabelledDataset* DataSource::labelled() const {
  return dynamic_cast<const data::LabelledDataset*>(train.get());
}

const data::TextDataset* DataSource::text() const { return dynamic_cast<const data::TextDataset*>(train.get()); }

std::string DataSource::describe() const {
  std::string text_of =
      fmt::format("{} training and {} test samples", with_commas(train->size()), with_commas(test->size()));
  if (const auto* images = labelled())
    return text_of + fmt::format(" {}, {} classes", images->sample_shape().str(), images->classes());
  text_of += fmt::format(" of {} tokens{}", text()->seq_length(), text()->pairs() ? " in pairs" : "");
  if (tokenizer)
    text_of += fmt::format(", vocabulary {}, unigram entropy {:.3f}", with_commas(tokenizer->vocabulary.size()),
                           *unigram_entropy);
  return text_of;
}

std::optional<std::string> vocabulary_hash(const DataSource& data) {
  if (!data.tokenizer) return std::nullopt;
  return hexadecimal(vocabulary_fingerprint(data));
}

std::string contents_fingerprint(const DataSource& source) {
  constexpr std::int64_t kSamples = 16;
  std::uint64_t hash = hash_samples(*source.train, kSamples, hash_names(source));
  hash = hash_samples(*source.test, kSamples, hash);
  return hexadecimal(core::fnv1a(source.train_contents + source.test_contents, hash));
}

DataSource open_data(const Settings& settings) {
  DataSource source = open_any(settings);
  if (source.train->size() == 0 || source.test->size() == 0)
    core::fail("--data {}: {} training and {} test samples, at least one of each is needed", *settings.data,
               source.train->size(), source.test->size());
  const auto* train = source.labelled();
  const auto* test = dynamic_cast<const data::LabelledDataset*>(source.test.get());
  if (train && train->sample_shape() != test->sample_shape())
    core::fail("--data {}: training samples have shape {}, test samples {}", *settings.data,
               train->sample_shape().str(), test->sample_shape().str());
  source.fingerprint =
      hexadecimal(core::fnv1a(source.train_contents, hash_samples(*source.train, 3, hash_names(source))));
  return source;
}

}  // namespace tandem::train
