"""The page of word vectors."""

import math
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from embedx.evaluation import learning_curves
from embedx.pages.document import data, document, figures, items, note, table
from embedx.report import sections
from embedx.report.projection import NAMES
from embedx.report.words import Nearest, WordFindings, map_data
from embedx.vectors.model import WordVectors

HERE = Path(__file__).parent
MAP_STYLE, MAP_SCRIPT = ((HERE / name).read_text("utf-8") for name in ("map.css", "map.js"))
PROTOCOL = (
    "By gensim, as embedx eval does it: case is ignored, items with an unknown word are left out, intervals are of 95 % by the "
    "choice of items, analogies with a pair of words in common being dependent; “candidates” is how many of the most frequent "
    "words are known to the test."
)
NO_CURVE = (
    "The folder records none. Training with --heldout 1% --heldout-points 10 records the log-likelihood of held-out text on "
    "the way; embedx report --log-json FILE reads the loss from what training with the same option wrote."
)
MAP = """<section class="map" id="map">
<div class="tools"><label>Search <input type="search" id="search" autocomplete="off" spellcheck="false"></label>
<span class="buttons"><button type="button" id="zoom-in" aria-label="zoom in">+</button>
<button type="button" id="zoom-out" aria-label="zoom out">−</button>
<button type="button" id="zoom-reset">whole map</button></span></div>
<div id="matches"></div>
<div class="stage">
<svg id="plane" tabindex="0" role="group" aria-label="map of words: arrows move it, + and − zoom, Escape unselects"></svg>
<aside id="chosen" aria-live="polite"><p class="faint">Choose a word by a click or the search; its nearest words, among all of
the model, are then listed here.</p></aside>
</div>
</section>"""


def page(name: str, path: Path, vectors: WordVectors, found: WordFindings, logged: list[list[float]]) -> str:
    """The page of the word vectors in the folder `path`; `logged` is the loss on the way, if a log was given."""
    facts = vectors.facts
    body = [figures(key_figures(vectors)), *scores(found, facts)]
    if found.map is not None:
        body += word_map(found)
    body += nearest_words(vectors, found)
    body += sections.curves(
        [
            ("held-out log-likelihood", learning_curves.heldout_points(facts), False),
            ("loss" + sections.unit_of_loss(facts), logged or learning_curves.loss_points(facts), True),
        ],
        NO_CURVE,
    )
    body += sections.files(vectors.arrays, path)
    body += sections.settings_and_facts(vectors.settings, facts)
    if found.map is None:
        return document(f"Word vectors {name}", body)
    body.append(data("map-data", map_data(vectors, found.map, found.places)))
    return document(f"Word vectors {name}", body, MAP_STYLE, MAP_SCRIPT)


def key_figures(vectors: WordVectors) -> dict[str, str]:
    """What one looks at first."""
    facts = vectors.facts
    found = {"objective": str(facts["objective"])} if "objective" in facts else {}
    found |= {"words": f"{len(vectors):,}", "dimension": f"{vectors.vectors.shape[1]:,}"}
    if facts.get("corpus_tokens"):
        found["tokens of text"] = f"{facts['corpus_tokens']:,}"
    return found | sections.pace(facts, "words")


def scores(found: WordFindings, facts: Mapping[str, Any]) -> list[str]:
    """Similarity and analogies with their protocol, and what the folder has of held-out text."""
    parts = ["<h2>Scores</h2>"]
    if found.scores is None:
        parts.append(note(f"No similarity or analogies: {found.why_no_scores}"))
    else:
        parts += [table(found.scores.rows(), names=("set", "measure", "case")), note(PROTOCOL)]
        parts += items([warning.partition(": ")[2] or warning for warning in found.scores.warnings])
        for score in found.scores.scores:
            parts += by_section(score.test, score.details.get("sections") or {})
    held = facts.get("heldout")
    if isinstance(held, dict) and held.get("log_likelihood") is not None:
        rows = [["held-out text", "value"], *([name.replace("_", " "), plain(value)] for name, value in held.items())]
        parts += ["<h3>Held-out text</h3>", table(rows, names=("held-out text",))]
        parts.append(
            note("The mean of log p(word | context word) in nats, as training reported it; unigram: by word frequencies.")
        )
    return parts


def plain(value: Any) -> str:
    """A number with as many digits as it needs."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def by_section(test: str, found: Mapping[str, Mapping[str, int]]) -> list[str]:
    """The analogies of a test by their section, to be opened."""
    used = {name: each for name, each in found.items() if each["used"]}
    if not used:
        return []
    rows = [["section", "right", "used", "accuracy %"]]
    rows += [
        [name, f"{each['correct']:,}", f"{each['used']:,}", f"{100 * each['correct'] / each['used']:.1f}"]
        for name, each in used.items()
    ]
    summary = f"<summary>{escape(test)} by section</summary>"
    return ["<details>", summary, table(rows, names=("section",)), "</details>"]


def word_map(found: WordFindings) -> list[str]:
    """The map with its tools; what is on it follows at the end of the page."""
    assert found.map is not None
    told = (
        f"The {len(found.map.rows):,} most frequent words, in the plane by {NAMES[found.projection]} of the directions of "
        "their vectors. Distances in the plane are a summary: those listed beside it are true cosines."
    )
    return ["<h2>Map of words</h2>", note(told), MAP]


def nearest_words(vectors: WordVectors, found: WordFindings) -> list[str]:
    """Tables of the words nearest to those that were chosen, and to those that were drawn."""
    parts = []
    for title, nearest in (("Nearest words", found.chosen), ("Nearest words of random words", found.random)):
        if len(nearest.rows):
            parts += [f"<h2>{title}</h2>", neighbour_table(vectors, nearest)]
    if len(found.random.rows):
        parts.append(note("Random words are drawn evenly over the logarithm of the rank. Cosines in parentheses."))
    return parts


def neighbour_table(vectors: WordVectors, nearest: Nearest) -> str:
    """A row for each word: its nearest words, its rank by frequency, and its count."""
    rows = [["word", "nearest words", "rank", "count"]]
    for row, neighbours, cosines in zip(nearest.rows, nearest.neighbours, nearest.cosines, strict=True):
        near = zip(neighbours, cosines, strict=True)
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        told = ", ".join(f"{vectors.words[k]} ({cosine:.2f})" for k, cosine in near)
        rows.append([vectors.words[row], told, f"{row + 1:,}", count])
    return table(rows, names=("word", "nearest words"), texts=("nearest words",))
