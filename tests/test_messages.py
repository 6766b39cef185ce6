"""The words of all messages are in messages.txt; other tests assert their kind and fields.

`python -m pytest tests/test_messages.py --write-messages` writes it anew.
"""

import re
from pathlib import Path

from tests.support.messages import messages, remedies

FILE = Path(__file__).with_name("messages.txt")
# The verbs that a remedy begins with.
VERBS = """
    add call check choose clean close compare convert copy correct delete evaluate fetch fix free
    give go hold install join leave lower make name number pip put raise read rename repair repeat
    replace restore resume run save score separate set split start take train try unzip update
    upgrade use wait write
"""


def test_messages_are_those_of_the_golden_file(request):
    written = messages()
    if request.config.getoption("--write-messages"):
        FILE.write_text(written, "utf-8")
    assert written == FILE.read_text("utf-8"), (
        "if that is meant: pytest tests/test_messages.py --write-messages"
    )


def test_a_remedy_is_something_to_do():
    """Each begins with a verb; one that only a run knows, in braces, is another's."""
    verbs = VERBS.split()
    for remedy in remedies():
        first_word = remedy.partition(" ")[0].strip(",:")
        assert not remedy or remedy.startswith("{") or first_word in verbs, remedy


def test_messages_in_python_name_no_command_line_option():
    """Settings are named by `Setting`; a command within backticks is one."""
    for part in re.split(r"^# ", FILE.read_text("utf-8"), flags=re.MULTILINE):
        if part.startswith("embedx/cli/"):
            continue
        for entry in part.split("\n\n"):
            in_python = re.sub(r"`[^`]*`", "", entry.rstrip().split("\n")[-1])
            assert not re.search(r"(?<![\w-])--[a-z]", in_python), in_python
