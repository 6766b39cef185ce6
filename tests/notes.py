"""Progress that keeps its notes."""

from embedx.training.progress import Silent


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)

    @property
    def warnings(self):
        return [note for note in self.notes if note.startswith("warning: ")]
