"""What can go wrong through input rather than through a fault of the program."""


class PosformerError(Exception):
    """A mistake in what the user gave; its text is one line that names what and where."""
