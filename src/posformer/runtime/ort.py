"""The only module that imports ONNX Runtime: `from posformer.runtime.ort import ort`.

Some releases report their use to a host of their vendor unless this variable is set before the
import; this program runs offline.
"""

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"

import onnxruntime as ort

__all__ = ["ort"]
