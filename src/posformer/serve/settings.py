"""Settings of the server."""

from dataclasses import dataclass, field, fields

from posformer.errors import ConfigError
from posformer.search import DecodingOptions


@dataclass(frozen=True)
class Settings:
    """Limits and options of a server; a refused request names the limit that it exceeds.

    Raises:
        ConfigError: If a limit is not positive.
    """

    workers: int = 1  # processes that run recognition
    batch: int = 8  # maximum number of requests that a worker decodes together
    requests: int = 64  # maximum number of open requests; more are refused with status 503
    seconds: float = 30.0  # time limit to receive a request, and again to answer it
    body_bytes: int = 10_000_000  # maximum size of a request
    strokes: int = 1_000  # maximum number of strokes per request
    points: int = 50_000  # maximum number of points of all strokes together
    latex_characters: int = 4_000  # maximum length of LaTeX to typeset
    top_k: int = 10  # maximum number of results per request
    options: DecodingOptions = field(default_factory=DecodingOptions)  # how to decode
    # Other origins whose pages may call the API, such as "https://notes.example"; "*" for any.
    origins: tuple[str, ...] = ()
    # Host names that the server answers to, besides IP addresses; () for any. Without this check,
    # a web site could point its own host name here and read the answers (DNS rebinding).
    hosts: tuple[str, ...] = ()
    job_seconds: float = 10.0  # time limit of a worker for one request, waiting excluded
    megabytes: int = 1024  # memory that a worker may use for one request (Linux)
    connections: int = 512  # maximum number of connections
    header_seconds: float = 10.0  # time limit to send the headers of a request

    def __post_init__(self) -> None:
        for limit in fields(self):
            value = getattr(self, limit.name)
            if isinstance(value, int | float) and value <= 0:
                raise ConfigError(f"{limit.name} must be positive, not {value}")
