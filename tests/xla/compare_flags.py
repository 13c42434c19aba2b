"""The table of XLA's flags (src/tool/flags.def) knows every field of the DebugOptions of the jaxlib at hand.

The library carries the description of its own protos; the fields' names are read there and looked up in `hilo docs
flags`. A name that is missing is a row to add, with what it steers.

usage: compare_flags.py [--hilo build/hilo]
"""
import argparse
import glob
import os
import re
import subprocess
import sys

import jaxlib

MESSAGES, NAME, FIELDS = 4, 1, 2  # of FileDescriptorProto and DescriptorProto


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def parts(data, at=0, end=None):
    """The length-delimited fields from here on, as far as they are any: (number, bytes)."""
    end = len(data) if end is None else end
    while at < end:
        key, at = varint(data, at)
        if key & 7 == 0:
            _, at = varint(data, at)
            continue
        if key & 7 != 2:
            return
        size, at = varint(data, at)
        yield key >> 3, data[at:at + size]
        at += size


def debug_options():
    path = max(glob.glob(os.path.join(os.path.dirname(jaxlib.__file__), "*.so")), key=os.path.getsize)
    with open(path, "rb") as f:
        data = f.read()
    start = data.find(b"\x0a\x0dxla/xla.proto")
    for number, message in parts(data, start) if start >= 0 else ():
        if number == MESSAGES and dict(reversed(list(parts(message))))[NAME] == b"DebugOptions":
            return [dict(parts(field))[NAME].decode() for n, field in parts(message) if n == FIELDS]
    sys.exit("no DebugOptions in " + path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--hilo", default=os.environ.get("HILO", "build/hilo"))
    a = p.parse_args()
    page = subprocess.run([a.hilo, "docs", "flags"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"`--(xla_\w+)`", page))
    asked = debug_options()
    missing = sorted(name for name in asked if name not in known)
    for name in missing:
        print("no row in flags.def: " + name)
    print("jaxlib %s: %d flags, %d not in the table" % (jaxlib.__version__, len(asked), len(missing)))
    return 1 if missing or len(asked) < 100 else 0


if __name__ == "__main__":
    sys.exit(main())
