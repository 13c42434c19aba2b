"""How JAX finds the plugin of a source tree in PYTHONPATH; what is installed has an entry point instead."""
from hilo.jax_plugin import initialize

__all__ = ["initialize"]
