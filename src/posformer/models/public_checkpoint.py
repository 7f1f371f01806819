"""Loads the checkpoints that the authors of CoMER and PosFormer published."""

import re
from pathlib import Path
from typing import Any

from torch import Tensor

from posformer.errors import ConfigError, ModelError
from posformer.latex import Vocabulary
from posformer.models.checkpoint_file import read_checkpoint_file
from posformer.models.model_config import ModelConfig
from posformer.models.posformer import PosFormer

# What the authors' training program stores beside tensors, such as the state of its callbacks.
_IGNORED = ("argparse", "lightning", "lightning_fabric", "numpy", "pathlib", "pytorch_lightning")


def load_public_checkpoint(path: Path, vocabulary: Vocabulary) -> PosFormer:
    """Load a PosFormer or CoMER from the checkpoint of its authors, with their settings.

    Args:
        path: a Lightning `.ckpt` with `state_dict` and `hyper_parameters`.
        vocabulary: the vocabulary of the training; the file does not contain it.
    """
    content = _read(path)
    weights, settings = content["state_dict"], content["hyper_parameters"]
    try:
        config = _config(settings, with_position=any("posdecoder" in name for name in weights))
        vocab_size = weights["model.decoder.proj.weight"].shape[0]
    except (ConfigError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise ModelError(f"{path}: not a checkpoint of CoMER or PosFormer ({reason})") from error
    if vocab_size != len(vocabulary):
        raise ModelError(
            f"{path}: the model has {vocab_size} tokens, the vocabulary {len(vocabulary)}"
        )
    model = PosFormer(config, vocabulary)
    renamed = {new: value for name, value in weights.items() if (new := _renamed(name))}
    try:
        model.load_state_dict(_split_image_projections(renamed))
    except RuntimeError as error:
        raise ModelError(f"{path}: {' '.join(str(error).split())[:300]}") from error
    return model.eval()


def _read(path: Path) -> dict[str, Any]:
    content = read_checkpoint_file(path, _IGNORED)
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not a Lightning checkpoint")
    for part in ("state_dict", "hyper_parameters"):
        if not isinstance(content.get(part), dict):
            raise ModelError(f"{path}: not a Lightning checkpoint: '{part}' is missing")
    if "model.decoder.proj.weight" not in content["state_dict"]:
        raise ModelError(f"{path}: has no 'model.decoder.proj.weight'; not CoMER or PosFormer")
    for name, value in content["state_dict"].items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ModelError(f"{path}: damaged: {name!r} in 'state_dict' is no tensor")
    return content


def _config(settings: dict[str, Any], with_position: bool) -> ModelConfig:
    """Return the config for the authors' settings; CoMER counts every token as coverage."""
    growth, layers = int(settings["growth_rate"]), [int(settings["num_layers"])] * 3
    dropout = float(settings["dropout"])
    structure = ["^", "_", "{"] if with_position else []
    refinement = {"channels": int(settings["dc"]), "structure": structure, "masked_by": "input"}
    decoder = {
        "width": int(settings["d_model"]),
        "heads": int(settings["nhead"]),
        "layers": int(settings["num_decoder_layers"]),
        "feedforward": int(settings["dim_feedforward"]),
        "dropout": dropout,
        "attention_dropout": dropout,
        "refinement": refinement,
    }
    values = {
        "encoder": {"growth": growth, "layers": layers, "dropout": 0.2, "mask_padding": False},
        "decoder": decoder,
        "position": {"form": "separate", "coding": "authors"} if with_position else None,
    }
    return ModelConfig.from_dict(values)


_RENAMES = [
    (r"^model\.", ""),
    (r"^posdecoder\.pos_embed\.", "position.embed."),
    (r"^posdecoder\.layernum_proj\.", "position.level."),
    (r"^posdecoder\.pos_proj\.", "position.letter."),
    (r"^posdecoder\.(model\.)?", "position.stack."),
    (r"^decoder\.word_embed\.0\.", "decoder.embed."),
    (r"^decoder\.word_embed\.1\.", "decoder.embed_norm."),
    (r"^decoder\.proj\.", "decoder.head."),
    (r"^decoder\.(model|norm)\b", r"decoder.stack.\1"),
    (r"stack\.model\.", "stack."),
    (r"\.arm\.conv\.", ".refinement.look."),
    (r"\.arm\.proj\.", ".refinement.project."),
    (r"\.arm\.post_norm\.bn\.", ".refinement.norm."),
    (r"\.self_attn\.in_proj_(weight|bias)", r".self_attention.query_key_value.\1"),
    (r"\.self_attn\.out_proj\.", ".self_attention.out."),
    (r"\.multihead_attn\.out_proj\.", ".image_attention.out."),
    (r"\.linear1\.", ".expand."),
    (r"\.linear2\.", ".contract."),
    (r"(layers\.\d+)\.norm1\.", r"\1.self_norm."),
    (r"(layers\.\d+)\.norm2\.", r"\1.image_norm."),
    (r"(layers\.\d+)\.norm3\.", r"\1.final_norm."),
    (r"^encoder\.feature_proj\.", "encoder.project."),
    (r"^encoder\.model\.conv1\.", "encoder.net.stem."),
    (r"^encoder\.model\.norm1\.", "encoder.net.stem_norm."),
    (r"^encoder\.model\.post_norm\.", "encoder.net.final_norm."),
    *((rf"^encoder\.model\.dense{n + 1}\.", f"encoder.net.blocks.{n}.") for n in range(3)),
    *((rf"^encoder\.model\.trans{n + 1}\.", f"encoder.net.transitions.{n}.") for n in range(2)),
    (r"(blocks\.\d+\.\d+)\.conv1\.", r"\1.squeeze."),
    (r"(blocks\.\d+\.\d+)\.bn1\.", r"\1.squeeze_norm."),
    (r"(blocks\.\d+\.\d+)\.conv2\.", r"\1.look."),
    (r"(blocks\.\d+\.\d+)\.bn2\.", r"\1.look_norm."),
    (r"(transitions\.\d+)\.conv1\.", r"\1.squeeze."),
    (r"(transitions\.\d+)\.bn1\.", r"\1.norm."),
]


def _renamed(name: str) -> str | None:
    """Return our name of one of their parameters; None for tables that we compute."""
    if ".pos_enc" in name:
        return None
    for pattern, replacement in _RENAMES:
        name = re.sub(pattern, replacement, name)
    return name


def _split_image_projections(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Split their joint projection of image attention into queries, and keys and values."""
    result: dict[str, Tensor] = {}
    for name, value in weights.items():
        found = re.fullmatch(r"(.*)\.multihead_attn\.in_proj_(weight|bias)", name)
        if not found:
            result[name] = value
            continue
        width = value.shape[0] // 3
        result[f"{found[1]}.image_attention.query.{found[2]}"] = value[:width]
        result[f"{found[1]}.image_attention.key_value.{found[2]}"] = value[width:]
    return result
