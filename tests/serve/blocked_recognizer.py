"""A recognizer that tests can block."""

import threading


class BlockedRecognizer:
    """A recognizer that waits until `open` is set, and records the batch sizes."""

    def __init__(self, recognizer):
        self.recognizer = recognizer
        self.runtime = recognizer.runtime
        self.calibration = recognizer.calibration
        self.open = threading.Event()
        self.entered = threading.Event()
        self.batches = []

    def attempt_many(self, sources, options):
        self.entered.set()
        assert self.open.wait(30)
        self.batches.append(len(sources))
        if "fault" in sources:
            raise RuntimeError("unexpected")
        return self.recognizer.attempt_many(sources, options)
