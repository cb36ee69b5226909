#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
Ceph with its messages over RDMA: a monitor, an object store in memory and rados as client, each a process of its own
under rnicrun. With type = ib Ceph exchanges numbers and addresses of queue pairs over a TCP connection of its own; with
type = iwarp it connects by rdma_cm.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from programs import A, B, on_device, on_host, own_network
from rig import PATIENCE, RNICRUN, Daemon, case, main, need, pair_conf, until

FSID, OSD = "0f5c1f0e-6c4b-4d5a-9a7e-000000000001", "5e1c9f6e-6c4b-4d5a-9a7e-000000000002"
# With version 2 of Ceph's protocol a command waits until it has the monitors' map. With version 1 a command may be sent
# without the map, also over plain TCP: it then names no cluster, and the monitor answers EPERM ("wrong fsid").
MON = f"v2:{A}:3300"
PLUGINS = "/usr/lib/x86_64-linux-gnu/ceph"
CONF = """
[global]
fsid = {fsid}
mon initial members = a
mon host = {mon}
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
osd objectstore = memstore
memstore device bytes = 2147483648
mon data avail crit = 0
ms type = async+rdma
ms cluster type = async+rdma
ms public type = async+rdma
ms async rdma device name = {device}
ms async rdma send buffers = 1024
{connections}
run dir = {dir}
admin socket = {dir}/$name.asok
log file = {dir}/$name.log
mon cluster log file = {dir}/cluster.log
mon data = {dir}/mon
osd data = {dir}/osd
erasure code dir = {plugins}/erasure-code
plugin dir = {plugins}
osd class dir = /usr/lib/rados-classes
"""


OUT_OF_BAND = """
ms async rdma type = ib
ms async rdma receive buffers = 1024
ms async rdma receive queue len = 512
ms async rdma buffer size = 65536
"""
# Without a shared receive queue each connection posts receives of its own. When Ceph's pool of buffers is exhausted it
# posts more receives than the queue has room for, and aborts.
BY_CM = """
ms async rdma type = iwarp
ms async rdma cm = true
ms async rdma support srq = false
ms async rdma receive buffers = 4096
ms async rdma receive queue len = 128
ms async rdma buffer size = 16384
"""


class Cluster:
    def __init__(self, d, cm):
        self.d = d
        # with rdma_cm each process uses only the device that it names
        store, listens = (A, on_device) if cm else (B, on_host)
        self.conf = os.path.join(d.dir, "ceph.conf")
        with open(self.conf, "w", encoding="ascii") as f:
            f.write(CONF.format(fsid=FSID, mon=MON, device="a", dir=d.dir, plugins=PLUGINS,
                                connections=BY_CM if cm else OUT_OF_BAND))
        for name in ("mon", "osd"):
            os.mkdir(os.path.join(d.dir, name))
        subprocess.run(["monmaptool", "--create", "--addv", "a", f"[{MON}]", "--fsid", FSID, d.dir + "/monmap"],
                       check=True, capture_output=True)
        self("ceph-mon", "--mkfs", "-i", "a", "--monmap", d.dir + "/monmap")
        self.mon = self.start("ceph-mon", "-f", "-i", "a", "--public-addr", MON)
        until(lambda: self.mon.p.poll() is not None or listens(3300)(d), self.mon.tail)
        assert self.mon.p.poll() is None, self.mon.tail()
        self("ceph", "osd", "new", OSD)
        self("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", OSD)
        self.osd = self.start("ceph-osd", "-f", "-i", "0", "--public-addr", store, "--cluster-addr", store)
        until(lambda: "1 up" in self("ceph", "osd", "stat"), self.osd.tail)
        self("ceph", "osd", "pool", "create", "pool", "8")

    def start(self, *argv):
        return self.d.run(RNICRUN, *argv, "-c", self.conf, RNIC_REG_VERBOSE="0")

    def __call__(self, *argv):
        return self.start(*argv).ok(PATIENCE)

    def stop(self):
        self.osd.stop()
        self.mon.stop()


# Ceph sends without flow control: on a busy machine it sends more messages than the receiver has posted receives.
IWARP = "personality = iwarp\nrnr = wait"


def stores(port, cm=False, rnicd=""):
    need("ceph-mon")
    own_network()
    data = os.urandom(9 << 20)
    with Daemon(pair_conf(9000, rnicd=rnicd, both=port)) as d:
        c = Cluster(d, cm)
        with open(d.dir + "/object", "wb") as f:
            f.write(data)
        c("rados", "-p", "pool", "put", "object", d.dir + "/object")
        c("rados", "-p", "pool", "get", "object", d.dir + "/back")
        with open(d.dir + "/back", "rb") as f:
            assert f.read() == data, "the object has other bytes"
        out = c("rados", "-p", "pool", "bench", "3", "write", "-b", "16384", "-t", "8", "--no-cleanup")
        assert int(re.search(r"Total writes made: +(\d+)", out).group(1)) > 0, out
        out = c("rados", "-p", "pool", "bench", "3", "seq", "-t", "8")  # rados compares the data that it reads
        assert int(re.search(r"Total reads made: +(\d+)", out).group(1)) > 0, out
        assert d.telemetry("/rnic/counters")["bytes_placed"] > 2 * len(data)
        c.stop()


@case
def objects_as_over_a_roce_adapter():
    stores("personality = roce")


@case
def objects_over_iwarp():
    stores(IWARP)


@case
def objects_over_rdma_cm():
    stores(IWARP, cm=True, rnicd="own-address = port")


if __name__ == "__main__":
    sys.exit(main())
