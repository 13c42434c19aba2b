"""One function in every form: sigmoid as jaxpr, StableHLO, HLO and MHLO, and the same for its derivative.

    JAX_PLATFORMS=hilo python sigmoid.py

The program `hilo` (in PATH, or named by HILO) turns what JAX wrote into MHLO and says what a file holds.
"""
import os
import re
import subprocess
import tempfile

import jax
import jax.numpy as jnp

HILO = os.environ.get("HILO", "hilo")


def sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


def hilo(*words, text):
    """What `hilo WORDS FILE` prints of a program."""
    with tempfile.TemporaryDirectory() as folder:
        name = os.path.join(folder, "program")
        with open(name, "w") as f:
            f.write(text)
        done = subprocess.run([HILO, words[0], name, *words[1:]], stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.replace(name, "program")


def show(title, text):
    print(f"--- {title}")
    print("\n".join(line for line in text.split("\n") if line.strip()))


def forms(name, f):
    x = jax.ShapeDtypeStruct((4,), jnp.float32)
    lowered = jax.jit(f).lower(x)
    stablehlo = lowered.as_text()
    show(f"{name}: jaxpr", str(jax.make_jaxpr(f)(x)))
    show(f"{name}: StableHLO", stablehlo)
    show(f"{name}: HLO", hilo("convert", "--to", "hlo", "--print", "short", text=stablehlo))
    show(f"{name}: MHLO", hilo("convert", "--to", "mhlo", text=stablehlo))
    compiled = re.sub(r", metadata=\{[^}]*\}", "", lowered.compile().as_text())
    counted = hilo("stats", "--brief", text=compiled)
    show(f"{name}: compiled", "\n".join(re.findall(r"^ +(?:flops|transcendentals|peak memory) .*", counted, re.M)))


def main():
    derivative = jax.vmap(jax.grad(sigmoid))
    forms("sigmoid", sigmoid)
    forms("derivative", derivative)

    x = jnp.array([-2.0, 0.0, 1.0, 4.0])
    s = jax.jit(sigmoid)(x)
    print("--- values")
    print("sigmoid   ", *(f"{v:.6f}" for v in s))
    print("derivative", *(f"{v:.6f}" for v in jax.jit(derivative)(x)))
    print("s (1 - s) ", *(f"{v:.6f}" for v in s * (1 - s)))


if __name__ == "__main__":
    main()
