#!/usr/bin/env python3
"""Writes src/ir/slots.h: where the words of ops.def and dtypes.def stand in the small hash tables of
src/ir/tables.c. Run it after adding a row; without it a new word is found too, only slower."""
import random
import re


def rows(path, macro):
    text = open(path).read()
    return [(m.group(1), m.group(2)) for m in re.finditer(r'^%s\((\w+),\s*"([^"]+)"' % macro, text, re.M)]


def features(word):
    n = len(word)
    return n, ord(word[0]), ord(word[n // 2]), ord(word[-1]), ord(word[(n + 1) // 3])


def slots_of(all_features, multipliers, bits):
    return [(sum(f * m for f, m in zip(fs, multipliers)) & 0xffffffff) >> (32 - bits) for fs in all_features]


def distinct(words):
    """Without those that look like an earlier one to the hash: they are found the slower way."""
    first = {}
    for i, word in words:
        first.setdefault(features(word), (i, word))
    return list(first.values())


def emit(out, name, prefix, words, bits):
    words = distinct(words)
    all_features = [features(word) for _, word in words]
    rng = random.Random(1)
    while True:
        multipliers = [rng.randrange(1, 1 << 32) | 1 for _ in range(5)]
        slots = slots_of(all_features, multipliers, bits)
        if len(set(slots)) == len(slots):
            break
    out.append('enum { %s_SLOT_BITS = %d };' % (name.upper(), bits))
    out.append('static const uint32_t %s_multiplier[5] = {%s};' % (name, ', '.join('%uu' % m for m in multipliers)))
    out.append('static const uint8_t %s_slot[1 << %s_SLOT_BITS] = {' % (name, name.upper()))
    for k, i in sorted(zip(slots, [i for i, _ in words])):
        out.append('  [%d] = %s%s,' % (k, prefix, i))
    out.append('};')


def main():
    ops = rows('include/hilo/ops.def', 'OP')
    types = [(i, w) for i, w in rows('include/hilo/dtypes.def', 'DTYPE') if w != 'b']
    out = ['// ir/slots.h: slots of the words of ops.def and dtypes.def; written by tools/op_slots.py.',
           '#ifndef HILO_IR_SLOTS_H', '#define HILO_IR_SLOTS_H', '', '#include "hilo/ir.h"', '']
    emit(out, 'op', 'HL_OP_', ops, 10)
    out.append('')
    emit(out, 'dtype', 'HL_', types, 7)
    out += ['', '#endif', '']
    open('src/ir/slots.h', 'w').write('\n'.join(out))


if __name__ == '__main__':
    main()
