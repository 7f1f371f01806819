"""Runs models for the search; PyTorch is imported only if a model needs it."""

from posformer.runtime.calibration import Calibration, Calibrations, confidences, fit_calibration
from posformer.runtime.decoding import decode_images
from posformer.runtime.engine import Engine, Runtime, load_runtime, model_path
from posformer.runtime.thresholds import Thresholds

__all__ = [
    "Calibration",
    "Calibrations",
    "Engine",
    "Runtime",
    "Thresholds",
    "confidences",
    "decode_images",
    "fit_calibration",
    "load_runtime",
    "model_path",
]
