"""The measures as torchmetrics, gathered over batches and processes."""

from collections.abc import Sequence

import torch
from torchmetrics import Metric

from posformer.evaluation.metrics import edit_distances

__all__ = ["ExpressionErrors", "TeacherForcedExpRate"]

_TOLERANCES = (0, 1, 2, 3)


class ExpressionErrors(Metric):
    """ExpRate, ≤1, ≤2, ≤3 (per cent) and CER (a fraction) of decoded expressions."""

    within: torch.Tensor  # expressions at most 0, 1, 2, 3 edits away
    count: torch.Tensor
    distance: torch.Tensor
    length: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("within", torch.zeros(len(_TOLERANCES), dtype=torch.long), "sum")
        for name in ("count", "distance", "length"):
            self.add_state(name, torch.tensor(0), "sum")

    def update(self, truths: Sequence[Sequence[str]], predictions: Sequence[Sequence[str]]) -> None:
        """Add expressions, as tokens."""
        distances = torch.from_numpy(edit_distances(truths, predictions)).to(self.within.device)
        limits = torch.tensor(_TOLERANCES, device=self.within.device)
        self.within += (distances[:, None] <= limits).sum(dim=0)
        self.count += len(truths)
        self.distance += distances.sum()
        self.length += sum(len(truth) for truth in truths)

    def compute(self) -> dict[str, torch.Tensor]:
        """Give `exprate`, `le1`, `le2`, `le3` and `cer`."""
        shares = 100 * self.within / self.count
        names = ("exprate", "le1", "le2", "le3")
        return {**dict(zip(names, shares, strict=True)), "cer": self.distance / self.length}


class TeacherForcedExpRate(Metric):
    """ExpRate (per cent) of greedy decoding, from one forward pass over the true tokens.

    Greedy decoding gives the truth exactly when the best word at every step is right while the true
    tokens are fed in: up to the first error both see the same.
    """

    right: torch.Tensor
    count: torch.Tensor

    def __init__(self, pad: int) -> None:
        """Start at nothing.

        Args:
            pad: The index that fills targets up; its steps do not count.
        """
        super().__init__()
        self.pad = pad
        for name in ("right", "count"):
            self.add_state(name, torch.tensor(0), "sum")

    def update(self, logits: torch.Tensor, targets: torch.Tensor) -> None:
        """Add a batch.

        Args:
            logits: Scores of the words, (expressions, steps, words).
            targets: The true next words, end included, (expressions, steps).
        """
        agrees = (logits.argmax(dim=-1) == targets) | (targets == self.pad)
        self.right += agrees.all(dim=1).sum()
        self.count += len(targets)

    def compute(self) -> torch.Tensor:
        """Give the per cent of expressions without an error."""
        return 100 * self.right / self.count
