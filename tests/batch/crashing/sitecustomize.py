"""Makes native code crash in worker processes: a segmentation fault for inputs named `poison`."""

import ctypes
import os
import sys
from importlib.abc import MetaPathFinder
from pathlib import Path


class _Finder(MetaPathFinder):
    """Replaces `open_input` once its module has been imported by somebody else."""

    def find_spec(self, name, path, target=None):
        if name == "posformer.batch.batch_worker":
            from posformer.batch import input_content

            original = input_content.open_input

            def open_input(one):
                if "poison" in one.key:
                    with Path(os.environ["POISON_LOG"]).open("a") as log:
                        print(os.getpid(), file=log)
                    ctypes.string_at(0)  # reads address 0
                return original(one)

            input_content.open_input = open_input


sys.meta_path.insert(0, _Finder())
