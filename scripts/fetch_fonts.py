"""Download the fonts that printed training data is made from.

    python scripts/fetch_fonts.py data/fonts

Fonts come from Debian packages (`apt-get download`, no root needed) and from the `@fontsource`
packages of the npm registry. Each family gets a folder with its font files and its licence. Nothing
of it is part of this repository: the licences (SIL OFL, GUST Font License, Bitstream Vera, GPL with
font exception) allow the use, and the folders keep their texts.
"""

import argparse
import gzip
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Families with mathematical symbols: name -> (package, files to keep).
DEBIAN = {
    "latin-modern": ("fonts-lmodern", ["latinmodern-math.otf", "lmroman10-*.otf"]),
    "stix": ("fonts-stix", ["STIX-*.otf", "STIXMath-*.otf"]),
    "tex-gyre-math": ("fonts-texgyre-math", ["*.otf"]),
    "asana": ("fonts-oflb-asana-math", ["*.otf", "*.ttf"]),
    "cmu-serif": ("fonts-cmu", ["cmunrm.ttf", "cmunti.ttf"]),
    "cmu-sans": ("fonts-cmu", ["cmunss.ttf", "cmunsi.ttf"]),
    "cmu-concrete": ("fonts-cmu", ["cmunorm.ttf", "cmunoti.ttf"]),
    "dejavu": ("fonts-dejavu-core", ["DejaVuSans.ttf", "DejaVuSerif.ttf"]),
    "dejavu-extra": ("fonts-dejavu-extra", ["DejaVuSerif-Italic.ttf", "DejaVuSans-Oblique.ttf"]),
    "linux-libertine": ("fonts-linuxlibertine", ["LinLibertine_R.otf", "LinLibertine_RI.otf"]),
    "neohellenic": ("fonts-gfs-neohellenic", ["*.otf", "*.ttf"]),
    "gfs-didot": ("fonts-gfs-didot", ["*.otf"]),
    "eb-garamond": ("fonts-ebgaramond", ["EBGaramond12-Regular.otf", "EBGaramond12-Italic.otf"]),
    "junicode": ("fonts-junicode", ["JunicodeTwoBeta-Regular.otf", "JunicodeTwoBeta-Italic.otf"]),
}
NPM_MATH = ["stix-two-math", "libertinus-math", "noto-sans-math", "dejavu-math"]

NAMES_OF_HANDWRITING = """
annie-use-your-telescope architects-daughter bad-script caveat cedarville-cursive comic-neue
coming-soon covered-by-your-grace crafty-girls dawning-of-a-new-day delius edu-sa-beginner
edu-vic-wa-nt-beginner gaegu give-you-glory gloria-hallelujah gochi-hand grape-nuts handlee
homemade-apple indie-flower itim just-another-hand just-me-again-down-here kalam klee-one kristi
la-belle-aurore loved-by-the-king mali marck-script mynerve nanum-pen-script neucha
nothing-you-could-do over-the-rainbow pangolin patrick-hand permanent-marker playpen-sans
reenie-beanie rock-salt schoolbell sedgwick-ave shadows-into-light shantell-sans short-stack
sriracha sue-ellen-francisco the-girl-next-door waiting-for-the-sunrise walter-turncoat zeyada
"""


def main() -> None:
    """Download all families that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="Output folder.")
    folder = parser.parse_args().folder
    failed = []
    for family, (package, patterns) in DEBIAN.items():
        failed += fetch(folder / "math" / family, partial(debian, package, patterns))
    for kind, names in (("math", NPM_MATH), ("handwriting", NAMES_OF_HANDWRITING.split())):
        for name in names:
            failed += fetch(folder / kind / name, partial(fontsource, name))
    fonts = sum(1 for file in folder.rglob("*") if file.suffix in (".otf", ".ttf", ".woff"))
    print(f"{fonts} fonts in {folder}")
    if failed:
        sys.exit(f"not available: {', '.join(failed)}")


def fetch(target: Path, download: Callable[[Path], None]) -> list[str]:
    """Fill a folder unless it exists; return its name if nothing was found."""
    if target.exists():
        return []
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        out.mkdir()
        try:
            download(out)
        except (subprocess.CalledProcessError, OSError):
            return [target.name]
        if not any(file.suffix in (".otf", ".ttf", ".woff") for file in out.iterdir()):
            return [target.name]
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(out, target)
    return []


def debian(package: str, patterns: list[str], out: Path) -> None:
    """Copy files of a Debian package."""
    with tempfile.TemporaryDirectory() as scratch:
        run("apt-get", "download", package, cwd=scratch)
        (archive,) = Path(scratch).glob("*.deb")
        run("dpkg-deb", "-x", str(archive), "tree", cwd=scratch)
        tree = Path(scratch) / "tree"
        for pattern in patterns:
            for file in sorted(tree.rglob(pattern)):
                if not file.is_symlink():
                    shutil.copy(file, out / file.name)
        for licence in tree.rglob("copyright"):
            shutil.copy(licence, out / "LICENSE")


def fontsource(name: str, out: Path) -> None:
    """The regular upright style of all subsets, as WOFF."""
    with tempfile.TemporaryDirectory() as scratch:
        run("npm", "pack", f"@fontsource/{name}", "--silent", cwd=scratch)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(fileobj=io.BytesIO(gzip.decompress(archive.read_bytes()))) as tar:
            for member in tar.getmembers():
                file = Path(member.name)
                keep = file.name.endswith("-400-normal.woff") or file.name == "LICENSE"
                content = tar.extractfile(member) if keep else None
                if content is not None:
                    (out / file.name).write_bytes(content.read())


def run(*command: str, cwd: str) -> None:
    """Run a program; its output is shown on failure only."""
    subprocess.run(command, cwd=cwd, check=True, capture_output=True)


if __name__ == "__main__":
    main()
