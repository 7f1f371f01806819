"""A recognizer that tests can hold up."""

import threading


class Gate:
    """A recognizer that waits to be let through, and notes what it was given at once."""

    def __init__(self, recognizer):
        self.recognizer = recognizer
        self.runtime = recognizer.runtime
        self.calibration = recognizer.calibration
        self.open = threading.Event()
        self.entered = threading.Event()
        self.batches = []

    def attempt_many(self, sources, top_k, beam, views):
        self.entered.set()
        assert self.open.wait(30)
        self.batches.append(len(sources))
        if "fault" in sources:
            raise RuntimeError("nobody foresaw this")
        return self.recognizer.attempt_many(sources, top_k, beam, views=views)
