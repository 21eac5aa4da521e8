# SPDX-License-Identifier: Apache-2.0
"""One class for each thing that a script may want to do about it. str() is one clear line."""


class Error(Exception):
    """Whatever went wrong: all others are kinds of this."""


class Unreachable(Error, ConnectionError):
    """Nobody listens there, nobody answers, or it went away in the middle of an answer."""


class Refused(Error, PermissionError):
    """Keys: ours is not enrolled, its role does not allow this, or the server's is another."""


class RequestError(Error, ValueError):
    """What was asked makes no sense: a time, a link, a limit."""


class FilterError(RequestError):
    """libpcap refuses the filter, and says why."""


class Closed(Error):
    """The rack or the answer was closed before."""
