"""Models of which a byte, a chunk or a value was changed at random are loaded or refused in one
line.
"""

import json
import random

import pytest

from embedx.errors import EmbedxError
from tests.support.damaged_folders import FOLDERS, check_one_line, load

pytestmark = pytest.mark.usefixtures("ends_within_a_minute")


@pytest.mark.parametrize("make", FOLDERS.values(), ids=list(FOLDERS))
def test_a_model_changed_at_random_is_loaded_or_refused_in_one_line(tmp_path, make):
    rng = random.Random(1)
    path = make(tmp_path / "m")
    files = {file: file.read_bytes() for file in path.iterdir()}
    n_refused = 0
    for _ in range(150):
        file = rng.choice([path / "model.json", *files])
        file.write_bytes(mutated(files[file], rng, is_json=file.suffix == ".json"))
        try:
            load(path)
        except EmbedxError:
            n_refused += 1
            check_one_line(path)
        file.write_bytes(files[file])
    assert n_refused > 75
    load(path)


def mutated(content, rng, is_json):
    """The bytes with a byte, a chunk, or a value of JSON changed."""
    if is_json and rng.random() < 0.7:
        description = json.loads(content)
        places = [(inside, key) for inside in objects_in(description) for key in inside]
        inside, key = rng.choice(places)
        value = rng.choice(
            [
                None,
                True,
                -1,
                0,
                7,
                1e308,
                10**30,
                "",
                "x" * 1000,
                "ns",
                [],
                [[3]],
                {},
                {"a": {}},
                ...,
            ]
        )
        if value is ...:
            del inside[key]
        else:
            inside[key] = value
        return json.dumps(description).encode()
    at = rng.randrange(len(content))
    length = rng.choice([1, 1, 8, 100])
    new = rng.choice([b"", rng.randbytes(length), b"\xff" * length, b"\0" * length, content])
    return content[:at] + new + content[at + length :]


def objects_in(value):
    """All objects of a JSON value that hold something."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) and value else []) + [
        inner for part in inside for inner in objects_in(part)
    ]
