r"""LAST: a Transformer that decodes all lines of an expression at once (Yang et al. 2023).

A line ends with `\\`, or with the end of the expression; from right to left, it ends with the `\\`
before it, or with the start of the expression. So the tokens of a caption are divided among its
lines, and every caption can be represented. At each step, every line decodes one token and sees
the tokens of all lines up to that step. A line has a learned embedding; positions within a line
are sinusoidal, with sine and cosine swapped from right to left.

Decisions where the publication leaves room:

* All lines start at the first step. A line that the expression does not have ends there (the loss
  `lines`); the first such line tells the number of lines.
* The directions do not see each other. The search takes the one with the better score.
* There is no attention refinement: coverage has no order across lines.
* Only the semi-autoregressive task is trained; for one line it is the autoregressive one.
"""

from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from posformer.errors import ConfigError
from posformer.latex import Vocabulary
from posformer.models.base import LayerAttention, StepOutput, TrainingOutput, cross_entropy
from posformer.models.decoder import ImageMemory, LayerCache, StepLayout
from posformer.models.encoder import Features
from posformer.models.model_config import LINE_BREAK, LineDecoderConfig, ModelConfig
from posformer.models.posformer import PosFormer
from posformer.models.position_head import PositionLogits
from posformer.models.positional_encoding import sinusoids
from posformer.models.pytree import Pytree


class LineCache(NamedTuple):
    """Cache of the tokens of all lines."""

    layers: list[LayerCache]
    hidden: Tensor  # bool (batch, beams, earlier tokens): of lines that had ended
    step: Tensor  # float (batch, beams): number of earlier steps
    backward: Tensor  # bool (batch, beams): from right to left


class _Lines(NamedTuple):
    """A sequence divided among lines, followed by the starts of all lines it does not have."""

    input_ids: Tensor  # int64 (batch, directions, steps + lines)
    layout: StepLayout
    absent: Tensor  # bool (batch, directions, lines)
    is_start: Tensor  # bool (batch, directions, steps): the first token of a line


class Last(PosFormer):
    """LAST. `step` takes one token of each line per call: int64 (batch, beams, lines).

    Lines that have ended are passed `<pad>`; the last ones may be left out.
    """

    pytorch_only: ClassVar[str] = "a step decodes one token of every line"

    def __init__(self, config: ModelConfig, vocabulary: Vocabulary) -> None:
        super().__init__(config, vocabulary)
        if self.settings.refinement is not None:
            raise ConfigError("decoder.refinement: last has none; coverage has no order there")
        self.lines = config.decoder_as(LineDecoderConfig).lines
        self.line = nn.Embedding(self.lines, self.settings.width)
        known = LINE_BREAK in vocabulary
        self.line_break = vocabulary.index(LINE_BREAK) if known else -1

    def initial_cache(self, memory: ImageMemory, beams: int = 1) -> Pytree:
        """Return the cache before the first token."""
        layers = super().initial_cache(memory, beams)
        zeros = memory.values[0].new_zeros(len(memory.padding), beams)
        return LineCache(layers, zeros[..., None].bool()[..., :0], zeros, zeros.bool())

    def step(self, input_ids: Tensor, memory: ImageMemory, cache: Pytree) -> StepOutput:
        """Return the log-probabilities of the next token of each line."""
        begins = input_ids[..., 0] == self.vocabulary.eos
        backward = torch.where(cache.step == 0, begins, cache.backward)
        lines = torch.arange(input_ids.shape[2], device=input_ids.device).expand_as(input_ids)
        steps = cache.step[..., None].expand_as(lines)
        ended = input_ids == self.vocabulary.pad
        own = torch.eye(input_ids.shape[2], dtype=torch.bool, device=input_ids.device)
        hidden = torch.cat(
            (
                cache.hidden[:, :, None].expand(-1, -1, input_ids.shape[2], -1),
                ended[:, :, None] & ~own,
            ),
            dim=-1,
        )
        layout = StepLayout(self._positions(lines, steps, backward), hidden)
        mask = self.entity[input_ids]
        logits, output = self.decoder(input_ids, mask, memory, cache.layers, layout)
        ended = torch.cat((cache.hidden, ended), dim=-1)
        new_cache = LineCache(output.cache, ended, cache.step + 1, backward)
        return StepOutput(logits.log_softmax(-1), new_cache, output.attention)

    def forward_decoder(
        self,
        features: Features,
        input_ids: Tensor,
        identifiers: Tensor | None = None,
        target_ids: Tensor | None = None,
    ) -> TrainingOutput:
        """Run the part of `forward` after the encoder, on whole captions."""
        memory = self.prepare_memory(features)
        valid = (
            torch.ones_like(input_ids, dtype=torch.bool) if target_ids is None else target_ids >= 0
        )
        parts = self._divide(input_ids, valid)
        mask, count = self.entity[parts.input_ids], input_ids.shape[2]
        logits, output = self.decoder(parts.input_ids, mask, memory, None, parts.layout)
        if identifiers is not None:
            identifiers = _divide_identifiers(identifiers, parts)
        position = self._positions_of(
            features, memory, output.states, identifiers, mask, parts.layout
        )
        if position is not None:
            position = PositionLogits(*(part[:, :, :count] for part in position))
        symbols = self.symbol_map(features.cells) if self.symbol_map is not None else None
        attention = [weights[:, :, :count] for weights, _, _ in output.attention]
        losses = {}
        if target_ids is not None:
            sos, eos = self.vocabulary.sos, self.vocabulary.eos
            ends = torch.where(input_ids[..., :1] == eos, sos, eos)
            losses["lines"] = cross_entropy(
                logits[:, :, count:], torch.where(parts.absent, ends, -1)
            )
        return TrainingOutput(logits[:, :, :count], position, symbols, attention, features, losses)

    def attention_maps(self, input_ids: Tensor, memory: ImageMemory) -> list[LayerAttention]:
        """Return the attention of every layer over whole captions; see `RecognitionModel`."""
        parts = self._divide(input_ids, None)
        mask = self.entity[parts.input_ids]
        _, output = self.decoder(parts.input_ids, mask, memory, None, parts.layout)
        count = input_ids.shape[2]
        return [(one[:, :, :count], raw[:, :, :count], None) for one, raw, _ in output.attention]

    def _divide(self, input_ids: Tensor, valid: Tensor | None) -> _Lines:
        """Divide the tokens of captions among lines.

        Args:
            input_ids: int64 (batch, directions, steps), start token first.
            valid: bool (batch, directions, steps), false after the end; None: there is no padding.
        """
        if valid is None:
            valid = torch.ones_like(input_ids, dtype=torch.bool)
        starts = input_ids[..., :1]
        backward = starts == self.vocabulary.eos
        places = torch.arange(input_ids.shape[2], device=input_ids.device)
        breaks = (input_ids == self.line_break) & valid
        number = breaks.cumsum(-1)
        total = number[..., -1:]  # of line breaks
        lines = torch.where(backward, total - number, number)
        steps = places - torch.where(breaks, places, 0).cummax(-1).values
        every = torch.arange(self.lines, device=input_ids.device).expand(*lines.shape[:2], -1)
        absent = every > total
        lines, steps = (
            torch.cat((lines, every), -1),
            torch.cat((steps, torch.zeros_like(every)), -1),
        )
        valid = torch.cat((valid, absent), -1)
        own = torch.eye(valid.shape[-1], dtype=torch.bool, device=valid.device)
        hidden = (steps[..., None, :] > steps[..., None]) | ~valid[..., None, :]
        divided = torch.where(breaks, starts, input_ids)
        divided = torch.cat((divided, starts.expand_as(every)), -1)
        positions = self._positions(lines, steps, backward[..., 0])
        return _Lines(divided, StepLayout(positions, hidden & ~own), absent, breaks)

    def _positions(self, lines: Tensor, steps: Tensor, backward: Tensor) -> Tensor:
        """Return the positional encoding of lines and of the steps within them.

        Args:
            lines: int64 (batch, beams, tokens).
            steps: int64 or float (batch, beams, tokens).
            backward: bool (batch, beams).
        """
        forward = sinusoids(steps.float(), self.settings.width)
        swapped = forward.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        within = torch.where(backward[..., None, None], swapped, forward)
        return within + self.line(lines.clamp(max=self.lines - 1))


def _divide_identifiers(identifiers: Tensor, parts: _Lines) -> Tensor:
    """Return position identifiers (batch, directions, steps, length) of divided inputs."""
    starts = identifiers[:, :, :1]
    divided = torch.where(parts.is_start[..., None], starts, identifiers)
    rest = starts.expand(-1, -1, parts.absent.shape[-1], -1)
    return torch.cat((divided, rest), dim=2)
