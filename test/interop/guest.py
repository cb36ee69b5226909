# SPDX-License-Identifier: BSD-3-Clause
"""
A Linux guest with a siw device, under qemu's emulation, and the network between it and an rnicd: a namespace of this
process's own with a bridge, a tap for the guest and a veth pair whose far end is rnicd's af_packet port. All of it ends
with the process. Commands run in the guest through its agent, over TCP.
"""
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))
from rig import BUILD, PATIENCE, Foreign, Process, Skip  # pylint: disable=wrong-import-position

GUEST, RNIC, HOST = "10.9.0.1", "10.9.0.7", "10.9.0.254"
VETH, FAR, TAP, BRIDGE = "rnic0", "rnic0br", "siw0", "br0"
MAC = "52:54:00:00:09:01"
AGENT_PORT = 9
CLONE_NEWNET = 0x40000000


def sh(*argv):
    p = subprocess.run(argv, text=True, capture_output=True, check=False)
    assert p.returncode == 0, f"{' '.join(argv)}: {p.stderr.strip()}"
    return p.stdout


def possible():
    if os.geteuid() != 0:
        raise Skip("needs root, for a network namespace and a tap")
    if not os.path.exists("/dev/net/tun"):
        raise Skip("there is no /dev/net/tun here")


def network():
    """Moves this process, and all that it will start, into a network namespace of its own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        raise Skip(f"no network namespace is possible here: {os.strerror(ctypes.get_errno())}")
    for knob in ("all", "default"):
        with open(f"/proc/sys/net/ipv6/conf/{knob}/disable_ipv6", "w", encoding="ascii") as f:
            f.write("1")
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", BRIDGE, "type", "bridge", "stp_state", "0", "forward_delay", "0")
    sh("ip", "addr", "add", f"{HOST}/24", "dev", BRIDGE)
    sh("ip", "tuntap", "add", TAP, "mode", "tap")
    sh("ip", "link", "add", VETH, "type", "veth", "peer", "name", FAR)
    for dev in (TAP, FAR):
        sh("ip", "link", "set", dev, "mtu", "9000", "master", BRIDGE, "up")
    for dev in (VETH, FAR):
        # rnicd and siw both verify TCP checksums, so no device between them may leave a checksum to hardware
        sh("ethtool", "-K", dev, "tx", "off", "rx", "off", "tso", "off", "gso", "off", "gro", "off")
    sh("ip", "link", "set", VETH, "mtu", "9000", "up")
    sh("ip", "link", "set", BRIDGE, "mtu", "9000", "up")


def newc(files):
    """Builds a cpio archive of (path, mode, data) entries."""
    out = b""
    for ino, (path, mode, data) in enumerate([*files, ("TRAILER!!!", 0, b"")], 1):
        name = path.encode() + b"\0"
        fields = [ino, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        out += b"070701" + "".join(f"{f:08x}" for f in fields).encode() + name
        out += b"\0" * (-len(out) % 4)
        out += data
        out += b"\0" * (-len(out) % 4)
    return out


class GuestProcess:
    """A command in the guest, with the methods of rig.Process that tests use."""

    def __init__(self, command):
        self.command, self.out, self.code = command, [], None
        self.s = socket.create_connection((GUEST, AGENT_PORT), timeout=PATIENCE)
        self.s.settimeout(None)
        self.s.sendall(command.encode() + b"\n")
        self._thread = threading.Thread(target=self._drain, daemon=True)
        self._thread.start()

    def _drain(self):
        try:
            for line in self.s.makefile(errors="replace"):
                line = line.rstrip("\n")
                if line.startswith("[exit ") and line.endswith("]"):
                    self.code = int(line[6:-1])
                else:
                    self.out.append(line)
        except OSError:
            pass

    def stdout(self):
        return "\n".join(self.out)

    def tail(self, n=25):
        return "\n".join([f"  guest$ {self.command}"] + ["  | " + s for s in self.out[-n:]])

    def wait_line(self, text, timeout=PATIENCE, start=0):
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            ended = not self._thread.is_alive()
            for line in self.out[start:]:
                if text in line:
                    return line
            if ended:
                raise AssertionError(f"the command ended ({self.code}) before printing '{text}':\n{self.tail()}")
            time.sleep(0.01)
        raise AssertionError(f"the command printed no '{text}':\n{self.tail()}")

    def wait(self, timeout=PATIENCE):
        self._thread.join(timeout)
        if self._thread.is_alive():
            self.stop()
            raise AssertionError(f"the command did not end:\n{self.tail()}")
        return self.code

    def ok(self, timeout=PATIENCE):
        rc = self.wait(timeout)
        assert rc == 0, f"the command ended with {rc}:\n{self.tail()}"
        return self.stdout()

    def stop(self):
        """Ends the command's input; if the command does not end by that, the agent kills it."""
        try:
            self.s.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        self._thread.join(10)
        self.s.close()


def built(*names):
    """{name in the guest's /usr/bin: path here} of programs of the build; the endings -verbs and -siw are cut off the
    names."""
    return {os.path.basename(n).removesuffix("-verbs").removesuffix("-siw"): os.path.join(BUILD, n) for n in names}


PEERS = {**built("test/interop/peer-siw", "examples/hello-verbs", "examples/onesided-verbs", "app/testpmd-rdma/testpmd-rdma-verbs"),
         "rstream": "/usr/bin/rstream", "qperf": "/usr/bin/qperf"}


class Guest:
    """Boots the guest. programs: {name in /usr/bin: file here}"""

    def __init__(self, programs=None):
        possible()
        kit = subprocess.run([os.path.join(HERE, "build.sh")], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if kit.returncode == 77:
            raise Skip(kit.stderr.strip().splitlines()[-1])
        assert kit.returncode == 0, f"the guest cannot be built:\n{kit.stderr}"
        kit = kit.stdout.strip().splitlines()[-1]
        network()
        self.dir = tempfile.mkdtemp(prefix="rnic-siw-")
        self.console = os.path.join(self.dir, "console")
        files = {"init": os.path.join(HERE, "init"), "usr/bin/agent": os.path.join(BUILD, "test", "interop", "agent"),
                 **{f"usr/bin/{name}": path for name, path in (PEERS if programs is None else programs).items()}}
        initrd = os.path.join(self.dir, "initrd")
        with open(initrd, "wb") as f:
            with open(os.path.join(kit, "base.cpio"), "rb") as base:
                shutil.copyfileobj(base, f)
            f.write(newc([(name, 0o100755, open(path, "rb").read()) for name, path in files.items()]))
        offloads = "".join(f",{o}=off" for o in (
            "csum", "guest_csum", "gso", "host_tso4", "host_tso6", "host_ufo", "host_ecn", "guest_tso4", "guest_tso6",
            "guest_ufo", "guest_ecn"))
        self.qemu = Process([
            "qemu-system-x86_64", "-M", "q35", "-accel", "tcg,tb-size=128", "-cpu", "max", "-m", "768", "-smp", "1",
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", os.path.join(kit, "vmlinux"), "-initrd", initrd,
            "-append", f"console=ttyS0 quiet panic=-1 mitigations=off nokaslr audit=0 siw.ip={GUEST}/24",
            "-serial", "stdio", "-device", "virtio-rng-pci",
            "-netdev", f"tap,id=n0,ifname={TAP},script=no,downscript=no",
            "-device", f"virtio-net-pci,netdev=n0,mac={MAC},romfile={offloads}"], name="qemu")
        try:
            self.qemu.wait_line("agent ready", 2 * PATIENCE)
        except BaseException:
            self.close()
            raise

    def run(self, command):
        return GuestProcess(command)

    def sh(self, command, timeout=PATIENCE):
        return GuestProcess(command).ok(timeout)

    def listening(self, server):
        """Waits until a command that run() has begun listens by the RDMA connection manager."""
        end, name = time.monotonic() + PATIENCE, f" comm {server.command.split()[0][:15]} "
        while not any(" state LISTEN " in s and name in s for s in self.sh("rdma resource show cm_id").splitlines()):
            assert server.code is None, f"the server ended with {server.code}:\n{server.tail()}"
            assert time.monotonic() < end, f"the server does not listen:\n{server.tail()}"
            time.sleep(0.1)

    def siw(self, **knobs):
        """Sets siw's knobs; knobs that are not named get the values of stock siw."""
        stock = {"mpa_version": 2, "peer_to_peer": 0, "mpa_crc_required": 0, "mpa_crc_strict": 0, "rtr_type": 192}
        self.sh("cd /sys/module/siw/parameters && " +
                " && ".join(f"echo {v} >{k}" for k, v in {**stock, **knobs}.items()))

    def netem(self, spec):
        """
        Impairs the guest's network by tc netem, out and in; "": no impairment. tc is called by its path, since busybox
        has a tc of its own.
        """
        tc, link = "/usr/bin/tc", "/usr/bin/ip link"
        self.sh(f"{tc} qdisc del dev eth0 root; {tc} qdisc del dev eth0 ingress; {link} del ifb1; true")
        if spec:
            self.sh(f"{link} add ifb1 type ifb && {link} set ifb1 mtu 9000 up && {tc} qdisc add dev eth0 ingress && "
                    f"{tc} filter add dev eth0 parent ffff: matchall action mirred egress redirect dev ifb1 && "
                    f"{tc} qdisc add dev ifb1 root netem {spec} && {tc} qdisc add dev eth0 root netem {spec}")

    def refuse(self, heard):
        """
        heard=False: a client does not learn that a port is closed, as behind a firewall. The RST that answers a SYN is
        dropped in both directions; no other RST has the sequence number 0. So a client that connects too early is not
        refused, but repeats its SYN after a second. heard=True: such RSTs pass again.
        """
        tc, rst = "/usr/bin/tc", "match ip protocol 6 0xff match u8 4 4 at 33 match u32 0 0xffffffff at 24"
        self.sh(f"{tc} qdisc del dev eth0 clsact; true" if heard else f"{tc} qdisc add dev eth0 clsact" + "".join(
            f" && {tc} filter add dev eth0 {way} protocol ip u32 {rst} action drop" for way in ("ingress", "egress")))

    def autopsy(self):
        """After a failure: raises Foreign, with the evidence, if siw has crashed the guest's kernel."""
        try:
            bug = self.sh("dmesg | grep -A1 -E 'kernel BUG|Oops:' || true")
        except (AssertionError, OSError) as e:
            last = " / ".join(self.qemu.stdout().splitlines()[-8:])
            ended = self.qemu.p.poll()
            raise Foreign(f"the guest's kernel is gone: {e}, qemu ended: {ended}, console: {last}") from None
        if bug:
            raise Foreign(f"the guest's kernel has died: {' / '.join(bug.splitlines())}")

    def close(self):
        self.qemu.stop()
        shutil.rmtree(self.dir, ignore_errors=True)
