"""Work counted instead of timed, so that a machine under load changes nothing: is it linear in the length of the input?

`Matcher` is a regular expression as a backtracking machine (as Python's own, without its shortcuts) that counts its steps.
`bound` counts the lengths of what a function binds to its local names: a loop that copies what is left each time is seen.
"""

import re
import sys
from re import _constants as op
from re import _parser

NEVER = 500_000  # steps after which it is no use to wait


class Matcher:
    """The same matches as a compiled pattern; `steps` counts the instructions of all calls."""

    def __init__(self, pattern):
        self.pattern, self.flags, self.steps = pattern, pattern.flags, 0
        self.program = []
        self._compile(_parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG))
        self.program.append(("end",))

    # ---- as re has them; it is asked last, for it cannot be stopped

    def match(self, text, whole=False):
        end = self._run(0, text, 0, [], whole)
        match = self.pattern.fullmatch(text) if whole else self.pattern.match(text)
        assert end == (match.end() if match else None)
        return match

    def fullmatch(self, text):
        return self.match(text, whole=True)

    def search(self, text):
        spans = self._scan(text, at_most=1)
        match = self.pattern.search(text)
        assert spans == ([match.span()] if match else [])
        return match

    def finditer(self, text):
        spans = self._scan(text)
        found = list(self.pattern.finditer(text))
        assert [match.span() for match in found] == spans
        return iter(found)

    def subn(self, by, text):
        self.finditer(text)
        return self.pattern.subn(by, text)

    def sub(self, by, text):
        return self.subn(by, text)[0]

    def _scan(self, text, at_most=None):
        """The spans of the matches, one after the other."""
        spans, start = [], 0
        while start <= len(text) and len(spans) != at_most:
            end = self._run(0, text, start, [])
            if end is None:
                start += 1
            else:
                spans.append((start, end))
                start = end + (end == start)
        return spans

    # ---- the machine

    def _run(self, pc, text, i, groups, whole=False):
        """Where the match ends that begins at text[i], None if there is none; groups as [number, start, end], last first."""
        waiting = []
        while True:
            self.steps += 1
            if self.steps > NEVER:
                raise AssertionError(f"more than {NEVER:,} steps: {self.pattern.pattern!r}")
            name, *rest = self.program[pc]
            ahead = None
            if name == "one":
                ahead = (pc + 1, i + 1, groups) if i < len(text) and rest[0](text[i]) else None
            elif name == "split":
                waiting.append((rest[1], i, groups))
                ahead = (rest[0], i, groups)
            elif name == "jump":
                ahead = (rest[0], i, groups)
            elif name == "at":
                ahead = (pc + 1, i, groups) if rest[0](text, i) else None
            elif name == "open":
                ahead = (pc + 1, i, [(rest[0], i, None), *groups])
            elif name == "close":
                start = next(s for number, s, e in groups if number == rest[0] and e is None)
                ahead = (pc + 1, i, [(rest[0], start, i), *groups])
            elif name == "same":
                start, end = next((s, e) for number, s, e in groups if number == rest[0] and e is not None)
                self.steps += end - start
                ahead = (pc + 1, i + end - start, groups) if text[start:end] == text[i : i + end - start] else None
            elif name == "alone":  # nothing of it is given back
                end = self._run(pc + 1, text, i, groups)
                ahead = None if end is None else (rest[0], end, groups)
            elif name == "ahead":
                ahead = (rest[0], i, groups) if (self._run(pc + 1, text, i, groups) is None) == rest[1] else None
            elif not whole or i == len(text):  # end
                return i
            if ahead is None:
                if not waiting:
                    return None
                ahead = waiting.pop()
            pc, i, groups = ahead

    def _compile(self, parsed):
        for code, value in parsed:
            getattr(self, "_" + str(code).lower())(value)

    def _alone(self, parsed):
        place = self._reserve()
        self._compile(parsed)
        self.program.append(("end",))
        self.program[place] = ("alone", len(self.program))

    def _reserve(self):
        self.program.append(None)
        return len(self.program) - 1

    def _repeat(self, value, is_lazy=False):
        least, most, body = value
        for _ in range(least):
            self._compile(body)
        if most is op.MAXREPEAT:
            assert body.getwidth()[0] > 0
            place = self._reserve()
            self._compile(body)
            self.program.append(("jump", place))
            self._split(place, len(self.program), is_lazy)
            return
        places = []
        for _ in range(most - least):
            places.append(self._reserve())
            self._compile(body)
        for place in places:
            self._split(place, len(self.program), is_lazy)

    def _split(self, place, otherwise, is_lazy):
        ways = (place + 1, otherwise)
        self.program[place] = ("split", *(ways[::-1] if is_lazy else ways))

    def _one(self, holds):
        self.program.append(("one", lambda c: holds(c if isinstance(c, str) else chr(c))))

    def _max_repeat(self, value):
        self._repeat(value)

    def _min_repeat(self, value):
        self._repeat(value, is_lazy=True)

    def _possessive_repeat(self, value):
        self._alone([(op.MAX_REPEAT, value)])

    def _atomic_group(self, value):
        self._alone(value)

    def _branch(self, value):
        ends = []
        for branch in value[1][:-1]:
            place = self._reserve()
            self._compile(branch)
            ends.append(self._reserve())
            self._split(place, len(self.program), False)
        self._compile(value[1][-1])
        for end in ends:
            self.program[end] = ("jump", len(self.program))

    def _subpattern(self, value):
        number, _, _, body = value
        if number is not None:
            self.program.append(("open", number))
        self._compile(body)
        if number is not None:
            self.program.append(("close", number))

    def _groupref(self, number):
        self.program.append(("same", number))

    def _assert(self, value, is_not=False):
        direction, body = value
        assert direction == 1
        place = self._reserve()
        self._compile(body)
        self.program.append(("end",))
        self.program[place] = ("ahead", len(self.program), is_not)

    def _assert_not(self, value):
        self._assert(value, is_not=True)

    def _literal(self, code):
        self._in([(op.LITERAL, code)])

    def _not_literal(self, code):
        self._in([(op.NEGATE, None), (op.LITERAL, code)])

    def _any(self, _):
        self._one((lambda c: True) if self.flags & re.DOTALL else (lambda c: c != "\n"))

    def _in(self, items):
        negative = items[0][0] is op.NEGATE
        holds = [self._holds(code, value) for code, value in items if code is not op.NEGATE]
        self._one(lambda c: any(each(c) for each in holds) != negative)

    def _holds(self, code, value):
        if code is op.CATEGORY:
            name = str(value).removeprefix("CATEGORY_")
            test = {"SPACE": str.isspace, "DIGIT": str.isdecimal, "WORD": is_word}[name.removeprefix("NOT_")]
            return (lambda c: not test(c)) if name.startswith("NOT_") else test
        low, high = (value, value) if code is op.LITERAL else value
        if not self.flags & re.IGNORECASE:
            return lambda c: low <= ord(c) <= high
        return lambda c: any(low <= ord(each) <= high for each in {c, c.lower(), c.upper()} if len(each) == 1)

    def _at(self, code):
        is_by_line = self.flags & re.MULTILINE
        tests = {
            op.AT_BEGINNING: lambda text, i: i == 0 or bool(is_by_line and text[i - 1] == "\n"),
            op.AT_END: lambda text, i: i == len(text) or (text[i] == "\n" and (bool(is_by_line) or i + 1 == len(text))),
            op.AT_END_STRING: lambda text, i: i == len(text),
            op.AT_BOUNDARY: lambda text, i: (i > 0 and is_word(text[i - 1])) != (i < len(text) and is_word(text[i])),
        }
        self.program.append(("at", tests[code]))


def is_word(c):
    return c.isalnum() or c == "_"


def check_linear(work, n):
    """That the work on an input of length 2n is at most about twice that on one of length n."""
    once, twice = work(n), work(2 * n)
    assert twice <= 2.3 * once + 100, f"{once:,} at {n:,}, {twice:,} at {2 * n:,}"


def bound(function, *names):
    """What a call returns, and the sum of the lengths of the texts and lists that functions of these names bind meanwhile.

    Each line that runs counts for one more.
    """
    before, work = {}, 0

    def look(frame, event, _):
        nonlocal work
        work += 1
        for name, value in frame.f_locals.items():
            if isinstance(value, str | bytes | list) and before.get((id(frame), name)) is not value:
                work += len(value)
                before[id(frame), name] = value
        return look

    def enter(frame, event, _):
        return look if frame.f_code.co_name in names else None

    old = sys.gettrace()  # a debugger's, or that of a measurement of coverage
    sys.settrace(enter)
    try:
        result = function()
    finally:
        sys.settrace(old)
    return result, work
