# SPDX-License-Identifier: Apache-2.0
"""CURVE keys in a key directory, in the form and with the care of proto/rpc/keys.h and proto/base/keyfile.h."""
import errno
import os
import stat
import struct

from zmq.utils import z85

from .errors import Error

SYSTEM = "/etc/packrack/keys"
NONE = "none"
MOST = 1 << 20  # bytes of a file


def of_user():
    """The user's key directory, which may not exist; None: there is no home directory."""
    for variable, below in (("XDG_CONFIG_HOME", "packrack/keys"), ("HOME", ".config/packrack/keys")):
        if os.environ.get(variable, "").startswith("/"):
            return os.path.join(os.environ[variable], below)
    return None


def directory(said=None):
    """The key directory to use, or None for no keys: said, PACKRACK_KEY, the user's, the system's."""
    said = os.environ.get("PACKRACK_KEY") or None if said is None else said
    if said is not None:
        return None if said == NONE else os.fspath(said)
    own = of_user()
    if own and os.path.exists(os.path.join(own, "secret")):
        return own
    return SYSTEM if os.access(os.path.join(SYSTEM, "secret"), os.R_OK) else None


def check_directory(path):
    try:
        status = os.stat(path)
    except OSError as e:
        raise Error("key directory %s: %s" % (path, e.strerror)) from None
    mode = status.st_mode & 0o777
    if not stat.S_ISDIR(status.st_mode):
        raise Error("key directory %s: not a directory" % path)
    if mode & 0o077:
        raise Error("key directory %s: open to others (mode %03o); chmod 700 it" % (path, mode))
    if status.st_uid not in (0, os.geteuid()) and os.geteuid() != 0:
        raise Error("key directory %s: belongs to user %d, not to us or root" % (path, status.st_uid))


def owner_good(path, owner):
    """For root also the owner of the directory: root manages the keys of a daemon's user."""
    if owner in (0, os.geteuid()) or os.geteuid() != 0:
        return owner in (0, os.geteuid())
    above = os.stat(os.path.dirname(path) or ".")
    return above.st_uid == owner and not above.st_mode & 0o022


def check(path, status, private):
    mode = status.st_mode & 0o777
    if not stat.S_ISREG(status.st_mode):
        raise Error("key file %s: not a regular file" % path)
    if private and mode & 0o077:
        raise Error("key file %s: others may read it (mode %03o); chmod 600 it and, if they may "
                    "have, make a new key" % (path, mode))
    if mode & 0o022:
        raise Error("key file %s: others may change it (mode %03o); chmod 600 it" % (path, mode))
    if not owner_good(path, status.st_uid):
        raise Error("key file %s: belongs to user %d, not to us or root" % (path, status.st_uid))
    if status.st_size > MOST:
        raise Error("key file %s: longer than 1 MiB" % path)


def read(path, private=True, optional=False):
    """The text of a file. private: refused when group or others may read it. optional: None if there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            check(path, os.fstat(fd), private)
            text = os.read(fd, MOST).decode("utf-8", "surrogateescape")
        finally:
            os.close(fd)
    except OSError as e:
        if optional and e.errno == errno.ENOENT:
            return None
        raise Error("key file %s: %s" % (path, e.strerror)) from None
    if "\0" in text:
        raise Error("key file %s: no text: it holds NUL bytes" % path)
    return text


def values(text, word):
    """Those of the lines that begin with word."""
    found = (line.rstrip(" \t\r") for line in text.split("\n"))
    return [line[len(word):].lstrip(" ") for line in found if line.startswith(word + " ")]


def lines(directory, name, word):
    check_directory(directory)
    return values(read(os.path.join(directory, name)), word)


def is_key(text):
    try:
        return len(text) == 40 and bool(z85.decode(text.encode()))
    except (KeyError, ValueError, struct.error):  # a character, or a number, that there is not
        return False


def checked(directory, name, word, key):
    """A secret is never in an error text."""
    if not is_key(key):
        form = "key file %s/%s: its %s is not a key" if name == "secret" else "key file %s/%s: a %s in it is not a key"
        raise Error(form % (directory, name, word))
    return key.encode()


def secret(directory):
    found = lines(directory, "secret", "secret-key")
    if not found:
        raise Error("key file %s/secret: no line 'secret-key KEY' (packrack keys generate)" % directory)
    return checked(directory, "secret", "secret-key", found[0])


def server(directory, endpoint):
    """The server's public key: the line that names the endpoint, else the one that names none."""
    found = None
    for value in lines(directory, "rack", "server-key"):
        of, _, key = value.rpartition(" ")
        if of == endpoint:
            return checked(directory, "rack", "server-key", key)
        if not of and found is None:
            found = key
    if found is None:
        raise Error("key file %s/rack: no server-key for %s (packrack-keys(7))" % (directory, endpoint))
    return checked(directory, "rack", "server-key", found)
