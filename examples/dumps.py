"""Everything that can be dumped and logged on a program's way, switched on by the environment; lists what came.

    JAX_PLATFORMS=hilo python dumps.py [FOLDER]

    XLA_FLAGS        the compiler's: HLO before, between and after passes, as text, proto, page and graph, buffers, memory
    JAX_DUMP_IR_TO   JAX's: jaxprs, StableHLO and counts of equations
    JAX_LOG_...      what JAX traces, lowers, compiles and looks up in caches, and why
"""
import collections
import logging
import os
import pathlib
import re
import sys
import tempfile


def switch_on(folder):
    """Before JAX is imported: that is when it looks."""
    os.environ["XLA_FLAGS"] = " ".join([
        f"--xla_dump_to={folder}/xla", "--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto", "--xla_dump_hlo_as_html",
        "--xla_dump_hlo_as_dot", "--xla_dump_hlo_module_re=jit_step", "--xla_dump_hlo_pass_re=fusion|algsimp"])
    os.environ["JAX_DUMP_IR_TO"] = f"{folder}/jax"
    os.environ["JAX_DUMP_IR_MODES"] = "stablehlo,jaxpr,eqn_count_pprof"
    os.environ["JAX_LOG_COMPILES"] = "1"
    os.environ["JAX_EXPLAIN_CACHE_MISSES"] = "1"
    os.environ["JAX_COMPILER_DETAILED_LOGGING_MIN_OPS"] = "1"


class Log(logging.Handler):
    """Counts what JAX logs about `step` by its first words, in place of writing it to the screen."""

    def __init__(self):
        super().__init__(logging.DEBUG)
        self.words = collections.Counter()
        logger = logging.getLogger("jax")
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        logger.handlers = [self]

    def emit(self, record):
        text = record.getMessage()
        found = re.match(r"(Finished [a-z]+|Finished XLA compilation|Compiling|[A-Z]+[A-Z ]+ MISS)\b", text)
        if found and "step" in text:
            self.words[found[1]] += 1


def train():
    import jax
    import jax.numpy as jnp
    import numpy as np

    log = Log()

    @jax.jit
    def step(w, x):
        return w - 0.1 * jax.grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)

    w, x = np.full((8, 4), 0.1, np.float32), np.ones((16, 8), np.float32)
    for _ in range(3):
        w = step(w, x)
    print(f"w[0, 0] after three steps {np.asarray(w)[0, 0]:.4f}")
    return log.words


def kind(name):
    """A file's name without what is different in each program."""
    name = re.sub(r"^module_\d+\.jit_step\.|^jax_(ir\d+_jit|\d+)_", "", name)
    return re.sub(r"^\d{4}\.[^.]*\.after_(.*)\.before_[^.]*", r"after \1", name)


def listing(folder):
    for maker in "xla", "jax":
        names = [file.name for file in (folder / maker).iterdir() if file.is_file()]
        forms = collections.defaultdict(collections.Counter)
        for name in names:
            stage, _, form = kind(name).partition(".")
            forms[stage][form] += 1
        print(f"{maker}: {len(names)} files")
        for stage, count in sorted(forms.items()):
            words = ", ".join(form if n == 1 else f"{n} {form}" for form, n in sorted(count.items()))
            print(f"  {stage:48} {words}".rstrip())


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else temporary)
        switch_on(folder)
        logged = train()
        listing(folder)
        print("logged of step:")
        for words, n in sorted(logged.items()):
            print(f"  {words}: {n}")


if __name__ == "__main__":
    main()
