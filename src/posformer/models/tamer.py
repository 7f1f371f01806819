"""TAMER: CoMER with a module that predicts the parent of every token (Zhu et al. 2025).

A Transformer layer reads the states of all tokens of a caption; every token then points at its
parent in the symbol layout tree. Training adds the cross-entropy of these pointers (loss
`structure`). After the search, the mean log-probability of the parents of a finished hypothesis is
added to its score; malformed hypotheses rank last.

Decisions where the publication leaves a choice:

- A token is represented by the state that decodes it. The first symbol points at the end.
- Tokens without ink (`^ _ { }`) have no parent.
- Each direction has a module of its own, as in the program of the authors; a hypothesis has the
  mean of both.

`DecodingOptions.tree_weight` is the weight of the tree score in the search, 0 turns it off. It
needs PyTorch: an exported model decodes with ONNX Runtime, too, but without the tree score.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posformer.latex import Vocabulary
from posformer.latex.layout_tree import symbol_parents
from posformer.models.base import SummedLoss
from posformer.models.decoder import ImageMemory
from posformer.models.model_config import DecoderConfig, ModelConfig
from posformer.models.posformer import PosFormer

_IGNORE = -100


class TreeModule(nn.Module):
    """Points from every token to its parent."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        width = config.width
        self.layer = nn.TransformerEncoderLayer(
            width, config.heads, config.feedforward, config.dropout, batch_first=True
        )
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.score = nn.Linear(width, 1)

    def forward(self, states: Tensor, padding: Tensor) -> Tensor:
        """Return the log-probabilities of parents (n, steps, steps).

        Args:
            states: float (n, steps, width).
            padding: bool (n, steps), true after the end.
        """
        states = self.layer(states, src_key_padding_mask=padding)
        pairs = self.query(states)[:, :, None] + self.key(states)[:, None]
        scores = self.score(F.relu(pairs))[..., 0]
        return scores.masked_fill(padding[:, None], float("-inf")).log_softmax(-1)


class Tamer(PosFormer):
    """TAMER, with the additional loss `structure` and a score of finished hypotheses."""

    scores_trees: ClassVar[bool] = True

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        directions = 2 if self.settings.directions == "both" else 1
        self.tree = nn.ModuleList(TreeModule(self.settings) for _ in range(directions))

    @torch.no_grad()
    def tree_scores(
        self, hypotheses: Sequence[Sequence[tuple[int, ...]]], memory: ImageMemory
    ) -> list[list[float]]:
        """Return the mean log-probability of the parents of each hypothesis; 0 if it has none.

        Args:
            hypotheses: for each image its finished hypotheses, in reading order.
            memory: of the images.
        """
        beams = max((len(one) for one in hypotheses), default=0)
        if not beams:
            return [[] for _ in hypotheses]
        device, sos, eos = memory.padding.device, self.vocabulary.sos, self.vocabulary.eos
        steps = 1 + max(len(ids) for one in hypotheses for ids in one)
        scores = []
        for number in range(len(self.tree)):
            start, end = (sos, eos) if number == 0 else (eos, sos)
            targets = torch.full((len(hypotheses), beams, steps), _IGNORE)
            for image, found in enumerate(hypotheses):
                for beam, ids in enumerate(found):
                    ordered = ids if number == 0 else ids[::-1]
                    targets[image, beam, : len(ids) + 1] = torch.tensor([*ordered, end])
            inputs = F.pad(targets.clamp(min=0), (1, 0), value=start)[..., :-1].to(device)
            _, output = self.decoder(inputs, self.entity[inputs], memory)
            found_scores, counts = self._parents(output.states, targets.to(device))
            scores.append(found_scores.sum(-1) / counts.sum(-1).clamp(min=1))
        mean = torch.stack(scores).mean(0).tolist()
        return [row[: len(found)] for row, found in zip(mean, hypotheses, strict=True)]

    def _predict(
        self, logits: Tensor, states: Tensor, target_ids: Tensor | None
    ) -> tuple[Tensor, dict[str, SummedLoss]]:
        if target_ids is None:
            return logits, {}
        scores, counts = self._parents(states, target_ids)
        return logits, {"structure": SummedLoss(-scores.sum(), counts.sum().float())}

    def _parents(self, states: Tensor, target_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the log-probability of the parent of each token, 0 for tokens without one.

        Args:
            states: float (batch, beams, steps, width).
            target_ids: int64 (batch, beams, steps), negative after the end.

        Returns:
            float (batch, beams, steps), and bool of the same shape: whether a token has a parent.
        """
        flat, shape = target_ids.flatten(0, 1), target_ids.shape
        rows = flat.tolist()
        expected = torch.tensor([self._targets(row) for row in rows], device=states.device)
        is_backward = (flat == self.vocabulary.sos).any(-1)
        scores = states.new_zeros(expected.shape)
        for number, module in enumerate(self.tree):
            chosen = torch.nonzero(is_backward == bool(number))[:, 0]
            if len(chosen):
                padding = flat[chosen] < 0
                padding[:, 0] = False  # beams without a hypothesis
                log_probs = module(states.flatten(0, 1)[chosen], padding)
                places = expected[chosen].clamp(min=0)
                found = log_probs.gather(2, places[..., None])[..., 0]
                scores = scores.index_copy(0, chosen, found.to(scores.dtype))
        counts = expected >= 0
        return scores.masked_fill(~counts, 0.0).view(shape), counts.view(shape)

    def _targets(self, target_ids: list[int]) -> list[int]:
        """Return for each step the step that decodes the parent of its token, or `_IGNORE`."""
        ids = [one for one in target_ids if one >= 0]
        result = [_IGNORE] * len(target_ids)
        if not ids or any(one <= self.vocabulary.eos for one in ids[:-1]):  # unknown tokens
            return result
        backward = ids.pop() == self.vocabulary.sos
        tokens = self.vocabulary.decode(reversed(ids) if backward else ids)
        steps = range(len(tokens))[::-1] if backward else range(len(tokens))
        for token, parent in enumerate(symbol_parents(tokens)):
            if parent is not None:
                result[steps[token]] = len(tokens) if parent < 0 else steps[parent]
        return result
