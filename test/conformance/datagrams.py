#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""
An executable conformance suite for reliable datagrams: a case for each rule of doc/datagram-iwarp.md, chapters
"Reliable transport" (rd_flows.py) and "Reliable datagrams" (rd_pairs.py, rd_loose.py), against a peer of our own making
(../e2e/wire_rd.py) that was written from the document. A packet that breaks a rule is dropped and counted, or refused,
and moves nothing.

usage: datagrams.py [CASE ...]
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
# pylint: disable=wrong-import-position,unused-import
import rd_flows
import rd_loose
import rd_pairs
from wire_world import run

run()
