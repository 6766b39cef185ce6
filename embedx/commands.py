"""What a command does between its options and the library: choose the settings, the objective and the output folder."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedx import model, objectives, skipgram
from embedx.errors import EmbedxError
from embedx.interrupts import to_the_end
from embedx.progress import Progress
from embedx.settings import Settings, TextSettings, VocabularySettings, option_name, settings_of, spoken
from embedx.skipgram import SkipGramSettings
from embedx.text.sources import STANDARD_INPUT, recipe_defaults, resolve

COMPRESSED = {".gz", ".bz2", ".xz", ".zst"}


def train(
    corpora: Sequence[str],
    objective_name: str,
    typed: dict[str, Any],
    output: Path | None,
    overwrite: bool,
    cache_dir: Path | None,
    progress: Progress,
) -> tuple[Path, skipgram.Trained]:
    """Train on `corpora` and write the model; the folder and what came of it.

    `typed` are the settings that the user gave; a recipe's come next, then the objective's own, then the defaults.
    """
    found = objectives.find(objective_name)
    check_applies(typed, objective_name)
    if "epochs" in typed and "time_budget" in typed:
        raise EmbedxError("--epochs and --time-budget both say when to stop; give one of them")
    resolve(corpora)  # a mistyped name is told before anything else is done
    folder = output or default_output(corpora, objective_name)
    model.check_output(folder, overwrite)
    settings = SkipGramSettings.from_options(typed)
    text = TextSettings.from_options(recipe_defaults(corpora) | typed)
    vocabulary = VocabularySettings.from_options(typed)
    objective = found(found.Settings.from_options(typed))
    progress.note(f"embedx train {' '.join(corpora)} --objective {objective_name} --output {folder}")
    used = dict(resolved(settings, objective.settings, text, vocabulary))
    if settings.time_budget:
        del used["epochs"]
    progress.note(" ".join(f"{name}={spoken(value)}" for name, value in used.items() if value is not None))
    trained = skipgram.train(
        corpora, objective, settings, text=text, vocabulary=vocabulary, progress=progress, cache_dir=cache_dir
    )
    return to_the_end(lambda: skipgram.save(trained.vectors, folder, overwrite)), trained


def check_applies(typed: dict[str, Any], objective_name: str) -> None:
    """Raise `EmbedxError` if a setting was typed that only other objectives take."""
    for name in typed:
        takers = [other for other, each in objectives.OBJECTIVES.items() if name in settings_of(each.Settings)]
        shared = any(name in settings_of(group) for group in (SkipGramSettings, TextSettings, VocabularySettings))
        if takers and objective_name not in takers and not shared:
            raise EmbedxError(
                f"{option_name(name)} does not apply to --objective {objective_name}; taken by {', '.join(takers)}"
            )


def default_output(corpora: Sequence[str], objective_name: str) -> Path:
    """`corpus.ns.embedx` in the working folder for `…/corpus.txt.gz`, and for several corpora the name of the first."""
    if corpora[0] == STANDARD_INPUT:
        return Path(f"stdin.{objective_name}.embedx")
    path = Path(os.path.basename(corpora[0].rstrip("/")) or "corpus")
    if path.suffix in COMPRESSED:
        path = path.with_suffix("")
    stem = path.stem if path.suffix else path.name
    return Path(f"{stem.replace('*', '').strip('.-_') or 'corpus'}.{objective_name}.embedx")


def resolved(*groups: Settings) -> list[tuple[str, Any]]:
    """All settings as they will be used, by the names the user knows."""
    return [(name.replace("_", "-"), value) for group in groups for name, value in group.record().items()]
