"""The ways a run can end that are not our bug; the command line turns each into one line and an exit code."""


class EmbedxError(Exception):
    """A mistake of the user: says what, where and what to try."""

    exit_code = 2


class DivergedError(EmbedxError):
    """Training produced a loss or a parameter that is not finite: says when, and what to change."""

    exit_code = 3
