# SPDX-License-Identifier: GPL-2.0-or-later
"""Commands and children, with real ones."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from xdprepro import cmd
from xdprepro.errors import UNAVAILABLE, XdpreproError

# A child that answers each line with the line itself.
ECHO = ["sh", "-c", 'while read -r line; do printf "%s\\n" "$line"; done']


def shell(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_alive(pid: int) -> bool:
    """Not a zombie either."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_run_hands_back_what_the_command_said() -> None:
    result = cmd.run(shell("cat; echo aside >&2; exit 3"), input="in\n", check=False)
    assert (result.status, result.stdout, result.stderr) == (3, "in\n", "aside\n")


def test_run_without_input_gives_none() -> None:
    assert cmd.run(["cat"], timeout_s=10).stdout == ""


def test_a_failing_command_is_an_error_with_its_last_words() -> None:
    with pytest.raises(XdpreproError, match=r"^sh: exit status 4: it broke$"):
        cmd.run(shell("echo first >&2; echo it broke >&2; exit 4"))


def test_a_command_ended_by_a_signal_names_it() -> None:
    with pytest.raises(XdpreproError, match=r"^sh: ended by SIGKILL$"):
        cmd.run(shell("kill -9 $$"))


def test_a_missing_program_is_named() -> None:
    with pytest.raises(XdpreproError, match=r"^xdpt-no-such-program: not found$") as caught:
        cmd.run(["xdpt-no-such-program"])
    assert caught.value.status == UNAVAILABLE


def test_a_file_that_is_no_program_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    with pytest.raises(XdpreproError, match="plain: Permission denied"):
        cmd.run([tmp_path / "plain"])


def test_a_command_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(XdpreproError, match=r"^sh: not done after 0.5 s$"):
        cmd.run(shell(f"echo $$ >{pid_file}; exec sleep 60"), timeout_s=0.5)
    assert not is_alive(int(pid_file.read_text()))


def test_output_that_is_not_text_does_not_break_it() -> None:
    assert cmd.run(["printf", r"\377ok"]).stdout == "�ok"


def test_messages_are_in_english() -> None:
    assert cmd.run(shell("echo $LC_ALL $MORE"), env={"MORE": "x"}).stdout == "C.UTF-8 x\n"


def test_a_namespace_that_is_not_there_is_named() -> None:
    with pytest.raises(XdpreproError, match="no network namespace xdpt-nowhere"):
        cmd.run(["true"], netns="xdpt-nowhere")


@pytest.mark.netns
@pytest.mark.usefixtures("root_user")
def test_commands_and_children_run_in_the_namespace() -> None:
    name = f"xdpt-{os.getpid()}-cmd"
    links = "ip -o link | wc -l | sed 's/.*/{\"links\": &}/'"
    cmd.run(["ip", "netns", "add", name])
    try:
        assert cmd.run(shell(links), netns=name).stdout == '{"links": 1}\n'
        with cmd.start_process(shell(links), netns=name) as child:
            assert child.read(10) == {"links": 1}
    finally:
        cmd.run(["ip", "netns", "del", name])


def test_a_child_answers_line_by_line() -> None:
    with cmd.start_process(ECHO) as child:
        for number in range(3):
            child.send({"n": number, "text": "zwei\nZeilen"})
            assert child.read(10) == {"n": number, "text": "zwei\nZeilen"}


def test_lines_that_came_together_are_read_one_by_one() -> None:
    with cmd.start_process(shell(r'printf "{\"a\": 1}\n{\"a\": 2}\n{\"a\"" && printf ": 3}\n"')) as child:
        assert [child.read(10)["a"] for _ in range(3)] == [1, 2, 3]


def test_no_answer_in_time_is_an_error_and_the_line_is_not_lost() -> None:
    with cmd.start_process(shell('read -r go; echo "{\\"late\\": 1}"; read -r end')) as child:
        begin = time.monotonic()
        with pytest.raises(XdpreproError, match=r"^sh: no answer within 0.2 s$"):
            child.read(0.2)
        assert time.monotonic() - begin >= 0.2
        child.send({})
        assert child.read(10) == {"late": 1}


def test_read_ready_does_not_wait() -> None:
    with cmd.start_process(ECHO) as child:
        assert child.read_ready() is None


def test_read_any_says_who_spoke() -> None:
    with cmd.start_process(ECHO) as quiet, cmd.start_process(ECHO) as loud:
        loud.send({"a": 1})
        assert cmd.read_any({"quiet": quiet, "loud": loud}, 10) == ("loud", {"a": 1})
        assert cmd.read_any({"quiet": quiet, "loud": loud}, 0.05) is None


@pytest.mark.parametrize("line", ["plain words", "[1, 2]", "3", '{"a": '])
def test_a_line_that_is_no_object_is_shown(line: str) -> None:
    with cmd.start_process(["echo", line]) as child, pytest.raises(XdpreproError) as caught:
        child.read(10)
    assert caught.value.message == f"echo: not a JSON object: {line!r}"


def test_a_long_line_that_is_no_object_is_cut() -> None:
    with (
        cmd.start_process(shell("head -c 5000 /dev/zero | tr '\\0' x; echo")) as child,
        pytest.raises(XdpreproError) as caught,
    ):
        child.read(10)
    assert len(caught.value.message) < 300


def test_a_child_that_ends_early_is_an_error_with_its_last_words() -> None:
    with (
        cmd.start_process(shell("echo no such port >&2; exit 1")) as child,
        pytest.raises(XdpreproError, match=r"^sh: exit status 1: no such port$"),
    ):
        child.read(10)


def test_a_child_killed_in_the_middle_of_a_line_is_an_error_that_shows_it() -> None:
    with (
        cmd.start_process(shell("printf '{\"sample\": 1'; kill -9 $$")) as child,
        pytest.raises(XdpreproError, match=r"^sh: ended by SIGKILL in the middle of the line"),
    ):
        child.read(10)


def test_sending_to_a_child_that_is_gone_is_an_error() -> None:
    with cmd.start_process(shell("exit 5")) as child:
        child.wait(10)
        with pytest.raises(XdpreproError, match=r"^sh: exit status 5$"):
            child.send({"cmd": "go"})


def test_much_on_stderr_does_not_hold_the_child_up_and_only_its_end_is_kept() -> None:
    script = "head -c 1000000 /dev/zero | tr '\\0' x >&2; echo the end >&2; echo '{\"done\": true}'"
    with cmd.start_process(shell(script)) as child:
        assert child.read(10) == {"done": True}
        assert child.wait(10) == 0
        assert len(child.stderr) == cmd.STDERR_BYTES
        assert child.stderr.endswith("the end\n")


def test_waiting_for_a_child_that_does_not_end_is_an_error() -> None:
    with cmd.start_process(ECHO) as child, pytest.raises(XdpreproError, match=r"^sh: still running after 0.1 s$"):
        child.wait(0.1)


def test_a_child_is_ended_by_end_of_file(tmp_path: Path) -> None:
    """It gets the time to put things back."""
    script = f"trap 'echo signal >{tmp_path}/how' TERM; cat >/dev/null; echo end of file >{tmp_path}/how"
    with cmd.start_process(shell(script)) as child:
        pass
    assert not is_alive(child.pid)
    assert (tmp_path / "how").read_text() == "end of file\n"


def test_a_child_that_ignores_all_that_can_be_ignored_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmd, "GRACE_S", 0.2)
    with cmd.start_process(shell("trap '' TERM; echo '{}'; while :; do sleep 1; done")) as child:
        child.read(10)
    assert not is_alive(child.pid)


def test_a_child_is_ended_when_the_caller_fails() -> None:
    with pytest.raises(KeyError), cmd.start_process(ECHO) as child:
        raise KeyError
    assert not is_alive(child.pid)


def test_a_child_does_not_hear_the_terminals_ctrl_c() -> None:
    with cmd.start_process(ECHO) as child:
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid != os.getsid(0)


def test_a_child_inherits_no_descriptors(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w"), cmd.start_process(ECHO) as child:
        links = [fd.readlink() for fd in Path(f"/proc/{child.pid}/fd").iterdir()]
    assert not [link for link in links if str(tmp_path) in str(link)]


def test_a_child_ends_when_its_controller_is_killed() -> None:
    """It reads the end of its input, so nothing needs to be set up for it."""
    script = f"from xdprepro import cmd\nwith cmd.start_process({ECHO}) as c: print(c.pid, flush=True); c.read(60)"
    controller = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert controller.stdout is not None
    pid = int(controller.stdout.readline())
    assert is_alive(pid)
    controller.send_signal(signal.SIGKILL)
    controller.wait(10)
    deadline = time.monotonic() + 10
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not is_alive(pid)
