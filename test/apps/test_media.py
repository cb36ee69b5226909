#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
ffmpeg and VLC stream a generated film over `rnicrun --sockets`: by UDP, RTP and HTTP. The pictures that arrive are
decoded and compared with the film's, one by one.
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

from ends import EACH, LONG, on_each, the_kernel
from rig import case, main, need, until

FILM = 260     # pictures in the film
TAKEN = 250    # pictures that a receiver of an endless stream takes before the receiver ends
SPEED = "2"    # the film is sent at twice its own speed
PORT = 5004
QUIET = ["ffmpeg", "-v", "error", "-nostdin", "-y"]


def film(where, n=FILM):
    """Makes a film of n pictures with a counter, and a tone."""
    subprocess.run([*QUIET, "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25", "-f", "lavfi", "-i", "sine",
                    "-frames:v", str(n), "-shortest", "-c:v", "mpeg2video", "-g", "12", "-c:a", "mp2", "-f", "mpegts",
                    where + "/film.ts"], check=True, timeout=LONG)
    os.chmod(where, 0o777)


def pictures(path):
    """The sums of the decoded pictures."""
    decode = [*QUIET, "-i", path, "-map", "0:v", "-fps_mode", "passthrough", "-f", "framemd5", "-"]
    out = subprocess.run(decode, check=False, capture_output=True, text=True, timeout=LONG).stdout
    return [line.split()[-1] for line in out.splitlines() if not line.startswith("#")]


def is_part(some, whole):
    """A receiver that looks for the format first may miss the first pictures, but none in the middle."""
    return any(whole[i:i + len(some)] == some for i in range(len(whole) - len(some) + 1))


def sent_as(kind, more=""):
    def run(e, where):
        film(where)
        url = f"{kind}://{e.at}:{PORT}"
        r = e.server(*QUIET, "-i", url, "-map", "0:v", "-frames:v", str(TAKEN), "-c", "copy", "-f", "mpegts",
                     where + "/got.ts")
        e.serves(PORT)
        e.client(*QUIET, "-readrate", SPEED, "-i", where + "/film.ts", "-c", "copy", "-f",
                 "mpegts" if kind == "udp" else "rtp_mpegts", url + more).ok(LONG)
        r.ok(LONG)
        got, want = pictures(where + "/got.ts"), pictures(where + "/film.ts")
        assert len(got) > TAKEN - 25 and is_part(got, want), f"{len(got)} pictures are not the film's"
    return run


@case
def ffmpeg_streams_a_film_by_udp():
    need("ffmpeg")
    on_each(sent_as("udp", "?pkt_size=1316"))


@case
def ffmpeg_streams_a_film_by_rtp():
    need("ffmpeg")
    on_each(sent_as("rtp"))


def by_http(e, where):
    film(where)
    s = e.server(*QUIET, "-i", where + "/film.ts", "-c", "copy", "-f", "mpegts", "-listen", "1",
                 f"http://{e.at}:8080/film")
    e.serves(8080)
    e.client(*QUIET, "-i", f"http://{e.at}:8080/film", "-c", "copy", "-f", "mpegts", where + "/got.ts").ok(LONG)
    assert pictures(where + "/got.ts") == pictures(where + "/film.ts")
    s.ok()


@case
def ffmpeg_serves_a_film_by_http():
    need("ffmpeg")
    on_each(by_http)


# ---- VLC, which does not run as root ----

VLC_FILM = 1500   # pictures: a minute, so that the film does not end before the receiver has enough of it
VLC_TAKEN = 100   # pictures that must have arrived


def vlc(where, *argv):
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", f"HOME={where}", "cvlc", "-vv", *argv]


def buffering(p):
    """ms that VLC took to fill its buffer; None: it has not yet."""
    m = re.search(r"Stream buffering done \((\d+) ms in (\d+) ms\)", p.stderr())
    return m and int(m[2])


def vlc_streams(kind):
    """Returns the time of the receiver's buffering, in ms."""
    def run(e, where):
        film(where, VLC_FILM)
        sink, source = (f"udp://@{e.at}:{PORT}", f"access=udp,mux=ts,dst={e.at}:{PORT}") if kind == "udp" else (
            f"http://{e.at}:8080/film", f"access=http,mux=ts,dst={e.at}:8080/film")
        send = vlc(where, where + "/film.ts", "--sout", f"#std{{{source}}}")
        take = vlc(where, sink, "--sout", f"#std{{access=file,mux=ts,dst={where}/got.ts}}")
        if kind == "udp":
            r = e.server(*take)
            e.serves(PORT)
            s = e.client(*send)
        else:
            s = e.server(*send)
            e.serves(8080)
            r = e.client(*take)
        want = pictures(where + "/film.ts")
        got = lambda: pictures(where + "/got.ts") if os.path.exists(where + "/got.ts") else []
        until(lambda: len(got()) > VLC_TAKEN, lambda: f"{len(got())} pictures\n{r.tail()}\n{s.tail()}", LONG)
        ms = until(lambda: buffering(r), r.tail)
        r.stop()
        s.stop()
        some = got()[:-1]  # the last one may be cut
        assert is_part(some, want), f"{len(some)} pictures are not the film's"
        times.append(ms)
    times = []
    on_each(run, (*EACH, the_kernel))
    *ours, kernel = times
    print(f"# {kind}: VLC's buffer was full after {ours} ms, over the kernel's sockets after {kernel} ms: "
          f"{', '.join(f'{ms / kernel:.2f}' for ms in ours)} of it")


@case
def vlc_streams_a_film_by_udp():
    need("cvlc")
    vlc_streams("udp")


@case
def vlc_streams_a_film_by_http():
    need("cvlc")
    vlc_streams("http")


if __name__ == "__main__":
    sys.exit(main())
