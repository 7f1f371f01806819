"""What runs a model for the search; PyTorch is imported only when a model needs it."""

from posformer.runtime.calibration import Calibration, confidences, fit_calibration
from posformer.runtime.interface import Engine, Runtime, load_runtime, model_path
from posformer.runtime.reading import read_pictures, search_options

__all__ = [
    "Calibration",
    "Engine",
    "Runtime",
    "confidences",
    "fit_calibration",
    "load_runtime",
    "model_path",
    "read_pictures",
    "search_options",
]
