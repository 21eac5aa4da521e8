# SPDX-License-Identifier: Apache-2.0
"""Filters become programs here, by libpcap, where the user sits: names in them resolve here, and
nodes need not parse what people write. The same as indexer/filter/filter.c does for `packrack query`."""
import ctypes
import ctypes.util
import os
import struct
import threading

from . import filter_split
from .errors import Error, FilterError

SNAPLEN = 262144
WHOLE_MAX = 256 << 10       # bytes of text that libpcap is given at a time
INSTRUCTIONS_MAX = 200000   # that a merger takes
STACK_LEAST, STACK_A_BYTE = 1 << 20, 2048
SHORT = 512                 # bytes of text for which any thread's own stack is enough
ETHERNET = 1


class TooMuch(FilterError):
    """For a link type for which it makes sense: its packets would be missing from the answer."""


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte),
                ("k", ctypes.c_uint)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint), ("instructions", ctypes.POINTER(Instruction))]


class Libpcap:
    """Loaded when the first filter is compiled: a script without filters needs none."""
    lock = threading.Lock()
    loaded = None

    def __init__(self):
        name = ctypes.util.find_library("pcap") or "libpcap.so.0.8"
        try:
            lib = ctypes.CDLL(name)
        except OSError as e:
            raise Error("filters need libpcap (libpcap0.8): %s" % e) from None
        lib.pcap_open_offline.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
        lib.pcap_open_offline.restype = ctypes.c_void_p
        lib.pcap_compile.argtypes = [ctypes.c_void_p, ctypes.POINTER(Program), ctypes.c_char_p,
                                     ctypes.c_int, ctypes.c_uint32]
        lib.pcap_geterr.argtypes = [ctypes.c_void_p]
        lib.pcap_geterr.restype = ctypes.c_char_p
        lib.pcap_freecode.argtypes = [ctypes.POINTER(Program)]
        lib.pcap_freecode.restype = None
        lib.pcap_close.argtypes = [ctypes.c_void_p]
        lib.pcap_close.restype = None
        self.lib = lib

    @classmethod
    def get(cls):
        if not cls.loaded:
            cls.loaded = cls()
        return cls.loaded

    def open_as_file(self, linktype):
        """As if the packets came from a trace file: libpcap then refuses what only a live capture
        knows (`inbound` on Ethernet), and what would match nothing here."""
        file = os.memfd_create("filter")
        said = ctypes.create_string_buffer(256)
        try:
            os.write(file, struct.pack("<IHHIIII", 0xA1B2C3D4, 2, 4, 0, 0, SNAPLEN, linktype))
            pcap = self.lib.pcap_open_offline(b"/proc/self/fd/%d" % file, said)
        finally:
            os.close(file)
        if not pcap:
            raise Error("filters for link type %d: %s" % (linktype, said.value.decode("utf-8", "replace")))
        return pcap

    def run(self, pcap, program, text):
        """libpcap calls itself for each jump of a filter: its stack grows with the text."""
        if len(text) <= SHORT and not threading.stack_size():
            return self.lib.pcap_compile(pcap, ctypes.byref(program), text, 1, 0)
        said = []
        before = threading.stack_size(STACK_LEAST + STACK_A_BYTE * (len(text) // 4096 + 1) * 4096)
        try:
            # Netmask 0, as tcpdump -r takes it.
            thread = threading.Thread(target=lambda: said.append(
                self.lib.pcap_compile(pcap, ctypes.byref(program), text, 1, 0)))
            thread.start()
        finally:
            threading.stack_size(before)
        thread.join()
        return said[0]

    def compile(self, linktype, text):
        """Its instructions."""
        if len(text) > WHOLE_MAX:
            raise TooMuch("filter '%.200s': %d bytes are too many, unless as `host A or host B or ...`"
                          % (text.decode("utf-8", "replace"), len(text)))
        pcap = self.open_as_file(linktype)
        program = Program()
        try:
            if self.run(pcap, program, text) < 0:
                raise FilterError("filter '%.200s': %s" % (
                    text.decode("utf-8", "replace"),
                    self.lib.pcap_geterr(pcap).decode("utf-8", "replace")))
            try:
                return [(i.code, i.jt, i.jf, i.k)
                        for i in program.instructions[:program.length]]
            finally:
                self.lib.pcap_freecode(ctypes.byref(program))
        finally:
            self.lib.pcap_close(pcap)


def compile_part(linktype, text, tagged):
    """Its programs: of packets without tags; and, as `vlan` moves all offsets behind it, one for each number of them."""
    lib = Libpcap.get()
    yield lib.compile(linktype, text.encode())
    try:
        for form in ("vlan and (%s)", "vlan and (vlan and (%s))") if tagged else ():
            yield lib.compile(linktype, (form % text).encode())
    except FilterError:  # this link type has no VLANs
        pass


def compile_for(linktype, text, tagged):
    try:
        program = filter_split.join(p for part in filter_split.split(text) for p in compile_part(linktype, part, tagged))
    except FilterError:  # a part alone may be refused, or the whole may say why
        program = None
    program = program or filter_split.join(compile_part(linktype, text, tagged))
    if len(program) > INSTRUCTIONS_MAX:
        raise TooMuch("filter '%.200s' for link type %d: filter of %d instructions: at most %d are taken"
                      % (text, linktype, len(program), INSTRUCTIONS_MAX))
    return program


def compile_filter(text, linktypes, tagged=False):
    """{link type: instructions} of those link types that the text makes sense for; FilterError with
    libpcap's word on the first when for none. {}: no filter. tagged: also packets behind one or two VLAN tags."""
    if not text.strip():
        return {}
    if "\0" in text:
        raise FilterError("filter %r: a NUL byte is no part of a filter" % text)
    programs, first = {}, None
    with Libpcap.lock:
        for linktype in dict.fromkeys(linktypes or (ETHERNET,)):
            try:
                programs[linktype] = compile_for(linktype, text, tagged)
            except TooMuch:
                raise
            except FilterError as e:
                first = first or e
    if not programs:
        raise first
    return programs
