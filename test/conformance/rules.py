# SPDX-License-Identifier: BSD-3-Clause
"""
Which rules of doc/datagram-iwarp.md a case is about. test/udp/test_document.py reads these marks, and fails when a MUST
of the document has none.
"""


def rule(*_words):
    """Marks a case by words of each rule that it tests. The words stand in one place of the document, around its MUST."""
    return lambda f: f
