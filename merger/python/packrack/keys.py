# SPDX-License-Identifier: Apache-2.0
"""CURVE keys in a key directory, in the form and with the care of proto/rpc/keys.h."""
import os
import re
import stat

from .errors import Error

SYSTEM = "/etc/packrack/keys"
NONE = "none"
Z85 = re.compile(r"[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$", re.A)


def directory(said=None):
    """The key directory to use, or None for no keys: said, PACKRACK_KEY, the user's, the system's."""
    said = os.environ.get("PACKRACK_KEY") or None if said is None else said
    if said is not None:
        return None if said == NONE else os.fspath(said)
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    own = os.path.join(config, "packrack", "keys")
    if os.path.exists(os.path.join(own, "secret")):
        return own
    return SYSTEM if os.access(os.path.join(SYSTEM, "secret"), os.R_OK) else None


def check(path, status, private):
    mode = status.st_mode & 0o777
    if not stat.S_ISREG(status.st_mode):
        raise Error("key file %s: not a regular file" % path)
    if private and mode & 0o077:
        raise Error("key file %s: others may read it (mode %03o); chmod 600 it and, if they may "
                    "have, make a new key" % (path, mode))
    if mode & 0o022:
        raise Error("key file %s: others may change it (mode %03o); chmod 600 it" % (path, mode))
    if status.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise Error("key file %s: belongs to user %d, not to us or root" % (path, status.st_uid))


def lines(directory, name, word):
    """The values of the lines that begin with word."""
    path = os.path.join(directory, name)
    try:
        status = os.stat(directory)
    except OSError as e:
        raise Error("key directory %s: %s" % (directory, e.strerror)) from None
    mode = status.st_mode & 0o777
    if not stat.S_ISDIR(status.st_mode):
        raise Error("key directory %s: not a directory" % directory)
    if mode & 0o077:
        raise Error("key directory %s: open to others (mode %03o); chmod 700 it" % (directory, mode))
    if status.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise Error("key directory %s: belongs to user %d, not to us or root" % (directory, status.st_uid))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            check(path, os.fstat(fd), True)
            text = os.read(fd, 1024 * 1024).decode("utf-8", "replace")
        finally:
            os.close(fd)
    except OSError as e:
        raise Error("key file %s: %s" % (path, e.strerror)) from None
    return [line[len(word) + 1:].strip() for line in text.split("\n")
            if line.startswith(word + " ")]


def z85(directory, name, word, key):
    """A secret is never in an error text."""
    if not Z85.match(key):
        form = "key file %s/%s: its %s is not a key" if name == "secret" else "key file %s/%s: a %s in it is not a key"
        raise Error(form % (directory, name, word))
    return key.encode()


def secret(directory):
    found = lines(directory, "secret", "secret-key")
    if not found:
        raise Error("key file %s/secret: no line 'secret-key KEY' (packrack keys generate)" % directory)
    return z85(directory, "secret", "secret-key", found[0])


def server(directory, endpoint):
    """The server's public key: the line that names the endpoint, else the one that names none."""
    found = None
    for value in lines(directory, "rack", "server-key"):
        of, _, key = value.rpartition(" ")
        if of == endpoint:
            return z85(directory, "rack", "server-key", key)
        if not of and found is None:
            found = key
    if found is None:
        raise Error("key file %s/rack: no server-key for %s (packrack-keys(7))" % (directory, endpoint))
    return z85(directory, "rack", "server-key", found)
