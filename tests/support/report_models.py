"""Models made without training, and the pages about them, for tests of `embedx report` and of pages
in a browser.
"""

import re
from html.parser import HTMLParser

import numpy as np

from embedx import objectives
from embedx.classification.classifier import Classifier
from embedx.labeled.data import DataSchema, TextSchema
from embedx.vectors import model

NASTY = '</script><b id="x">&amp;"\'\u2028'  # a word of a corpus, or the name of a label
TOPICS = 4
SIZE = 15
DIM = 8


def words():
    """60 words in four topics, the most frequent first, and one that would break a page if it were
    not escaped.
    """
    named = [f"topic{k % TOPICS}word{k // TOPICS}" for k in range(TOPICS * SIZE)]
    named[7] = NASTY
    return named


def topic_vectors():
    """A vector for each, near that of its topic."""
    rng = np.random.default_rng(0)
    centres = np.eye(DIM)[:TOPICS]
    return (
        centres[np.arange(TOPICS * SIZE) % TOPICS] + rng.normal(0, 0.2, (TOPICS * SIZE, DIM))
    ).astype(np.float32)


def word_folder(path):
    """A folder of word vectors, as after a run that noted held-out text on the way."""
    history = [{"epoch": k, "seconds": 1.5 * k, "log_likelihood": -5 + k / 4} for k in (1, 2, 3)]
    facts = {
        "objective": "ns",
        "words": TOPICS * SIZE,
        "epochs": 4,
        "seconds": 6.0,
        "words_per_second": 1234567,
        "final_loss": 1.5,
        "history": history,
        "heldout": {"log_likelihood": -4.1, "unigram": -6.0, "pairs": 1000},
    }
    counts = np.arange(TOPICS * SIZE, 0, -1, dtype=np.int64) * 100
    settings = {"window": 5, "sample": 1e-4, "tokenizer": "whitespace"}
    arrays = {"input": topic_vectors()}
    return model.WordVectors(words(), arrays, counts=counts, settings=settings, facts=facts).save(
        path
    )


LABELS = ["sport", "film", NASTY, "rare"]
FEATURES = ["ball", "goal", "actor", "scene", "<i>tag", "word"]
# (labels, features)
WEIGHTS = np.array(
    [[3, 3, -2, -2, 0, 0], [-2, -2, 3, 3, 0, 0], [0, 0, 0, 0, 4, 0], [-3, -3, -3, -3, -3, 0.5]],
    np.float32,
)
TEST = "".join(
    f"{' '.join('__label__' + label for label in labels)} {text}\n"
    for labels, text in (
        (["sport"], "ball goal"),
        (["film"], "actor scene word"),
        (["film"], "ball word"),
        (["rare"], "actor"),
        (["sport", "film"], "ball actor"),
        (["unheard"], "goal goal"),
        ([], "scene"),
    )
)


def words_as_they_are(words):
    """By what text between white space becomes counts of these words."""
    return TextSchema(
        list(words),
        np.empty(0, np.int64),
        {"word_ngrams": 1, "tokenizer": "whitespace", "lowercase": False},
    )


def label_folder(path, several_labels=True):
    """A folder of a classifier of four labels on six words, as after a run with validation data."""
    objective_class = objectives.find("softmax")
    objective = objective_class(objective_class.Settings())
    counts = np.array([60, 40, 20, 5], np.int64)
    objective.prepare(counts)
    schema = DataSchema(
        len(FEATURES), len(LABELS), list(LABELS), words_as_they_are(FEATURES), by_name=True
    )
    epochs = [
        {
            "epoch": k,
            "seconds": 0.5 * k,
            "loss": 2 / k,
            "validation": {"p@1": 0.5 + k / 10, "log_likelihood": -1 / k},
        }
        for k in (1, 2, 3)
    ]
    facts = {
        "examples": 125,
        "epochs": 3,
        "seconds": 1.5,
        "history": epochs,
        "several_labels": several_labels,
    }
    arrays = {"output": WEIGHTS, "bias": np.array([0.5, 0.2, 0, -1], np.float32)}
    return Classifier(
        objective, arrays, schema, counts, {"labels": "all", "scaling": "none"}, facts
    ).save(path)


class Page(HTMLParser):
    """What a page says, by element, and the data in it; its tags are closed as they were opened."""

    VOID = ("meta", "input", "br", "line", "rect", "polyline", "polygon", "circle")

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = []
        self.cells = []
        self.data = ""
        self.ids = []
        self.feed(text)
        self.close()
        assert not self.open
        assert len(self.ids) == len(set(self.ids))
        assert not re.search(r"https?://(?!www.w3.org/2000/svg)|@import|url\((?!#)|innerHTML", text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.ids += [value for name, value in attrs if name == "id"]
        assert not {"src", "href", "onclick"} & {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "td":
            self.cells.append("")
        self.is_data = tag == "script" and ("type", "application/json") in attrs

    def handle_endtag(self, tag):
        assert tag in self.VOID or self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "td":
            self.cells[-1] += data
        if self.open and self.open[-1] == "script" and self.is_data:
            self.data += data
