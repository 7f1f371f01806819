"""posformer reads handwritten mathematics and writes LaTeX."""

__version__ = "0.1.0"

__all__ = ["__version__"]
