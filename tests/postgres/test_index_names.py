"""Names of indexes: two that people may not tell apart are not both there."""

from pathlib import Path

import pytest
from support.ingest.tiny import ingest_tiny

from refactx.errors import IndexExistsError, InputError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "facts.txt"
    file.write_text("<Ann> <p> <b> .\n")
    return file


@pytest.mark.parametrize("like", ["Straße", "STRASSE", "Strasse", "\uff53trasse"])
@pytest.mark.parametrize("replace", [False, True])
def test_a_name_that_differs_by_case_or_width_alone_is_refused(
    db_url: str, file: Path, like: str, replace: bool
) -> None:
    ingest_tiny(db_url, file, "strasse")
    with pytest.raises(
        IndexExistsError, match=f"index 'strasse' exists, and '{like}' differs from it by case or width"
    ):
        ingest_tiny(db_url, file, like, replace=replace)
    ingest_tiny(db_url, file, "strasse", replace=True)
    ingest_tiny(db_url, file, "strasse 2")


@pytest.mark.parametrize("name", ["work", "Work", "\uff37ORK"])
def test_the_folder_of_temporary_files_is_no_index(db_url: str, file: Path, name: str) -> None:
    with pytest.raises(InputError, match="the folder of temporary files"):
        ingest_tiny(db_url, file, name)
