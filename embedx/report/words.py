"""The page of word vectors: scores, nearest words and a map."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedx import objectives
from embedx.errors import DataError, EmbedxError, Setting
from embedx.evaluation import learning_curves, words as evaluation
from embedx.evaluation.word_report import Report
from embedx.report import projection
from embedx.report.contract import PageRequest
from embedx.report.numbers import number_rows
from embedx.report.settings import ReportSettings
from embedx.report.word_map import MIN_WORDS_ON_MAP, Neighbours, map_data, map_of, rows_on_map
from embedx.runtime.progress import Progress
from embedx.skipgram.configuration import configure
from embedx.skipgram.defaults import NAMES_OF_KIND
from embedx.vectors.model import WordVectors
from embedx.vectors.names import names_of, shown_name
from embedx.vectors.uncertainty import uncertainty_of

# Settings that record scores of held-out text during training.
CURVE_SETTINGS = (Setting("heldout", 0.01), " and ", Setting("heldout_points", 10))


def drawn_rows(n_words: int, n: int, seed: int) -> np.ndarray:
    """Different rows below n_words, int64, sorted.

    They are drawn evenly over the logarithm of the rank, so that frequent and rare words are among
    them.
    """
    rng = np.random.default_rng(seed)
    rank = np.arange(n_words)
    share = np.log1p(1 / (rank + 1))
    rows = rng.choice(n_words, min(n, n_words), replace=False, p=share / share.sum())
    return np.sort(rows).astype(np.int64)


def values_for_model(vectors: WordVectors, request: PageRequest) -> dict[str, Any]:
    """What the page of word vectors shows, for its template.

    Raises `EmbedxError` for unknown words or projections.
    """
    objectives.check_packages(request.folders[0], vectors.facts, vectors.settings)
    values = neighbours_and_map(vectors, request.settings, request.progress)
    values["noun"] = vectors.noun
    values |= about_scores(vectors, request)

    facts = vectors.facts
    values["defaults"] = default_settings(vectors)
    values["key_figures"] = {
        f"{vectors.noun}s": f"{len(vectors):,}",
        "dimension": vectors.vectors.shape[1],
    }
    values["curve_settings"] = request.spelled(CURVE_SETTINGS)
    values["curve_of"] = {"held-out log-likelihood": learning_curves.heldout_points(facts)}
    values["heldout"] = None
    if facts.get("heldout"):
        values["heldout"] = number_rows("held-out data", facts["heldout"])
    return values


def values_for_pair(models: Sequence[WordVectors], request: PageRequest) -> dict[str, Any]:
    """What the page of two models of word vectors shows of their words, for its template.

    Raises `DataError` for models without a word in common.
    """
    shared = words_of_both(models, request.names)
    scores, reason = scores_of(models[0], request)
    values: dict[str, Any] = {
        "noun": models[0].noun,
        "neighbours": neighbours_side_by_side(models, shared, request.names, request.settings),
        "no_scores": reason,
    }
    if scores is not None:
        values["scores"] = scores.rows(request.names)
        values["conclusions"] = scores.conclusions(request.names)
    return values


def default_settings(vectors: WordVectors) -> dict[str, Any]:
    """The defaults of the settings of a model for data of its kind, by name."""
    facts = vectors.facts
    # Sessions and walks have other defaults than text.
    given = {name: vectors.settings[name] for name in NAMES_OF_KIND if vectors.settings.get(name)}
    is_collapsed = facts.get("collapsed", False)
    configuration = configure(facts.get("objective"), given, is_collapsed=is_collapsed)
    defaults = configuration.record()
    return {name: value for name, value in defaults.items() if name not in given}


def neighbours_and_map(
    vectors: WordVectors, settings: ReportSettings, progress: Progress
) -> dict[str, Any]:
    """The tables of nearest words and the map, for the template."""
    method = projection.chosen(settings.projection)
    for word in settings.chosen_words:
        # Raises for an unknown word.
        vectors.index(word)
    names = names_of(vectors, settings.names)
    rows = drawn_rows(len(vectors), settings.random_words, settings.seed)
    random_words = [vectors.words[row] for row in rows]
    map_rows = np.zeros(0, np.int64)
    if settings.map_words > 0:
        map_rows = rows_on_map(vectors, settings.map_words, settings.chosen_words)
    if len(map_rows) < MIN_WORDS_ON_MAP:
        map_rows = map_rows[:0]

    on_map = [vectors.words[row] for row in map_rows]
    words = list(dict.fromkeys([*settings.chosen_words, *random_words, *on_map]))
    near = dict(zip(words, vectors.most_similar_batch(words, settings.nearest), strict=True))
    noun = vectors.noun
    listed = {
        f"Nearest {noun}s": settings.chosen_words,
        f"Nearest {noun}s of random {noun}s": random_words,
    }
    neighbours = {
        title: neighbour_rows(vectors, some_words, near, names)
        for title, some_words in listed.items()
        if some_words
    }
    if not on_map:
        return {"neighbours": neighbours, "map": None}

    progress.note(f"map of {len(on_map):,} {noun}s by {projection.METHOD_NAMES[method]}")
    word_map = map_of(vectors, map_rows, method, settings.seed)
    on_plane = map_data(vectors, word_map, near, settings.chosen_words)
    on_plane["titles"] = [names.get(word, shown_name(vectors, word)) for word in on_plane["words"]]
    return {"neighbours": neighbours, "map": on_plane, "projection": word_map.projection}


def scores_of(vectors: WordVectors, request: PageRequest) -> tuple[Report | None, str]:
    """The scores of one model, or of two with their differences; or None, and why there are none.

    Without test sets of the user, words are scored on the packaged ones, items and nodes on none.
    """
    reason = evaluation.why_no_packaged_tests(vectors, request.word_tests)
    if reason is not None:
        return None, reason
    first, *others = request.folders
    tests = request.word_tests
    try:
        return evaluation.evaluate([first], others, tests, progress=request.progress), ""
    except EmbedxError as error:
        # gensim, which has the packaged test sets, is missing.
        if tests.pairs or tests.analogies is not None:
            raise
        return None, str(error)


def about_scores(vectors: WordVectors, request: PageRequest) -> dict[str, Any]:
    """Scores, warnings and analogies by section, or why there are none, for the template."""
    scores, reason = scores_of(vectors, request)
    if scores is None:
        return {"scores": None, "no_scores": reason, "warnings": [], "sections": {}}
    return {
        "scores": scores.rows(),
        "no_scores": reason,
        "warnings": [warning.partition(": ")[2] or warning for warning in scores.warnings],
        "sections": sections_of(scores),
    }


def sections_of(scores: Report) -> dict[str, list[list[str]]]:
    """The analogies of each test by section."""
    tables = {}
    for score in scores.scores:
        rows = [["section", "right", "used", "accuracy %"]]
        for name, section in (score.details.get("sections") or {}).items():
            correct = section["correct"]
            used = section["used"]
            if used:
                rows.append([name, f"{correct:,}", f"{used:,}", f"{100 * correct / used:.1f}"])
        if len(rows) > 1:
            tables[score.test] = rows
    return tables


def neighbour_rows(
    vectors: WordVectors, words: Sequence[str], near: Neighbours, names: Mapping[str, str]
) -> list[list[str]]:
    """A row for each word: its nearest words, its rank by frequency, its count. Cosines have 95 %
    intervals where they are known.
    """
    rows = [[vectors.noun, f"nearest {vectors.noun}s", "rank", "count"]]
    uncertainty = uncertainty_of(vectors)
    for word in words:
        row = vectors.index(word)
        cosines = [f"{cosine:.2f}" for _, cosine in near[word]]
        if uncertainty is not None:
            half_widths = uncertainty.half_widths(word, [other for other, _ in near[word]])
            cosines = [
                with_interval(cosine, half_width)
                for (_, cosine), half_width in zip(near[word], half_widths.tolist(), strict=True)
            ]
        nearest = ", ".join(
            f"{shown_name(vectors, other, names)} ({cosine})"
            for (other, _), cosine in zip(near[word], cosines, strict=True)
        )
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        rows.append([shown_name(vectors, word, names), nearest, f"{row + 1:,}", count])
    return rows


def with_interval(cosine: float, half_width: float) -> str:
    """A cosine and half its interval, `0.62 ± 0.13`; `0.62 ± ?` where the interval has all cosines,
    from -1 to 1.
    """
    if half_width >= 1 + abs(cosine):
        return f"{cosine:.2f} ± ?"
    return f"{cosine:.2f} ± {half_width:.2f}"


def words_of_both(models: Sequence[WordVectors], names: Sequence[str]) -> list[str]:
    """The words that both models have. Raises `DataError` if there are none."""
    shared = [word for word in models[0].words if word in models[1]]
    if not shared:
        problem = f"no {models[0].noun} of {names[0]}"
        raise DataError(names[1], None, problem, "compare models that have some in common")
    return shared


def neighbours_side_by_side(
    models: Sequence[WordVectors],
    shared: Sequence[str],
    names: Sequence[str],
    settings: ReportSettings,
) -> list[list[str]]:
    """The nearest words by each model, of the words asked for and of random ones among those that
    both have, `shared`.
    """
    rows = drawn_rows(len(shared), settings.random_words, settings.seed)
    random_words = [shared[row] for row in rows]
    words = list(dict.fromkeys([*settings.chosen_words, *random_words]))

    titles = names_of(models[0], settings.names)
    columns = [nearest_column(model, words, settings.nearest, titles) for model in models]
    shown = [shown_name(models[0], word, titles) for word in words]
    return [[models[0].noun, *names], *map(list, zip(shown, *columns, strict=True))]


def nearest_column(
    model: WordVectors, words: Sequence[str], n_nearest: int, names: Mapping[str, str]
) -> list[str]:
    """The nearest words of each word, as a cell of a table."""
    words_of_model = [model.words[model.index(word)] for word in words]
    nearest = model.most_similar_batch(words_of_model, n_nearest)
    _, *rows = neighbour_rows(model, words, dict(zip(words, nearest, strict=True)), names)
    return [cell for _, cell, *_ in rows]
