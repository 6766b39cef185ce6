"""Assertions about errors of the user, by kind and fields."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from embedx.errors import EmbedxError, Setting, SettingError
from embedx.settings import on_command_line


@contextlib.contextmanager
def refused(
    setting: str | None = None,
    *mentioned: str,
    kind: type[EmbedxError] = SettingError,
    **fields: Any,
) -> Iterator[pytest.ExceptionInfo[EmbedxError]]:
    """What runs inside raises an error of this kind about this setting.

    mentioned  other settings that the message names
    fields     of the error, such as value, file and line
    """
    with pytest.raises(kind) as caught:
        yield caught
    check_fields(caught.value, setting, *mentioned, **fields)


def check_fields(
    error: BaseException, setting: str | None = None, *mentioned: str, **fields: Any
) -> None:
    """The error is about this setting, names these others, and has these fields."""
    assert isinstance(error, EmbedxError), error
    if setting is not None:
        fields["setting"] = setting
    for name, value in fields.items():
        assert getattr(error, name) == value, f"{name} of: {error}"
    names = {part.name for part in error.parts if isinstance(part, Setting)}
    assert names >= set(mentioned), f"{names} are named by: {error}"


@contextlib.contextmanager
def refused_on_command_line(pattern: str) -> Iterator[pytest.ExceptionInfo[EmbedxError]]:
    """What runs inside raises an error whose line on the command line matches."""
    with pytest.raises(EmbedxError) as caught:
        yield caught
    line = caught.value.spelled(on_command_line)
    assert re.search(pattern, line), line
