"""What `embedx report` takes beside the model and files."""

import dataclasses

from embedx.settings import Settings, param

OF_WORDS = ("words", "random_words", "nearest", "map_words", "projection")  # the others are for both tasks, or classifiers
OF_LABELS = ("examples",)


@dataclasses.dataclass(frozen=True)
class ReportSettings(Settings):
    """What a page shows."""

    panel = "Page"

    words: str | None = param(None, "word vectors: words whose nearest ones are listed, separated by commas: city,music")
    random_words: int = param(
        12, "word vectors: so many words, drawn evenly over the logarithm of their rank, are listed likewise", at_least=0
    )
    nearest: int = param(10, "word vectors: how many words are listed for each", at_least=1, at_most=100)
    map_words: int = param(
        2000, "word vectors: so many of the most frequent words are on the map; 0 for no map", at_least=0, at_most=20_000
    )
    projection: str | None = param(
        None,
        "word vectors: how the map is made: `umap` needs umap-learn, `tsne` scikit-learn; by default umap where it is "
        "installed, else pca",
        choices=("umap", "tsne", "pca"),
    )
    examples: int = param(12, "classifiers: how many test rows are shown with their predictions", at_least=0, at_most=10_000)
    seed: int = param(0, "of the words or rows that are drawn, and of the map", at_least=0)

    @property
    def chosen_words(self) -> list[str]:
        """The words that were asked for, each once."""
        return list(dict.fromkeys(word for word in (self.words or "").split(",") if word))
