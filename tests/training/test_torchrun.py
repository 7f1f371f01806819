"""Training on two nodes that torchrun starts, over loopback, against one process."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

# Statistics of batches differ between one process and two, and so does dropout. SGD, because Adam
# turns tiny differences of tiny gradients into steps of full size.
SETTINGS = (
    *("epochs=2", "validate_every=2", "progress_images=0", "batch.max_images=5"),
    *("optimizer.kind=sgd", "optimizer.learning_rate=0.05", "optimizer.warmup=0"),
    *("optimizer.decay=none", "optimizer.freeze_norms=0", "accelerator=cpu"),
)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def torchrun(node: int, port: int, *arguments: object) -> subprocess.Popen:
    """Start the training command on one of two nodes."""
    rendezvous = ("--master-addr", "127.0.0.1", "--master-port", str(port))
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nnodes", "2"),
            *("--nproc-per-node", "1", "--node-rank", str(node), *rendezvous),
            *("-m", "posformer.cli", "train", *map(str, arguments)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def weights(run: Path) -> tuple[int, dict[str, torch.Tensor]]:
    """Return the number of steps and the weights of the last checkpoint of a run."""
    checkpoint = torch.load(run / "last.ckpt", weights_only=True)
    return checkpoint["global_step"], checkpoint["state_dict"]


@pytest.mark.slow
def test_weights_of_two_nodes_match_those_of_one_process(tiny_config: Path, tmp_path: Path) -> None:
    port, runs = free_port(), [tmp_path / name for name in ("two", "one", "start")]
    options = ("-c", tiny_config, "-o", runs[0], *SETTINGS, "devices=1", "nodes=2")
    nodes = [torchrun(node, port, *options) for node in range(2)]
    outputs = [node.communicate(timeout=550)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], "".join(outputs)
    script = [sys.executable, str(Path(__file__).with_name("one_process.py"))]
    subprocess.run([*script, str(tiny_config), str(runs[1]), *SETTINGS], check=True, timeout=500)
    still = (*SETTINGS, "optimizer.learning_rate=0.0")
    subprocess.run([*script, str(tiny_config), str(runs[2]), *still], check=True, timeout=500)
    (steps, two), (steps_of_one, one), (_, start) = map(weights, runs)
    assert steps == steps_of_one and steps >= 10
    moved = {name: (one[name] - start[name]).abs().max().item() for name in one}
    assert max(moved.values()) > 1e-2
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, atol=2e-5, rtol=1e-3, msg=name)
