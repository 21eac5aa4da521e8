# SPDX-License-Identifier: Apache-2.0
"""Ask a rack that records every packet.

    import packrack
    with packrack.connect("tcp://192.0.2.10:7100") as rack:
        answer = rack.query("host 198.51.100.7 and tcp port 443", since="10m ago")
        for packet in answer:
            print(packet.time, packet.len, packet.data.hex())
        print(answer.completeness)
"""
from .alerts import Alert
from .answer import Answer, Completeness, Evicted, Missing, NodeAnswer, Search
from .counts import Group, Rate, Stretch, Top
from .errors import Closed, Error, FilterError, Refused, RequestError, Unreachable
from .packet import Packet
from .rack import Link, Node, Rack, connect
from .stage import Stage, run_stages
from .times import TIME_MAX, TIME_MIN, format_time, time_ns
from .volume import volume

__version__ = "0.1.0"
__all__ = [
    "Alert", "Answer", "Closed", "Completeness", "Error", "Evicted", "FilterError", "Group", "Link", "Missing",
    "Node", "NodeAnswer", "Packet", "Rack", "Rate", "Refused", "RequestError", "Search", "Stage", "Stretch", "TIME_MAX",
    "TIME_MIN", "Top", "Unreachable", "connect", "format_time", "run_stages", "time_ns", "volume",
]
