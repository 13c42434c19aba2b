#!/usr/bin/env python3
"""Measures XLA:CPU's products of matrices as bench/dot.c measures ours: CPU time of one thread, the least of several runs.

    taskset -c 1 bench/dot.py [DTYPE...]        DTYPE: float32, float64, bfloat16, int8
"""

import os
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
import jax
import jax.numpy as jnp
import numpy as np

# As bench/dot.c: batches, m, n, k, and whether B is [n, k].
SIZES = [
    ("2048^3", 1, 2048, 2048, 2048, False), ("512^3", 1, 512, 512, 512, False),
    ("1024x2048x512", 1, 1024, 2048, 512, False), ("512^3 B turned", 1, 512, 512, 512, True),
    ("64^3, 64 times", 64, 64, 64, 64, False), ("matvec 4096", 1, 4096, 1, 4096, False),
    ("vecmat 4096", 1, 1, 4096, 4096, False), ("8x1024x1024", 1, 8, 1024, 1024, False),
    ("32x64x16", 1, 32, 64, 16, False), ("128x10x128", 1, 128, 10, 128, False),
    ("32x32x100000", 1, 32, 32, 100000, False),
]


def measure(run, seconds=0.4):
    run()
    best, whole, times = 1e9, 0, 1
    while whole < seconds:
        start = time.process_time()
        for _ in range(times):
            run()
        took = time.process_time() - start
        whole += took
        best = min(best, took / times)
        times = int(0.02 / best) + 1
    return best


def main():
    jax.config.update("jax_enable_x64", True)
    for dtype in sys.argv[1:] or ["float32", "float64", "bfloat16", "int8"]:
        out = jnp.int32 if dtype == "int8" else None
        for text, b, m, n, k, turned in SIZES:
            x = jnp.asarray(np.arange(b * m * k).reshape(b, m, k) % 13 - 6).astype(dtype)
            y = jnp.asarray(np.arange(b * k * n).reshape((b, n, k) if turned else (b, k, n)) % 13 - 6).astype(dtype)
            if b == 1:
                x, y = x[0], y[0]
            rank = x.ndim
            numbers = (((rank - 1,), (rank - 1 if turned else rank - 2,)), ((0,), (0,)) if b > 1 else ((), ()))
            dot = jax.jit(lambda x, y: jax.lax.dot_general(x, y, numbers, preferred_element_type=out))
            seconds = measure(lambda: dot(x, y).block_until_ready())
            print(f"{dtype:8} {text:16} {2e-9 * b * m * n * k / seconds:8.1f} GFLOP/s {seconds * 1e3:10.3f} ms",
                  flush=True)


if __name__ == "__main__":
    main()
