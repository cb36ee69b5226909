#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
rnicrun --with-daemon: one command runs a program and a private rnicd. Nothing is left behind however the command ends.
"""
import contextlib
import fcntl
import glob
import os
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import termios
import time

from embedded_rig import serving
from rig import BUILD, PATIENCE, RNICRUN, TESTPMD, Process, Skip, case, main
from sock_rig import CHANGES_USER, python

RNICCTL = os.path.join(BUILD, "app", "rnicctl", "rnicctl")

# Runs a server and a client as a test script does: the server in the background, and the client once the server
# listens.
SCRIPT = f"""
set -e
{shlex.quote(TESTPMD)} -s -a 10.77.0.1 --once > "$0" & server=$!
until grep -q listening "$0"; do kill -0 $server; sleep 0.05; done
{shlex.quote(TESTPMD)} --iters 500 10.77.0.1
wait $server
echo "all done"
"""


def run(*argv, **more):
    return Process([RNICRUN, "--with-daemon", *argv], **more)


def rnicd_of(p):
    """Waits for the daemon that rnicrun has started; returns its process number."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
            for child in f.read().split():
                try:
                    with open(f"/proc/{child}/comm", encoding="ascii") as c:
                        if c.read().strip() == "rnicd":
                            return int(child)
                except OSError:
                    pass
        time.sleep(0.01)
    raise AssertionError(f"rnicrun started no rnicd:\n{p.tail()}")


def gone(pid):
    end = time.monotonic() + PATIENCE
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            if f.read().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        time.sleep(0.01)
    return not os.path.exists(f"/proc/{pid}")


def folder_of(p):
    """The folder of the private daemon's socket, as the program sees it."""
    return os.path.dirname(p.wait_line("rnicd.sock"))


@case
def a_script_runs_over_a_private_daemon():
    p = run("sh", "-c", SCRIPT, f"/tmp/rnic-companion-{os.getpid()}")
    try:
        assert "all done" in p.ok(), p.tail()
    finally:
        os.unlink(f"/tmp/rnic-companion-{os.getpid()}")


@case
def daemon_and_folder_are_gone_afterwards_and_the_exit_status_is_the_programs():
    for script, status in (("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)):
        p = run("sh", "-c", "echo $RNICD_SOCKET; read line; " + script)
        pid = rnicd_of(p)
        folder = folder_of(p)
        p.p.stdin.write("\n")
        p.p.stdin.flush()
        assert p.wait() == status, p.tail()
        assert not os.path.exists(folder) and gone(pid), folder


def said_by_rnicd(p):
    """
    rnicrun's sentence about the daemon's log, and the lines behind it without those on a busy machine, on which the
    daemon's worker waits for its CPU.
    """
    lines = p.stderr()[p.stderr().index("rnicrun: "):].splitlines()
    return [line for line in lines if not re.match(r"rnicd: (warning: )?worker \d+, \d+ ms: ", line)]


@case
def what_rnicd_logs_is_printed_if_the_program_fails():
    rnicctl = shlex.quote(RNICCTL)
    for end, status in (("exit 7", 7), ("kill -TERM $$", 128 + signal.SIGTERM)):
        p = run("sh", "-c", f"{rnicctl} set port rnic0 loss=1%; echo mine >&2; {end}")
        assert p.wait() == status, p.tail()
        assert p.stderr().startswith("mine\n"), p.tail()
        assert said_by_rnicd(p) == [
            f"rnicrun: the program ended with status {status}; the private rnicd logged meanwhile:",
            "rnicd: reload: port rnic0: rate and impairment"], p.tail()
    p = run("sh", "-c", f"{rnicctl} set port rnic0 loss=1%")
    p.ok()
    assert not p.stderr(), p.tail()
    p = run("sh", "-c", f"{rnicctl} set log-level error; exit 1")  # so rnicd logs nothing
    assert p.wait() == 1 and not p.stderr(), p.tail()


@case
def of_a_long_log_the_end_is_printed():
    for lines, count in ((64, "the private rnicd logged meanwhile:"),
                         (65, "the last 64 of the 65 lines that the private rnicd logged meanwhile:")):
        p = run("sh", "-c", '"$0" set log-level error; seq $1 >> "${RNICD_SOCKET%/*}/log"; exit 3', RNICCTL,
                str(lines))
        assert p.wait() == 3, p.tail()
        assert said_by_rnicd(p) == [f"rnicrun: the program ended with status 3; {count}",
                                    *map(str, range(lines - 63, lines + 1))], p.tail()


@case
def a_signal_goes_on_to_the_program():
    for sig in ("TERM", "HUP", "USR1", "USR2", "ALRM", "WINCH"):
        p = run("sh", "-c", f"trap 'echo told; exit 3' {sig}; echo $RNICD_SOCKET; while :; do sleep 0.05; done")
        folder = folder_of(p)
        p.p.send_signal(getattr(signal, "SIG" + sig))
        assert p.wait() == 3 and "told" in p.stdout(), p.tail()
        assert not os.path.exists(folder)


@case
def a_signal_goes_on_to_a_program_that_has_just_begun():
    # rnicrun's second fork() returns late
    p = Process(["strace", "-qq", "-e", "trace=clone", "-e", "inject=clone:delay_exit=2000000:when=2", RNICRUN,
                 "--with-daemon", "sh", "-c",
                 "trap 'echo told; exit 3' WINCH; echo ready; while :; do sleep 0.05; done"])
    p.wait_line("ready")
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
        os.kill(int(f.read()), signal.SIGWINCH)
    assert p.wait() == 3 and "told" in p.stdout(), p.tail()


@case
def the_exit_status_is_the_programs_also_where_the_end_of_children_is_ignored():
    for how in ("--with-daemon",), ("--embedded", "--sockets"):
        p = Process(["env", "--ignore-signal=CHLD", RNICRUN, *how, *python("""
import signal
print(signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN)
raise SystemExit(5)
""")], env={**os.environ, "RNIC_WIRE": "iwarp"})
        assert p.wait() == 5, p.tail()
        assert p.stdout().strip() == "True", p.tail()
        assert not p.stderr() or len(said_by_rnicd(p)) == 1, p.tail()  # rnicrun's sentence, on a busy machine


# Says how many SIGINTs have come before SIGTERM.
COUNTS = '''
import signal
hits = 0
def hit(*_):
    global hits
    hits += 1
    print("hit", flush=True)
def end(*_):
    print(f"told {hits} times", flush=True)
    raise SystemExit
signal.signal(signal.SIGINT, hit)
signal.signal(signal.SIGTERM, end)
print("program runs", flush=True)
while True:
    signal.pause()
'''


def read_until(fd, text, so_far):
    while text not in so_far:
        assert select.select([fd], [], [], PATIENCE)[0], so_far
        so_far += os.read(fd, 4096).decode()
    return so_far


@case
def an_interrupt_at_the_terminal_reaches_the_program_once():
    ours, theirs = pty.openpty()
    with subprocess.Popen([RNICRUN, "--with-daemon", sys.executable, "-c", COUNTS], stdin=theirs, stdout=theirs,
                          stderr=theirs, start_new_session=True,
                          preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) as p:
        os.close(theirs)
        try:
            read_until(ours, "program runs", "")
            for _ in range(10):
                os.write(ours, b"\x03")
                read_until(ours, "hit", "")
            p.send_signal(signal.SIGTERM)  # rnicrun takes SIGINT, whose number is smaller, before SIGTERM
            said = read_until(ours, "times", "")
            assert "told 10 times" in said, said
            assert p.wait(PATIENCE) == 0, said
        finally:
            p.kill()
            os.close(ours)


@case
def a_signal_before_the_program_runs_leaves_nothing_behind():
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
        signal.signal(sig, signal.SIG_DFL)  # a shell's background process ignores SIGINT and SIGQUIT
        p = run("sh", "-c", "echo the program runs")
        pid = rnicd_of(p)
        os.kill(pid, signal.SIGSTOP)  # so it is not ready yet
        with open(f"/proc/{pid}/cmdline", encoding="ascii") as f:
            argv = f.read().split("\0")
        folder = os.path.dirname(argv[argv.index("--config") + 1])
        p.p.send_signal(sig)
        with contextlib.suppress(ProcessLookupError):  # rnicrun may have killed it by now
            os.kill(pid, signal.SIGCONT)
        assert p.wait() == 128 + sig, p.tail()
        assert not os.path.exists(folder) and gone(pid), folder
        assert "the program runs" not in p.stdout(), p.tail()


@case
def the_daemon_ends_when_rnicrun_is_killed():
    p = run("sh", "-c", "echo $RNICD_SOCKET; exec sleep 600")
    pid, folder = rnicd_of(p), folder_of(p)
    with open(f"/proc/{p.pid}/task/{p.pid}/children", encoding="ascii") as f:
        program = next(int(c) for c in f.read().split() if int(c) != pid)
    p.p.kill()
    p.p.wait()
    os.kill(program, signal.SIGKILL)
    assert gone(pid), "rnicd still runs after its rnicrun has ended"
    for path in glob.glob(folder + "/*"):
        os.unlink(path)
    os.rmdir(folder)


@case
def two_at_once_do_not_see_each_other():
    a, b = (run("sh", "-c", "echo $RNICD_SOCKET; read line") for _ in range(2))
    assert folder_of(a) != folder_of(b)
    for p in (a, b):
        p.p.stdin.write("\n")
        p.p.stdin.flush()
        p.ok()


@case
def rnicrun_notices_the_end_of_its_daemon_without_pidfd_open():
    # without listen() rnicd cannot start
    p = Process(["strace", "-qq", "-f", "-e", "trace=pidfd_open,listen", "-e", "inject=pidfd_open:error=ENOSYS",
                 "-e", "inject=listen:error=EPERM", RNICRUN, "--with-daemon", "true"])
    assert p.wait() == 127 and "ENOSYS" in p.stderr(), p.tail()
    p = Process(["strace", "-qq", "-f", "-e", "trace=pidfd_open", "-e", "inject=pidfd_open:error=ENOSYS", RNICRUN,
                 "--with-daemon", "echo", "the program runs"])
    p.ok()
    assert "the program runs" in p.stdout(), p.tail()


@case
def a_worker_that_changes_its_user_serves_its_parents_listener():
    if os.geteuid() != 0:
        raise Skip("only root's programs can change their user")
    p = run("--sockets", *python(CHANGES_USER, "10.77.0.1"))
    assert p.ok() == "answer of 65534 by wire 1", p.tail()


def devices(*argv, **env):
    p = Process([RNICRUN, *argv], env={**os.environ, "RNICD_SOCKET": "/nonexistent", **env})
    return re.findall(r"^\s+(\S+)\s+[0-9a-f]{16}$", p.ok(), re.M)


@case
def an_option_takes_precedence_over_a_design_in_the_environment():
    inner = 'export "$0"; "$1" --socket "$RNICD_SOCKET" ibv_devices; "$1" --doctor'
    for design in ("RNIC_EMBEDDED=yes", "RNIC_DESIGN=embedded"):
        env = dict([design.split("=")])
        assert devices("--with-daemon", "ibv_devices", **env) == ["rnic0", "rnic1"], design
        assert devices("--with-daemon", "sh", "-c", inner, design, RNICRUN) == ["rnic0", "rnic1"], design
        assert "device rnic0, address" in run("sh", "-c", inner, design, RNICRUN).ok(), design
    assert "rnic-lo" in devices("--embedded", "ibv_devices", RNIC_DESIGN="host")
    assert "rnic-lo" in devices("--socket", "/nonexistent", "ibv_devices", RNIC_EMBEDDED="auto")


def served(script):
    return Process([RNICRUN, "--embedded", "--sockets", "sh", "-c", script], env={**os.environ, "RNIC_WIRE": "iwarp"})


@case
def the_process_that_serves_sockets_is_named_and_what_it_logged():
    name = "the process that serves sockets"
    p = served("echo runs; read line")
    p.wait_line("runs")
    os.kill(serving(p), signal.SIGKILL)
    p.p.stdin.write("\n")
    p.p.stdin.flush()
    p.ok()
    assert p.err == [f"rnicrun: {name} did not end in order"], p.tail()
    p = served('echo "rnicd: out of luck" >> "${RNICD_SOCKET%/*}/log"; exit 3')
    assert p.wait() == 3, p.tail()
    assert p.err == [f"rnicrun: the program ended with status 3; {name} logged meanwhile:",
                     "rnicd: out of luck"], p.tail()


@case
def a_folder_that_cannot_be_filled_is_removed():
    for how, name in ((["--with-daemon"], "the private rnicd"),
                      (["--embedded", "--sockets"], "the process that serves sockets")):
        p = Process(["strace", "-qq", "-e", "trace=mkdir,bind", "-e", "inject=bind:error=ENOSPC", RNICRUN, *how,
                     "true"])
        assert p.wait() == 127 and f"cannot make a folder for {name}" in p.stderr(), p.tail()
        assert "No space left" in p.err[-1], p.tail()
        assert not os.path.exists(re.search(r'mkdir\("(/tmp/rnicrun-[^"]+)"', p.stderr())[1]), p.tail()


@case
def what_cannot_run_is_said():
    p = run("/nowhere/program")
    assert p.wait() == 127 and "/nowhere/program" in p.stderr(), p.tail()
    for args in (("--doctor",), ("--socket", "/x", "true")):
        p = run(*args)
        assert p.wait() == 2 and "--with-daemon cannot be combined with --doctor or --socket" in p.stderr(), p.tail()


main()
