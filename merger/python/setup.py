# SPDX-License-Identifier: Apache-2.0
"""Messages are said once, in proto/rpc/packrack.proto: their Python form is made at build time."""
import os
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = os.path.dirname(os.path.abspath(__file__))
PROTO = os.path.join(HERE, "..", "..", "proto", "rpc", "packrack.proto")


class Build(build_py):
    def run(self):
        super().run()
        if not os.path.exists(PROTO):
            sys.exit("packrack: no %s: build in a clone of packrack" % os.path.normpath(PROTO))
        if not shutil.which("protoc"):
            sys.exit("packrack: no protoc: install protobuf-compiler")
        target = os.path.join(self.build_lib, "packrack")
        os.makedirs(target, exist_ok=True)
        subprocess.run(["protoc", "--proto_path=" + os.path.dirname(PROTO),
                        "--python_out=" + target, PROTO], check=True)


setup(cmdclass={"build_py": Build})
