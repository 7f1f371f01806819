"""What a server takes in, and how much of it at a time."""

from dataclasses import dataclass

from posformer.runtime.decoding import DEFAULT_BEAM, DEFAULT_VIEWS, MOST_VIEWS

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """Limits and sizes of a server; each refusal names the one that was passed."""

    workers: int = 1  # threads that recognize
    batch: int = 8  # requests that one of them takes together; 1: each for itself
    requests: int = 64  # that are taken in and not answered yet; more are told to come again
    seconds: float = 30.0  # for a request to arrive, and again to be answered
    body_bytes: int = 10_000_000
    strokes: int = 1_000
    points: int = 50_000  # of all strokes together
    latex_characters: int = 4_000
    top_k: int = 10  # readings that may be asked for
    beam: int = DEFAULT_BEAM
    views: int = DEFAULT_VIEWS
    origins: tuple[str, ...] = ()  # other sites whose pages may ask (CORS)
    # Names that this server goes by; () for any. A page of another site that had its own name
    # point here would be taken for ours otherwise (DNS rebinding).
    hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            "workers",
            "batch",
            "requests",
            "seconds",
            "body_bytes",
            "beam",
            "views",
            "top_k",
        ):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be above 0, not {getattr(self, name)}")
        if self.views > MOST_VIEWS:
            raise ValueError(f"views must be at most {MOST_VIEWS}, not {self.views}")
