"""What pyproject.toml cannot say: the README without links of the repository, and where packages are without its links.

`refactx/ingest`, `refactx/prompts` and `refactx/sql` are symbolic links to folders at the top, which git may not make on
Windows. Without them the build takes the packages from these folders, and makes the same wheel.
"""

import re
from pathlib import Path

from setuptools import find_packages, setup

TOP = ("ingest", "prompts", "sql")


def described(readme: str) -> str:
    """Return the README as PyPI shows it: without pictures and links of the repository, which lead nowhere there."""
    without = re.sub(r"!\[[^\]]*\]\((?!https:)[^)]*\)\n\n", "", readme)
    return re.sub(r"\[([^\]]*)\]\((?!https:)[^)]*\)", r"\1", without)


linked = Path("refactx/ingest").is_dir()
packages = find_packages(include=["refactx", "refactx.*"])
if not linked:
    packages += [f"refactx.{name}" for name in find_packages(include=[*TOP, *(f"{top}.*" for top in TOP)])]
setup(
    packages=packages,
    package_dir={} if linked else {f"refactx.{top}": top for top in TOP},
    long_description=described(Path("README.md").read_text(encoding="utf-8")),
    long_description_content_type="text/markdown",
)
