#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Executes statements with DuckDB's library alone, without packrack's bounds: to make files of its kinds.

usage: duck.py STATEMENT...
"""
import ctypes
import os
import sys

class Result(ctypes.Structure):
    _fields_ = [("counts", ctypes.c_uint64 * 3), ("pointers", ctypes.c_void_p * 3)]


def main():
    lib = ctypes.CDLL(os.environ.get("PACKRACK_DUCKDB") or "/usr/local/lib/packrack/libduckdb.so")
    lib.duckdb_result_error.restype = ctypes.c_char_p
    database, connection = ctypes.c_void_p(), ctypes.c_void_p()
    if lib.duckdb_open(None, ctypes.byref(database)) or lib.duckdb_connect(database, ctypes.byref(connection)):
        sys.exit("duck.py: DuckDB does not start")
    for statement in sys.argv[1:]:
        result = Result()
        if lib.duckdb_query(connection, statement.encode(), ctypes.byref(result)):
            sys.exit("duck.py: " + lib.duckdb_result_error(ctypes.byref(result)).decode())


main()
