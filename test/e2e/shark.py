# SPDX-License-Identifier: BSD-3-Clause
"""
tshark with dissectors for the protocols of this project only. tshark guesses what a TCP stream carries from its port
numbers and payload; a random port (57000 belongs to IRC) or a test pattern may then be dissected as another protocol
and hide MPA.
"""
import atexit
import os
import shutil
import subprocess
import tempfile

SEEN = {"frame", "file-pcapng", "pcapng", "eth", "ethertype", "vlan", "arp", "ip", "igmp", "icmp", "ipv6", "icmpv6", "tcp", "udp", "data",
        "iwarp_mpa", "iwarp_ddp_rdmap"}
world = {}


def environment():
    """The environment variables with which tshark has all other protocols switched off."""
    if "env" not in world:
        home = tempfile.mkdtemp(prefix="rnic-shark-")
        atexit.register(shutil.rmtree, home, ignore_errors=True)
        known = subprocess.run(["tshark", "-G", "protocols"], check=True, text=True, capture_output=True, timeout=60).stdout
        names = {line.split("\t")[2] for line in known.splitlines()}
        assert SEEN <= names, f"tshark does not know {SEEN - names}"
        with open(os.path.join(home, "disabled_protos"), "w") as f:
            f.writelines(name + "\n" for name in sorted(names - SEEN))
        world["env"] = dict(os.environ, WIRESHARK_CONFIG_DIR=home)
    return world["env"]


def shark(path, *args, timeout=300):
    """What `tshark -r path args` prints."""
    return subprocess.run(["tshark", "-r", path, *args], check=True, text=True, capture_output=True, timeout=timeout,
                          env=environment()).stdout


def fields(path, *names, of="frame", options=()):
    """The values of these fields: a list for each frame that has field `of`; "" where the frame lacks a field."""
    out = shark(path, *options, "-Y", of, "-T", "fields", *[a for n in names for a in ("-e", n)])
    return [line.split("\t") for line in out.splitlines()]
