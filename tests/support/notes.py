"""Progress that keeps its notes, stages and counts."""

from embedx.errors import spelled
from embedx.runtime.progress import Silent
from embedx.spelling import on_command_line


class Notes(Silent):
    """`notes` are the same whether kernels are on disk or not: notes that they are compiled are in
    `compiling`.
    """

    is_verbose = True

    def __init__(self):
        self.notes = []
        self.compiling = []
        self.stages = []
        self.done = []

    def start(self, title, total, unit, done=0):
        self.stages.append((title, total, unit))

    def update(self, done, **facts):
        self.done.append(done)

    def note(self, *message):
        text = spelled(message, on_command_line)
        if text.startswith("compiling kernels"):
            self.compiling.append(text)
        else:
            self.notes.append(text)

    def warn(self, *text):
        self.note("warning: ", *text)

    @property
    def warnings(self):
        return [note for note in self.notes if note.startswith("warning: ")]


def lines_with(lines, *values):
    """The lines, of a text or a list of notes, that have all these values: settings, files,
    numbers.
    """
    if isinstance(lines, str):
        lines = lines.splitlines()
    return [line for line in lines if all(value in line for value in values)]
