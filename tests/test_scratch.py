# SPDX-License-Identifier: GPL-2.0-or-later
"""Scratch directories: gone at the end, and with the next command where the end was a kill."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xdprepro.errors import STORAGE, XdpreproError
from xdprepro.scratch import start_scratch

HOLD = """
from xdprepro.scratch import start_scratch
with start_scratch() as place:
    (place / "file").write_text("large")
    print(place, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files, here and in other processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def start_holder() -> tuple["subprocess.Popen[str]", Path]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert child.stdout
    return child, Path(child.stdout.readline().strip())


def test_it_is_empty_and_gone_at_the_end(temporary: Path) -> None:
    with start_scratch() as place:
        assert place.parent == temporary
        assert list(place.iterdir()) == []
        (place / "file").touch()
    assert list(temporary.iterdir()) == []


def test_what_a_kill_left_goes_with_the_next_and_what_is_in_use_stays(temporary: Path) -> None:
    other = temporary / "xdprepro-results"
    other.mkdir()
    (killed, left), (alive, used) = start_holder(), start_holder()
    killed.kill()
    killed.communicate()
    assert (left / "file").exists()
    with start_scratch() as place:
        assert sorted(temporary.iterdir()) == sorted([other, used, place])
    assert (used / "file").exists()
    alive.communicate("\n")
    assert list(temporary.iterdir()) == [other]


@pytest.mark.usefixtures("root_user")
def test_what_another_user_left_stays(temporary: Path) -> None:
    killed, left = start_holder()
    killed.kill()
    killed.communicate()
    os.chown(left, 65534, 65534)
    with start_scratch():
        pass
    assert list(temporary.iterdir()) == [left]


def test_a_link_of_that_name_is_not_followed(temporary: Path) -> None:
    (temporary / "precious").mkdir()
    (temporary / "xdprepro-scratch-link").symlink_to("precious")
    with start_scratch():
        pass
    assert (temporary / "precious").exists()


def test_a_place_that_cannot_be_used_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    with pytest.raises(XdpreproError, match="/nowhere.*: No such file or directory") as raised, start_scratch():
        pass
    assert (raised.value.hint, raised.value.status) == ("set TMPDIR", STORAGE)
