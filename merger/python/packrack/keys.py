# SPDX-License-Identifier: Apache-2.0
"""CURVE keys in files, in the form and with the care of proto/rpc/keys.h."""
import os
import re
import stat

from .errors import Error

Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$", re.A)


def read_key(path, word, private):
    """The value of the line that begins with word. A secret is never in an error text."""
    try:
        with open(path, "rb") as f:
            status = os.fstat(f.fileno())
            text = f.read(1024 * 1024).decode("utf-8", "replace")
    except OSError as e:
        raise Error("key file %s: %s" % (path, e.strerror)) from None
    mode = stat.S_IMODE(status.st_mode)
    if private and mode & 0o077:
        raise Error("key file %s: others may read it (mode %03o); chmod 600 it and, if they may "
                    "have, make a new key" % (path, mode))
    if mode & 0o022:
        raise Error("key file %s: others may change it (mode %03o); chmod 644 it" % (path, mode))
    if status.st_uid not in (0, os.geteuid()):
        raise Error("key file %s: belongs to user %d, not to us or root" % (path, status.st_uid))
    for line in text.split("\n"):
        if line.startswith(word + " "):
            key = line[len(word) + 1:]
            if not Z85.match(key):
                raise Error("key file %s: its %s is no key" % (path, word))
            return key.encode()
    raise Error("key file %s: no line '%s KEY'" % (path, word))
