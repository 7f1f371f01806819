"""The metrics as torchmetrics, accumulated over batches and processes."""

from collections.abc import Sequence

import torch
from torchmetrics import MeanMetric, Metric

from posformer.evaluation.metrics import edit_distances

_TOLERANCES = (0, 1, 2, 3)


class ExpressionErrors(Metric):
    """ExpRate, ≤1, ≤2, ≤3 (percent) and CER (a fraction) of decoded expressions."""

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
        """Return `exprate`, `le1`, `le2`, `le3` and `cer`."""
        shares = 100 * self.within / self.count
        names = ("exprate", "le1", "le2", "le3")
        return {**dict(zip(names, shares, strict=True)), "cer": self.distance / self.length}


class TeacherForcedExpRate(MeanMetric):
    """ExpRate (percent) of greedy decoding, computed from one teacher-forced forward pass.

    Greedy decoding returns the ground truth exactly if the most likely token is correct at every
    teacher-forced step: both see the same prefix up to the first error.
    """

    def __init__(self, pad: int) -> None:
        """Create the metric.

        Args:
            pad: Padding index of the targets; its steps are ignored.
        """
        super().__init__()
        self.pad = pad

    def update(  # type: ignore[override]
        self, logits: torch.Tensor, targets: torch.Tensor
    ) -> None:
        """Add a batch.

        Args:
            logits: float (batch, steps, vocab_size).
            targets: int64 (batch, steps), the next token of each step, end token included.
        """
        agrees = (logits.argmax(dim=-1) == targets) | (targets == self.pad)
        super().update(100.0 * agrees.all(dim=1))
