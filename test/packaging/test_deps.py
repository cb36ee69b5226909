#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""scripts/deps.sh: what it installs, its question at a terminal, and its message on systems without Debian packages.
Stand-ins for apt-get and dpkg-query record how they were called; nothing is installed."""
import os
import pty
import shutil
import subprocess
import sys
import tempfile

from rig import case, main

SOURCE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
DEPS = os.path.join(SOURCE, "scripts", "deps.sh")
TOOLS = ("sh", "cat", "grep", "id", "mktemp", "rm")  # the commands that the script calls
HANG = 60  # seconds


class Place:
    """
    A folder for PATH with the commands that the script calls, stand-ins for Debian's tools if asked for, and nothing
    else.
    """

    def __init__(self, debian=True, installed=()):
        self.dir = tempfile.mkdtemp(prefix="rnic-test-")
        self.log = os.path.join(self.dir, "log")
        for tool in TOOLS:
            os.symlink(shutil.which(tool), os.path.join(self.dir, tool))
        if debian:
            self.put("apt-get", f'echo "$@" >>{self.log}')
            names = "|".join(installed) or "-"
            self.put("dpkg-query", f'case "$4" in {names}) echo "install ok installed" ;; *) exit 1 ;; esac')
        self.put("id", "echo 0")

    def put(self, name, body):
        path = os.path.join(self.dir, name)
        if os.path.lexists(path):
            os.unlink(path)
        with open(path, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)

    def run(self, *groups):
        return subprocess.run(["/bin/sh", DEPS, *groups], env={"PATH": self.dir}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=HANG, check=False)

    def at_terminal(self, answer, *groups):
        """Runs the script; returns (exit status, what the terminal shows)."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(["/bin/sh", DEPS, *groups], env={"PATH": self.dir}, stdin=theirs, stdout=theirs,
                              stderr=theirs, start_new_session=True) as p:
            os.close(theirs)
            os.write(ours, answer.encode())
            shown = b""
            try:
                while more := os.read(ours, 4096):
                    shown += more
            except OSError:  # Linux reports in this way that the other side is closed
                pass
            status = p.wait(HANG)
        os.close(ours)
        return status, shown.decode()

    def installs(self):
        if not os.path.exists(self.log):
            return []
        with open(self.log, encoding="ascii") as f:
            return [line for line in f if " install " in line]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.dir)


@case
def what_is_missing_is_named_and_installed():
    with Place(installed=("gcc", "meson")) as place:
        p = place.run("build")
        assert p.returncode == 0 and p.stdout.startswith("deps: installing libc6-dev "), p
        assert len(place.installs()) == 1 and " libdpdk-dev " in place.installs()[0], place.installs()
        assert " gcc " not in place.installs()[0] and " meson " not in place.installs()[0], place.installs()


@case
def at_a_terminal_nothing_is_installed_without_a_yes():
    for answer, status, installs in (("n\n", 1, 0), ("No\n", 1, 0), ("y\n", 0, 1), ("\n", 0, 1)):
        with Place() as place:
            said = place.at_terminal(answer, "build")
            assert said[0] == status and len(place.installs()) == installs, (answer, said, place.installs())
            assert "these packages are missing: gcc " in said[1] and "[Y/n]" in said[1], said
            assert ("nothing was installed" in said[1]) == (status == 1), said


@case
def an_ordinary_user_is_told_the_packages():
    with Place() as place:
        place.put("id", "echo 1000")
        p = place.run("build")
        assert p.returncode == 1 and "not root, and these packages are missing: gcc " in p.stderr, p
        assert place.installs() == []


@case
def where_there_are_no_debian_packages_what_is_missing_is_said():
    with Place(debian=False) as place:
        for program in ("cc", "meson", "ninja", "python3"):
            place.put(program, "")
        place.put("pkg-config", 'case "$2" in numa|libdpdk) exit 1 ;; esac')
        p = place.run("build")
        assert p.returncode == 1 and p.stderr.endswith("yourself: libdpdk numa\n"), p
        place.put("pkg-config", "")
        assert place.run("build").returncode == 0


if __name__ == "__main__":
    sys.exit(main())
