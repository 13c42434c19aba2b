"""Convolutions and their gradients: kernels of Hilo's CPU backend beside XLA:CPU, least CPU time of one thread.

  taskset -c 1 conv.py [--bench PROGRAM] [--only TEXT] [--dump DIR]

PROGRAM is build-rel/bench/conv (a release build). For each layer the forward form, the gradient by the input and that by the
weights, as JAX writes them: milliseconds and GFLOP/s of both.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
#        name                n  size in   out  window stride groups
LAYERS = [("conv3x3_56",     16, 56,  64,   64, 3, 1, 1),
          ("resnet_first",    4, 224,  3,   64, 7, 2, 1),
          ("resnet_1x1_up",   4, 56,  64,  256, 1, 1, 1),
          ("resnet_1x1_down", 4, 56, 256,   64, 1, 1, 1),
          ("resnet_3x3_s2",   4, 56, 128,  128, 3, 2, 1),
          ("resnet_3x3_28",   4, 28, 128,  128, 3, 1, 1),
          ("resnet_3x3_14",   4, 14, 256,  256, 3, 1, 1),
          ("resnet_1x1_14",   4, 14, 1024, 256, 1, 1, 1),
          ("resnet_1x1_s2",   4, 28, 512, 1024, 1, 2, 1),
          ("resnet_3x3_7",    4,  7, 512,  512, 3, 1, 1),
          ("resnet_3x3_7_b1", 1,  7, 512,  512, 3, 1, 1),
          ("mobile_dw_112",   4, 112, 32,   32, 3, 1, 32),
          ("mobile_dw_56_s2", 4, 56, 128,  128, 3, 2, 128),
          ("mobile_dw_14",    4, 14, 512,  512, 3, 1, 512),
          ("grouped_28",      4, 28, 128,  128, 3, 1, 32),
          ("patches",         4, 224,  3,  768, 16, 16, 1),
          ("cnn",            32, 28,   1,   32, 3, 1, 1),
          ]


def forms(layer):
    import jax
    import jax.numpy as jnp
    name, n, size, cin, cout, window, stride, groups = layer
    padding = "VALID" if window == stride and window > 1 else "SAME"
    x = jnp.ones((n, size, size, cin), jnp.float32)
    w = jnp.ones((window, window, cin // groups, cout), jnp.float32)

    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"),
                                            feature_group_count=groups)
    y = jax.eval_shape(conv, x, w)
    g = jnp.ones(y.shape, jnp.float32)
    flops = 2 * y.size * window * window * cin // groups
    yield name, conv, (x, w), flops
    yield name + "/dx", lambda g, w: jax.linear_transpose(lambda x: conv(x, w), x)(g)[0], (g, w), flops
    yield name + "/dw", lambda x, g: jax.linear_transpose(lambda w: conv(x, w), w)(g)[0], (x, g), flops


def xla_ms(f, args):
    best, total, rounds = 1e30, 0, 0
    f(*args).block_until_ready()
    while rounds < 3 or (total < 0.5 and rounds < 200):
        start = time.process_time()
        f(*args).block_until_ready()
        took = time.process_time() - start
        best, total, rounds = min(best, took), total + took, rounds + 1
    return best * 1e3


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench", default=os.path.join(ROOT, "build-rel", "bench", "conv"))
    p.add_argument("--only", default="")
    p.add_argument("--dump")
    a = p.parse_args()
    import jax
    print(f"{'':22} {'hilo ms':>9} {'XLA ms':>9} {'GF/s':>7} {'XLA':>7} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as tmp:
        for layer in LAYERS:
            for name, f, args, flops in forms(layer):
                if a.only not in name:
                    continue
                path = os.path.join(a.dump or tmp, name.replace("/", "_") + ".hlo")
                jitted = jax.jit(f)
                with open(path, "w") as out:
                    out.write(jitted.lower(*args).compiler_ir("hlo").as_hlo_text())
                said = subprocess.run([a.bench, path], capture_output=True, text=True).stdout.split()
                own = float(said[1]) if len(said) == 2 else -1
                if a.dump:
                    continue
                xla = xla_ms(jitted, args)
                print(f"{name:22} {own:9.3f} {xla:9.3f} {flops / own / 1e6:7.1f} {flops / xla / 1e6:7.1f} {xla / own:6.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
