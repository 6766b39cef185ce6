"""What a run does before it allocates: the vocabulary and the sampler, and what is refused or noted
about the text.
"""

from dataclasses import replace

from numpy import ndarray

from embedx.errors import DataError, Setting
from embedx.runtime.progress import Progress
from embedx.samplers.contract import Sampler
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.defaults import TEXT
from embedx.skipgram.unknown_words import report_unknown_words
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.held_out import HeldOut
from embedx.text.segmentation import note_if_raw, warn_if_unsegmented
from embedx.text.subsampling import TokenStream, has_pairs
from embedx.text.vocabulary import Vocabulary, read_word_list, select


def note_text(corpus: EncodedCorpus, config: Configuration, progress: Progress) -> None:
    """Warn of text that is not segmented, and of an objective that is slow on words."""
    objective = config.objective
    if config.settings.subwords is None and config.kind == TEXT:
        warn_if_unsegmented(corpus, progress)
    if config.start is None and config.kind == TEXT:
        note_if_raw(corpus, config.text, progress)
    if objective.about.words_caution:
        progress.warn(Setting("objective", objective.name), f": {objective.about.words_caution}")


def select_vocabulary(
    corpus: EncodedCorpus, config: Configuration, progress: Progress
) -> tuple[Vocabulary, ndarray]:
    """The words that have vectors, and the word of each type of the corpus, int32 (n_types,), -1
    where it is none.
    """
    settings = config.vocabulary
    start = config.start
    form = config.text.normalize
    if start is None:
        vocabulary, remap = select(corpus, settings, form)
    else:
        vocabulary, remap = start.vocabulary(corpus, settings)
    n_tokens = int(corpus.counts[remap >= 0].sum())
    size = f"{len(vocabulary):,} {config.noun}s"
    progress.note(f"vocabulary: {size}, {n_tokens:,} of {corpus.n_tokens:,} tokens")
    if settings.vocab is not None:
        missing = set(read_word_list(settings.vocab, form)) - set(vocabulary.words)
        progress.note(
            Setting("vocab", settings.vocab),
            f": {len(missing):,} of its words are not in the text",
        )
    if start is not None:
        has_bias = config.settings.bias != "none"
        progress.note(start.summary(corpus, vocabulary, config.objective, has_bias))
        if config.graph is None:
            report_unknown_words(corpus, start.index, str(start.path), progress)
    return vocabulary, remap


def prepared_sampler(config: Configuration, vocabulary: Vocabulary, kept: ndarray) -> Sampler:
    """The sampler, with the counts that it draws words by."""
    sampler = config.new_sampler()
    counts = kept if config.draws_kept_words else vocabulary.trained_counts
    sampler.prepare(counts, paths=config.objective.paths())
    return sampler


def with_held_out(vocabulary: Vocabulary, held_out: HeldOut) -> Vocabulary:
    """The vocabulary, with what is held out now and in the model that training continues from."""
    counts = held_out.counts
    if vocabulary.held_out is not None:
        counts = counts + vocabulary.held_out
    return replace(vocabulary, held_out=counts)


def check_has_pairs(stream: TokenStream, corpus: EncodedCorpus, noun: str) -> None:
    """Raise `DataError` if no sentence has two words of the vocabulary."""
    if has_pairs(stream):
        return
    sentence = {"item": "session", "node": "walk"}.get(noun, "sentence")
    problem = f"no {sentence} has two {noun}s of the vocabulary: there is nothing to train on"
    write = f"write {sentence}s of several {noun}s, one a line, or lower "
    remedy = (write, Setting("min_count"))
    raise DataError(_first_source(corpus), None, problem, remedy)


def only_one_word(corpus: EncodedCorpus, noun: str) -> DataError:
    """The error that a vocabulary of one word has no other that it could be told from."""
    problem = f"the vocabulary is one {noun}: there is nothing to train on"
    remedy = (f"give more {noun}s, or lower ", Setting("min_count"))
    return DataError(_first_source(corpus), None, problem, remedy)


def _first_source(corpus: EncodedCorpus) -> str:
    """The name of the first file of a corpus, for errors; `corpora` if there is none."""
    names = [str(source["name"]) for source in corpus.report["sources"]]
    return names[0] if names else "corpora"
