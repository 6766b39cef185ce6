"""Names of columns: usual ones by which roles are guessed, positions, and lists for messages."""

from collections.abc import Iterable

from embedx.errors import DataError, Text
from embedx.text.tables import listed_columns


def _words(text: str) -> set[str]:
    return set(text.split())


# In lower case; English, German, French, Spanish, Italian, Portuguese, Dutch and Polish.
LABEL_NAMES = _words(
    """
    label labels subjects category categories class tag tags target topic topics
    kategorie kategorien klasse thema themen schlagwort schlagwörter
    étiquette étiquettes etiquette catégorie catégories categorie classe sujets thème thèmes
    etiqueta etiquetas categoría categorías categoria categorias clase tema temas
    etichetta etichette categorie argomento classificação
    categorieën onderwerp onderwerpen klasa kategoria etykieta
    """
)
TITLE_NAMES = _words(
    """
    title subject headline
    titel überschrift betreff titre título titulo asunto titolo oggetto assunto tytuł
    """
)
TEXT_NAMES = _words(
    """
    text abstract body content message sentence document description review comment
    beschreibung inhalt nachricht zusammenfassung kommentar freitext
    texte contenu résumé commentaire texto contenido descripción resumen mensaje comentario
    testo contenuto descrizione messaggio commento conteúdo descrição mensagem
    tekst omschrijving beschrijving bericht inhoud treść opis
    """
)
# Row numbers as pandas writes them; not used unless they are named.
INDEX_NAMES = {"", "unnamed: 0", "__index_level_0__"}


def is_position(name: str) -> bool:
    """Whether a column is named by its number."""
    return name.isdecimal() and name.isascii()


def missing_column(
    name: str, column: str, available: Iterable[str], remedy: Text = "add or rename it"
) -> DataError:
    """The error of a column that the training data have, but this file or data frame has not."""
    present = listed_columns(available) or "none"
    problem = f'no column "{column}", as the training data have, among its columns: {present}'
    return DataError(name, None, problem, remedy)
