"""Settings of `embedx report`."""

from embedx.settings import Settings, param

# Settings that are for word vectors only, and those that are for classifiers only.
WORD_SETTINGS = ("words", "random_words", "nearest", "map_words", "projection", "names")
LABEL_SETTINGS = ("examples",)


class ReportSettings(Settings):
    """What a page shows."""

    panel = "Page"

    words: str | None = param(
        None,
        "word vectors: list the nearest neighbours of these words, separated by commas, and mark"
        " them on the map: city,music",
    )
    random_words: int = param(
        12,
        "word vectors: number of random words, uniform over the logarithm of the rank, that are"
        " listed as well",
        at_least=0,
    )
    nearest: int = param(10, "word vectors: number of nearest neighbours", at_least=1, at_most=100)
    map_words: int = param(
        2000,
        "word vectors: number of most frequent words on the map; 0 for no map",
        at_least=0,
        at_most=20_000,
    )
    projection: str | None = param(
        None,
        "word vectors: projection of the map; by default tsne where scikit-learn is installed,"
        " else pca",
        choices=("tsne", "pca"),
    )
    names: str | None = param(
        None,
        "word vectors: file of two columns, an item and its name, which is shown beside it",
        metavar="FILE",
    )
    examples: int = param(
        12,
        "classifiers: number of test rows shown with their predictions",
        at_least=0,
        at_most=10_000,
    )
    seed: int = param(0, "random seed of words, rows and the map", at_least=0)

    @property
    def chosen_words(self) -> list[str]:
        """The words of `words`, each once."""
        return list(dict.fromkeys(word for word in (self.words or "").split(",") if word))
