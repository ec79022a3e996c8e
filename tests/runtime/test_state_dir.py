"""What lies in the state folder is for its owner, and one that cannot be written is the operator's to mend."""

from pathlib import Path

import pytest

from lumbre.core.errors import OperatorError
from lumbre.runtime.state_dir import StateDir, write_whole


def test_logs_are_for_their_owner_also_in_a_folder_that_was_there(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    (folder / "logs").mkdir(parents=True)
    (folder / "logs").chmod(0o755)
    folder.chmod(0o755)
    with StateDir(folder):
        assert (folder / "logs").stat().st_mode & 0o777 == 0o700
        assert (folder / "lock").stat().st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o755


def test_a_new_folder_is_for_its_owner(tmp_path: Path) -> None:
    with StateDir(tmp_path / "new"):
        assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_document_that_cannot_be_written_is_the_operators_to_mend(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    (tmp_path / "x.json" / "inside").touch()
    with pytest.raises(OperatorError, match=r"x\.json"):
        write_whole(tmp_path / "x.json", {})
    with pytest.raises(OperatorError, match="nowhere"):
        write_whole(tmp_path / "nowhere" / "y.json", {})
