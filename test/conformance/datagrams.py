#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An executable conformance suite for datagrams: a case for each rule of doc/datagram-iwarp.md, about unreliable ones
(ud_sends.py, ud_records.py, ud_frags.py, ud_sidr.py) and the chapters "Reliable transport" (rd_flows.py, rd_workers.py,
rd_crowd.py) and "Reliable datagrams" (rd_pairs.py, rd_loose.py, rd_wide.py, rd_packs.py), against peers of our own
making (ud_scene.py, ../e2e/wire_ud.py, ../e2e/wire_rd.py) that were written from the document. A packet that breaks a
rule is dropped and counted, or refused, and moves nothing.
test/udp/test_document.py compares the document's rules with the cases.

usage: datagrams.py [CASE ...]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
# pylint: disable=wrong-import-position,unused-import
import rd_crowd
import rd_flows
import rd_loose
import rd_packs
import rd_pairs
import rd_wide
import rd_workers
import ud_frags
import ud_records
import ud_sends
import ud_sidr
from wire_world import run

run()
