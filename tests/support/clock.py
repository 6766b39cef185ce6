"""A clock of the test's own, in place of the module `time` of the code under test."""


class Clock:
    """Stands still but for `tick` seconds at each look, and what it is advanced by."""

    def __init__(self, tick=0.0):
        self.now, self.tick = 0.0, tick

    def monotonic(self):
        self.now += self.tick
        return self.now

    def advance(self, seconds):
        self.now += seconds
