"""The comparison of wheels with the tree that they were built from: `compare_wheels.py TREE WHEEL...`.

Every file below `refactx/`, through its symbolic links too (`refactx/ingest` is one), has to be in each wheel, byte for
byte, and the wheels have to be equal.
"""

import os
import sys
import zipfile
from pathlib import Path


def tree_files(tree: Path) -> dict[str, bytes]:
    """Return the contents of the package's files by their path from `tree`."""
    folders = os.walk(tree / "refactx", followlinks=True)
    paths = [Path(folder) / name for folder, _, names in folders for name in names]
    return {path.relative_to(tree).as_posix(): path.read_bytes() for path in paths}


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Return the contents of a wheel's files by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def main(tree: Path, *wheels: Path) -> None:
    """Exit with a message if a file is missing, additional or different."""
    expected, found = tree_files(tree), [wheel_files(wheel) for wheel in wheels]
    for wheel, files in zip(wheels, found, strict=True):
        package = {name: content for name, content in files.items() if name.startswith("refactx/")}
        if wrong := sorted(name for name, _ in expected.items() ^ package.items()):
            sys.exit(
                f"{wheel.name} differs from the tree: {', '.join(wrong)}; check [tool.setuptools] in pyproject.toml"
            )
    if any(files != found[0] for files in found):
        sys.exit(
            f"the wheel of the sdist differs from that of the tree ({', '.join(str(wheel) for wheel in wheels)}); "
            "check [tool.setuptools] in pyproject.toml"
        )
    print(f"{len(expected)} files of the package are in the wheel of the tree and in the wheel of the sdist")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
