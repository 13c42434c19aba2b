"""Counts instructions and kernels in HLO text.

A kernel is an instruction of the entry, or of a loop, branch or call it runs, that does work of its own: all but those
of FREE.
"""
import re

FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "iota", "broadcast", "while", "call",
        "conditional"}
HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) (?:\(.*\) -> .* )?\{\s*$")
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
CALLED = re.compile(r"\b(?:condition|body|to_apply|true_computation|false_computation)=%?([\w.\-]+)")
BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")


def after_type(rest):
    """The text behind an instruction's type."""
    if not rest.startswith("("):
        return rest.split(" ", 1)[1]
    depth = 0
    for k, c in enumerate(rest):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return rest[k + 1:].lstrip()
    return rest


def computations(text):
    """{name: [(op, called, line)]} and the entry's name."""
    out, entry, current = {}, None, None
    for line in text.splitlines():
        if current is None:
            head = HEAD.match(line)
            if head and not line.startswith("HloModule"):
                current = out.setdefault(head.group(2), [])
                entry = head.group(2) if head.group(1) else entry
            continue
        if line.startswith("}"):
            current = None
            continue
        m = INSTRUCTION.match(line)
        if not m:
            continue
        rest = after_type(m.group(2))
        op = rest.split("(", 1)[0]
        called = []
        if op in ("while", "call", "conditional"):
            called = CALLED.findall(rest)
            for names in BRANCHES.findall(rest):
                called += [n.strip().lstrip("%") for n in names.split(",")]
        current.append((op, called, line))
    return out, entry


def instructions(text):
    return sum(len(c) for c in computations(text)[0].values())


def kernels(text):
    comps, entry = computations(text)
    seen, todo, n = set(), [entry], 0
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        for op, called, _ in comps[name]:
            n += op not in FREE
            todo += called
    return n
