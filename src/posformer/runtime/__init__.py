"""Runs models for the search; PyTorch is imported only if a model needs it."""

from posformer.runtime.calibration import Calibration, confidences, fit_calibration
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import Engine, Runtime, load_runtime, model_path

__all__ = [
    "Calibration",
    "Engine",
    "Runtime",
    "confidences",
    "decode_images",
    "fit_calibration",
    "load_runtime",
    "model_path",
]
