"""Assertions about errors of the user, by kind and fields."""

import re
from collections.abc import Collection
from typing import Any

import pytest

from embedx.errors import DataError, EmbedxError, Setting, SettingError
from embedx.spelling import on_command_line


def refused(
    setting: str | None = None,
    *mentioned: str,
    kind: type[EmbedxError] = SettingError,
    quoting: str | Collection[str] = (),
    **fields: Any,
) -> pytest.RaisesExc[EmbedxError]:
    """What runs inside raises an error of this kind about this setting.

    mentioned  other settings that the message names
    quoting    what the message quotes: data, numbers, names, the reason that a library gave
    fields     of the error, such as value, file and line
    """

    def check(error: EmbedxError) -> bool:
        check_fields(error, setting, *mentioned, **fields)
        check_quotes(error, quoting)
        return True

    return pytest.raises(kind, check=check)


def refused_data(
    place: str,
    *mentioned: str,
    kind: type[DataError] = DataError,
    quoting: str | Collection[str] = (),
) -> pytest.RaisesExc[DataError]:
    """What runs inside raises an error about this place.

    place      a file, or FILE:LINE; the folders before its name may be left out
    mentioned  settings that the message names
    quoting    what the message quotes: data, numbers, names, the reason that a library gave
    """

    def check(error: DataError) -> bool:
        check_place(error, place)
        check_fields(error, None, *mentioned)
        check_quotes(error, quoting)
        return True

    return pytest.raises(kind, check=check)


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


def check_place(error: BaseException, place: str) -> None:
    """The error is about this FILE or FILE:LINE."""
    assert isinstance(error, DataError), error
    path = str(error.file) if error.line is None else f"{error.file}:{error.line}"
    assert f"/{path}".endswith(f"/{place}"), f"{path} is the place of: {error}"


def check_quotes(error: BaseException, quoting: str | Collection[str]) -> None:
    """The error quotes these: data, numbers, names, the reason that a library gave."""
    quotes = [quoting] if isinstance(quoting, str) else quoting
    missing = [quote for quote in quotes if quote not in str(error)]
    assert not missing, f"{missing} are not quoted by: {error}"


def refused_on_command_line(pattern: str) -> pytest.RaisesExc[EmbedxError]:
    """What runs inside raises an error whose line on the command line matches."""

    def check(error: EmbedxError) -> bool:
        line = error.spelled(on_command_line)
        assert re.search(pattern, line), line
        return True

    return pytest.raises(EmbedxError, check=check)
