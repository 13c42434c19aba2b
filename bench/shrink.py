#!/usr/bin/env python3
"""Makes a module of the same graph with smaller sizes, so that it can be evaluated.

  shrink.py FILE OLD=NEW... > OUT    every size OLD in shapes, slices, windows, padding and constants becomes NEW

Sizes that depend on each other must be given together, so that products of reshapes agree: of clip.train
768=24 3072=96 64=2 63=1 16=2 15=1 224=28 32000=1000 31999=999.
"""

import re
import sys


def main():
    path, *pairs = sys.argv[1:]
    sizes = dict(pair.split("=") for pair in pairs)
    number = re.compile(r"(?<![\w.\-])\d+(?![\w.])")
    times = re.compile(r"\d+")

    def replace(match):
        return number.sub(lambda n: sizes.get(n.group(), n.group()), match.group())

    def replace_times(match):
        return times.sub(lambda n: sizes.get(n.group(), n.group()), match.group())

    shape = re.compile(r"\b(?:pred|[subf]\w*\d+\w*|c\d+)\[[\d,<=]*\]")
    listed = re.compile(r"(?:slice|slice_sizes|dynamic_slice_sizes)=\{[^}]*\}")
    spaced = re.compile(r"(?:window=\{[^}]*\}|padding=[\d_x\-]+)")
    constant = re.compile(r"constant\(\d+\)")
    for line in open(path):
        for pattern in (shape, listed, constant):
            line = pattern.sub(replace, line)
        sys.stdout.write(spaced.sub(replace_times, line))


main()
