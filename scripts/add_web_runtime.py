"""Copy ONNX Runtime Web from `web/node_modules` into the package; run by `make web`.

The WebAssembly is compressed: not every static host compresses what it sends.
"""

import gzip
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "web" / "node_modules" / "onnxruntime-web" / "dist"
TARGET = ROOT / "src" / "posformer" / "serve" / "runtime"
MODULES = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs")
BINARY = "ort-wasm-simd-threaded.wasm"


def main() -> None:
    """Copy the files."""
    TARGET.mkdir(exist_ok=True)
    for name in MODULES:
        shutil.copyfile(SOURCE / name, TARGET / name)
    packed = gzip.compress((SOURCE / BINARY).read_bytes(), 9, mtime=0)
    (TARGET / f"{BINARY}.gz").write_bytes(packed)
    size = sum(path.stat().st_size for path in TARGET.iterdir())
    print(f"{TARGET}: {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
