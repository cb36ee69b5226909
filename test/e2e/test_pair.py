#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The main task: one daemon, two wired ports, real client processes."""
import os
import re
import signal
import sys
import time

from rig import PATIENCE, TESTPMD, Daemon, Process, Soak, case, example, main, moves, need, pair_conf, until
import wire_check
from shark import shark

ADDR = "10.77.0.1"


def exchange(d, *client, server=()):
    """Runs a testpmd-rdma server on port a and one client on port b; returns the client's stdout."""
    s = d.run(TESTPMD, "-s", "-a", ADDR, "--once", *server)
    s.wait_line("listening")
    c = d.run(TESTPMD, *client, ADDR)
    out = c.ok()
    s.ok()
    return out


def soak(d, *args):
    out = exchange(d, "--mode", "soak", *args)
    assert re.search(r"verified", out), out


@case
def hello():
    with Daemon(pair_conf()) as d:
        s = d.run(example("hello"), "-s", ADDR)
        s.wait_line("listening")
        c = d.run(example("hello"), ADDR)
        c.ok()
        s.ok()


@case
def onesided_write_and_read():
    with Daemon(pair_conf()) as d:
        s = d.run(example("onesided"), "-s", ADDR)
        s.wait_line("listening")
        d.run(example("onesided"), ADDR).ok()
        s.ok()


@case
def key_value_get_over_read():
    with Daemon(pair_conf()) as d:
        s = d.run(example("kvget"), "-s", ADDR)
        s.wait_line("listening")
        out = d.run(example("kvget"), ADDR, "apple").ok()
        assert out.strip(), "no value"
        s.stop()


@case
def every_mode_at_several_sizes():
    with Daemon(pair_conf()) as d:
        for mode in ("write_bw", "read_bw", "send_bw", "write_lat", "read_lat", "send_lat"):
            exchange(d, "--mode", mode, "--sizes", "1,8,64,1460,4096,64k,1m", "--iters", "200")


@case
def verified_soak_mtu_1500():
    with Daemon(pair_conf()) as d:
        soak(d, "--iters", "2000")


@case
def verified_soak_mtu_9000():
    with Daemon(pair_conf(mtu=9000)) as d:
        soak(d, "--iters", "2000")


@case
def verified_soak_of_the_largest_mtu():
    with Daemon(pair_conf(mtu=65280)) as d:
        soak(d, "--iters", "300")
    bad = "crc = always\nmarkers = on\nloss = 0.5%\nreorder = 0.5%\ncorrupt = 0.2%"
    with Daemon(pair_conf(mtu=65280, both=bad)) as d:
        soak(d, "--iters", "100")


@case
def bulk_goes_past_the_caches_and_conversation_does_not():
    """Data written past the caches is compared: by soak as each message completes, by the other modes at the end."""
    with Daemon(pair_conf(mtu=9000)) as d:
        exchange(d, "--mode", "write_lat,send_lat", "--sizes", "64k", "--iters", "200")
        assert d.telemetry("/rnic/counters")["bytes_streamed"] == 0
        for mode in ("write_bw", "read_bw", "send_bw", "send_bw --touch"):
            before = d.telemetry("/rnic/counters")["bytes_streamed"]
            exchange(d, "--mode", *mode.split(), "--sizes", "64k", "--buffers", "64", "--iters", "2000")
            assert d.telemetry("/rnic/counters")["bytes_streamed"] - before > 10 << 20, mode
        before = d.telemetry("/rnic/counters")["bytes_streamed"]
        soak(d, "--sizes", "64k", "--depth", "64", "--qps", "4", "--iters", "2000")
        assert d.telemetry("/rnic/counters")["bytes_streamed"] > before


@case
def verified_soak_without_crc():
    with Daemon(pair_conf(both="crc = off")) as d:
        soak(d, "--iters", "2000")


@case
def verified_soak_with_markers():
    with Daemon(pair_conf(both="markers = on")) as d:
        soak(d, "--iters", "2000")


@case
def verified_soak_where_the_sides_differ():
    """CRC requested by one side only is used by both; markers go only to the side that requested them."""
    for a, b in (("crc = on", "crc = off"), ("crc = off", "crc = on"), ("markers = on", ""), ("", "markers = on")):
        with Daemon(pair_conf(a=a, b=b)) as d:
            soak(d, "--iters", "500")


@case
def more_active_qps_than_working_memory():
    """More connections are busy at once than the daemon has blocks of working memory: they take turns and all
    finish."""
    with Daemon(pair_conf()) as d:
        exchange(d, "--mode", "write_bw", "--qps", "768", "--depth", "64", "--sizes", "64", "--iters", "20000")


@case
def verified_soak_over_a_bad_wire():
    """1 % loss, reordering, duplication and corruption on both ports: slower, never wrong."""
    bad = "loss = 1%\nreorder = 1%\nduplicate = 1%\ncorrupt = 0.2%\nseed = 7"
    with Daemon(pair_conf(both=bad)) as d:
        soak(d, "--iters", "1000")
    with Daemon(pair_conf(mtu=9000, both=bad + "\nmarkers = on")) as d:
        soak(d, "--iters", "1000")


@case
def verified_soak_with_bbr_over_a_bad_wire():
    """The delay is so long that whole windows of segments arrive behind a missing one. These segments are kept, and
    those of an open Send or Read are placed."""
    bad = "loss = 1%\nreorder = 1%\nduplicate = 1%\ncorrupt = 0.2%\ndelay = 500us\nseed = 7\ncongestion = bbr"
    with Daemon(pair_conf(both=bad)) as d:
        soak(d, "--iters", "500")
        for mode in "write_bw", "send_bw", "read_bw":
            before = d.telemetry("/rnic/counters")
            exchange(d, "--mode", mode, "--sizes", "64k", "--iters", "2000")
            after = d.telemetry("/rnic/counters")
            assert after["hold_drops"] == 0, after
            assert mode == "write_bw" or after["ooo_placed"] - before["ooo_placed"] > 50, (mode, before, after)


@case
def verified_soak_without_hugepages():
    with Daemon(pair_conf().replace("hugepages = auto", "hugepages = no")) as d:
        soak(d, "--iters", "500")


@case
def several_qps_and_events():
    with Daemon(pair_conf()) as d:
        exchange(d, "--mode", "write_bw", "--qps", "16", "--sizes", "64,64k", "--iters", "500")
        exchange(d, "--mode", "send_lat", "--events", "--sizes", "64", "--iters", "200")
        exchange(d, "--mode", "send_bw", "--events", "--sizes", "4096", "--iters", "500")


@case
def wire_decodes_outside():
    for both, markers, crc in (("", False, True), ("markers = on", True, True), ("crc = off", False, False)):
        for mtu in (1500, 9000, 65280):
            conns, told = capture_run(both, mtu, ("--mode", "soak", "--iters", "60"))
            what = f"{both or 'default'}, mtu {mtu}"
            assert conns, f"no MPA connection in the capture ({what})"
            assert sum(c.fpdus for c in conns) > 100, f"{what}: {[str(c) for c in conns]}"
            assert (sum(c.markers for c in conns) > 0) == markers, what
            assert (sum(c.crc_good for c in conns) > 0) == crc, what
            if markers:
                # tshark loses its place in a stream where an FPDU ends just before a marker, and where two FPDUs share
                # a segment. The streams are short here, so most have no such place. Which ones have depends on the
                # machine: a peer that is silent for long gets zero-length Writes, which move all later FPDUs.
                _, told = capture_run(both, mtu, ("--mode", "send_lat", "--sizes", "1,64,500,1000,1400", "--iters", "50",
                                                   "--warmup", "0"), plain=True)
            assert "Malformed" not in told, f"tshark found a malformed frame ({what})"
            assert "Bad CRC" not in told, f"tshark found a bad CRC ({what})"
            if crc:
                assert told.count("Good CRC32") > 100, f"tshark checked no CRC ({what})"


def capture_run(both, mtu, args, plain=False):
    """The connections of a run as wire_check sees them, and what tshark says: with `plain`, of those only whose streams
    have no place where tshark loses its own."""
    need("tshark")
    # The capture keeps 1,024 frames for its writer. When the writer waits longer for a CPU, frames are missing and
    # counted. The line rate gives the writer time: where it is too high for this machine, the next try gives four times
    # as much time.
    for rate in ("100M", "25M", "6M"):
        d = Daemon(pair_conf(mtu=mtu, both=f"{both}\nrate = {rate}", a="capture = {dir}/a.pcapng"))
        try:
            exchange(d, *args)
            whole = d.telemetry("/rnic/ports,a")["capture_drops"] == 0
            d.end()
            if not whole:
                continue
            path = os.path.join(d.dir, "a.pcapng")
            conns = [c for c in wire_check.check(path, checksums=False) if c.rep]
            ports = [c.key.split("->")[0] for c in conns if not c.awkward]
            if ports or not plain:
                which = ("-Y", f"tcp.port in {{{','.join(ports)}}}") if plain else ()
                return conns, shark(path, "-o", "tcp.check_checksum:FALSE", "-V", *which)
        finally:
            d.close()
    raise AssertionError("all captures have holes, even at 6 Mbit/s" + " or awkward places in each stream" * plain)


@case
def no_system_call_on_post_and_poll():
    """Ten times as many messages must not make more system calls. sched_yield, with which the client gives up the CPU,
    is not counted."""
    need("strace")

    def calls(d, iters):
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        log = os.path.join(d.dir, f"strace.{iters}")
        c = d.run("strace", "-f", "-o", log, TESTPMD, "--mode", "write_bw", "--sizes", "64", "--iters", str(iters),
                  "--warmup", "0", "--depth", "64", ADDR)
        c.ok()
        s.ok()
        return sum(1 for line in open(log, encoding="utf-8", errors="replace")
                   if not re.search(r"sched_yield|resumed>|exited with|^\d+ ---", line))

    with Daemon(pair_conf(rnicd="poll = busy")) as d:
        few, many = calls(d, 2000), calls(d, 20000)
        assert many <= few + 100, f"2,000 writes took {few} system calls, 20,000 took {many}"


@case
def two_clients_share_a_port():
    with Daemon(pair_conf()) as d:
        servers = [d.run(TESTPMD, "-s", "-a", ADDR, "-p", str(7000 + i), "--once") for i in range(2)]
        for s in servers:
            s.wait_line("listening")
        clients = [d.run(TESTPMD, "--mode", "soak", "--iters", "500", "-p", str(7000 + i), ADDR) for i in range(2)]
        for p in clients + servers:
            p.ok()


@case
def killed_client_leaves_nothing_and_disturbs_nobody():
    with Daemon(pair_conf()) as d:
        before = len(d.telemetry("/rnic/clients"))
        s1 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7001", "--once")
        s2 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7002", "--once")
        s1.wait_line("listening")
        s2.wait_line("listening")
        bystander = Soak(d, ADDR, 7001)
        for round_ in range(4):
            victim = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "64k", "--seconds", "600", "-p", "7002", ADDR)
            moves(d, 7002)
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
            s2.wait()  # its peer sees the connection end and ends too
            s2 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7002", "--once")
            s2.wait_line("listening")
        bystander.end()
        s1.ok()
        s2.stop(signal.SIGKILL)
        until(lambda: len(d.telemetry("/rnic/clients")) == before, lambda: d.telemetry("/rnic/clients"))
        until(lambda: not d.telemetry("/rnic/qps"), lambda: d.telemetry("/rnic/qps"))


@case
def stopped_client_does_not_stop_others():
    """A client that is stopped (SIGSTOP) holds up only itself and its peer."""
    with Daemon(pair_conf()) as d:
        s1 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7001", "--once")
        s2 = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7002", "--once")
        s1.wait_line("listening")
        s2.wait_line("listening")
        frozen = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "4k", "--seconds", "600", "-p", "7002", ADDR)
        moves(d, 7002)
        os.kill(frozen.pid, signal.SIGSTOP)
        d.run(TESTPMD, "--mode", "soak", "--iters", "500", "-p", "7001", ADDR).ok()
        s1.ok()
        os.kill(frozen.pid, signal.SIGKILL)
        frozen.wait()
        s2.wait()


@case
def two_daemons_on_one_machine():
    with Daemon(pair_conf()) as d1, Daemon(pair_conf()) as d2:
        for d in (d1, d2):
            soak(d, "--iters", "200")


@case
def daemon_ends_under_load():
    """After SIGTERM the daemon ends in order while clients are busy; the clients get errors and end by themselves."""
    d = Daemon(pair_conf())
    try:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "-p", "7001", "--once")
        s.wait_line("listening")
        c = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "64k", "--seconds", "600", "-p", "7001", ADDR)
        moves(d, 7001)
        d.end()
        assert c.wait() not in (0, -signal.SIGSEGV), c.tail()
        assert s.wait() not in (0, -signal.SIGSEGV), s.tail()
    finally:
        d.close()


@case
def telemetry_answers():
    with Daemon(pair_conf(rnicd="stage-cycles = yes")) as d:
        s = d.run(TESTPMD, "-s", "-a", ADDR, "--once")
        s.wait_line("listening")
        c = d.run(TESTPMD, "--mode", "write_bw", "--sizes", "4k", "--seconds", "3", ADDR)
        end = time.monotonic() + PATIENCE
        while not d.telemetry("/rnic/conns") and time.monotonic() < end:
            time.sleep(0.05)
        for command in ("/rnic/ports", "/rnic/clients", "/rnic/qps", "/rnic/conns", "/rnic/counters", "/rnic/workers"):
            assert d.telemetry(command), f"{command} is empty"
        c.ok()
        worker = d.telemetry("/rnic/workers,0")
        for stage in ("receive", "send", "ports", "idle"):
            assert worker[f"cycles_{stage}"] > 0, worker
        assert d.telemetry("/rnic/workers,7") is None
        s.ok()


@case
def client_without_daemon_is_told():
    p = Process([TESTPMD, "10.77.0.1"], env=dict(os.environ, RNICD_SOCKET="/nonexistent/rnicd.sock"))
    assert p.wait() != 0
    assert "rnicd" in p.stderr() and "/nonexistent/rnicd.sock" in p.stderr(), p.stderr()


if __name__ == "__main__":
    sys.exit(main())
