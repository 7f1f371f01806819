"""DWAP + SAN: DWAP with a second decoder in training that predicts the tree as SAN does.

The supplement of the PosFormer paper compares it with the position forest, which is such a second
task, too. Both decoders read the same features; recognition uses the sequence decoder alone, so it
costs as much as DWAP. The paper does not say how the two are combined; here their losses are added
(`loss.own.tree` is the weight of the tree).
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from posformer.latex import Vocabulary
from posformer.models.base import SummedLoss, TrainingOutput
from posformer.models.dwap import Dwap
from posformer.models.encoder import Features
from posformer.models.model_config import ModelConfig
from posformer.models.san import SanDecoder
from posformer.models.san_targets import SanTargets

_IGNORE = -100


class DwapSan(Dwap):
    """DWAP, with the additional loss `tree`."""

    training_only: ClassVar[tuple[str, ...]] = (*Dwap.training_only, "tree_decoder")

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        targets = SanTargets(vocabulary)
        self.tree_decoder: SanDecoder | None
        self.tree_decoder = SanDecoder(self.settings, self.encoder.width, targets)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder."""
        output = super().forward_decoder(features, input_ids, identifiers, target_ids)
        if target_ids is None or self.tree_decoder is None or not self.training:
            return output
        inputs, expected = self._tree_steps(target_ids)
        memory = self.tree_decoder.stack.prepare_memory(features)
        log_probs = self.tree_decoder(inputs, memory).log_probs
        total = F.cross_entropy(log_probs.flatten(0, 2), expected.flatten(), reduction="sum")
        loss = SummedLoss(total, (expected != _IGNORE).sum().float())
        return output._replace(losses={**output.losses, "tree": loss})

    def _tree_steps(self, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return inputs and targets of the tree decoder for captions (batch, 1, steps)."""
        assert self.tree_decoder is not None
        rows = []
        for ids in target_ids[:, 0].tolist():
            known = [one for one in ids if one > self.vocabulary.eos]
            rows.append(self.tree_decoder.targets.encode(self.vocabulary.decode(known)))
        steps = max(len(row.input_ids) for row in rows)
        shape = len(rows), 1, steps
        inputs, expected = torch.zeros(shape, dtype=torch.long), torch.full(shape, _IGNORE)
        for number, row in enumerate(rows):
            inputs[number, 0, : len(row.input_ids)] = torch.tensor(row.input_ids)
            expected[number, 0, : len(row.target_ids)] = torch.tensor(row.target_ids)
        return inputs.to(target_ids.device), expected.to(target_ids.device)
