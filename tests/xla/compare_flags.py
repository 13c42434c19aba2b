"""The table of XLA's flags (src/tool/flags.def) knows every field of the DebugOptions of the jaxlib at hand: its name, number
and type, and of what JAX sends with each compilation the value.

The library carries the description of its own protos: the fields are read there and looked up in the table. A name that is
missing is a row to add, with what it steers.

usage: compare_flags.py      (then the same by HILO_NEWEST_PYTHON, where there is one)
"""
import glob
import os
import re
import struct
import subprocess
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ.pop("XLA_FLAGS", None)
import jaxlib
from jax._src import compiler

MESSAGES, NAME, FIELDS = 4, 1, 2  # of FileDescriptorProto and DescriptorProto
FIELD_NAME, FIELD_NUMBER, FIELD_LABEL, FIELD_TYPE, FIELD_TYPE_NAME = 1, 3, 4, 5, 6  # of FieldDescriptorProto
REPEATED = 3
TYPES = {2: "FLOAT", 3: "INT64", 5: "INT32", 8: "BOOL", 9: "STRING", 11: "MESSAGE", 14: "ENUM"}
BUILD_OPTIONS, DEBUG_OPTIONS = 3, 3  # of CompileOptionsProto and ExecutableBuildOptionsProto
TYPE_OF_KIND = {"BOOL": "BOOL", "SAID": "BOOL", "SWITCH": "BOOL", "INT": "INT32", "TEXT": "STRING", "LIST": "STRINGS"}
USUAL_OF_KIND = {"BOOL": "0", "SAID": "0", "SWITCH": "1", "TEXT": "", "LIST": ""}
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "tool", "flags.def")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def parts(data, at=0):
    """The fields from here on, as far as they are any: (number, value)."""
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 not in (1, 2, 5):
                return
            size, at = varint(data, at) if key & 7 == 2 else (8 if key & 7 == 1 else 4, at)
            value = data[at:at + size]
            at += size
        yield key >> 3, value


def type_of(field):
    kind = TYPES[field[FIELD_TYPE]]
    if field.get(FIELD_LABEL) != REPEATED:
        return kind
    is_map = kind == "MESSAGE" and field[FIELD_TYPE_NAME].endswith(b"Entry")
    return "MAP" if is_map else {"STRING": "STRINGS", "ENUM": "ENUMS", "MESSAGE": "MESSAGES"}[kind]


def debug_options():
    """{name: (number, type)}"""
    path = max(glob.glob(os.path.join(os.path.dirname(jaxlib.__file__), "*.so")), key=os.path.getsize)
    with open(path, "rb") as f:
        data = f.read()
    start = data.find(b"\x0a\x0dxla/xla.proto")
    for number, message in parts(data, start) if start >= 0 else ():
        if number == MESSAGES and dict(reversed(list(parts(message))))[NAME] == b"DebugOptions":
            fields = [dict(parts(field)) for n, field in parts(message) if n == FIELDS]
            return {f[FIELD_NAME].decode(): (f[FIELD_NUMBER], type_of(f)) for f in fields}
    sys.exit("no DebugOptions in " + path)


def table():
    """{name: (number, type, usual value)}, and the names of what XLA has no more; usual values before release 0.11."""
    rows, before = {}, {}
    with open(TABLE) as f:
        lines = f.read().splitlines()
    for line in lines:
        if m := re.match(r'FLAG\((\w+), (\d+), (\w+), ([-\d]+),', line):
            kind = m[3]
            rows[m[1]] = int(m[2]), TYPE_OF_KIND[kind], m[4] if kind == "INT" else USUAL_OF_KIND[kind]
        elif m := re.match(r'OTHER\((\w+), (\d+), (\w+), \w+, (?:NULL|"(.*)")\)', line):
            rows[m[1]] = int(m[2]), m[3], m[4]
        elif m := re.match(r'WAS\((\w+), "(.*)"\)', line):
            before[m[1]] = m[2]
    return rows, before


def text(kind, values):
    """A field's values as the table has them."""
    if kind in ("STRING", "STRINGS"):
        return ",".join(v.decode() for v in values)
    if kind == "FLOAT":
        return "%.7g" % struct.unpack("<f", values[-1])
    if kind == "MAP":
        entries = [dict(parts(v)) for v in values]
        return ",".join(sorted("%s=%s" % (e[1].decode(), e[2].decode()) for e in entries))
    numbers = []
    for v in values:
        at = 0
        while isinstance(v, bytes) and at < len(v):
            number, at = varint(v, at)
            numbers.append(number)
        if not isinstance(v, bytes):
            numbers.append(v - (1 << 64) if v >> 63 else v)
    return ",".join(map(str, numbers))


def same(kind, usual, value):
    if usual is None:
        return False
    if kind == "ENUM":
        return usual.endswith("=" + value)
    words = {"false": "0", "true": "1"}
    return words.get(usual, usual) == value


def sent():
    """{number: values} of what JAX sends with a compilation."""
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
    message = options.SerializeAsString()
    for number in (BUILD_OPTIONS, DEBUG_OPTIONS):
        message = dict(parts(message))[number]
    values = {}
    for number, value in parts(message):
        values.setdefault(number, []).append(value)
    return values


def main():
    rows, before = table()
    is_older = tuple(map(int, jaxlib.__version__.split(".")[:2])) < (0, 11)
    asked, wrong = debug_options(), 0
    values = sent()
    for name, (number, kind) in sorted(asked.items()):
        row = rows.get(name)
        if not row:
            problem = "no row in flags.def"
        elif row[:2] != (number, kind):
            problem = "is %d, %s; flags.def says %d, %s" % (number, kind, row[0], row[1])
        else:
            usual = before.get(name, row[2]) if is_older else row[2]
            value = text(kind, values[number]) if number in values else None
            if value is None or same(kind, usual, value):
                continue
            problem = "JAX sends '%s'; flags.def says '%s'" % (value, usual)
        print(name + ": " + problem)
        wrong += 1
    print("jaxlib %s: %d flags, %d of them sent, %d not as in the table" %
          (jaxlib.__version__, len(asked), len(values), wrong))
    return 1 if wrong or len(asked) < 100 or len(values) < 100 else 0


if __name__ == "__main__":
    status, newest = main(), os.environ.pop("HILO_NEWEST_PYTHON", None)
    if newest:
        sys.stdout.flush()
        status |= subprocess.run([newest, __file__]).returncode
    sys.exit(status)
