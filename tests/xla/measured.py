"""What XLA's autotuner decided in a program, as a file that hilo reads (--xla_gpu_load_autotune_results_from).

The keys of the kernels are hilo's, which are XLA's own; what was chosen for each is what the state behind config-assigner says of the
kernel of that name.
"""
import json
import re

CONFIG = re.compile(r"backend_config=(\{\".*)$")         # not those that are no JSON
KERNEL = re.compile(r"^  (?:ROOT )?%?([^ ]+) = .* (?:fusion|custom-call)\(")
ENTRY = re.compile(r"^# (.*)\n(entries \{\n(?:.*\n)*?\})$", re.M)


def kernels(text):
    """The backend config of each kernel, by name."""
    found = {}
    for line in text.splitlines():
        kernel, config = KERNEL.match(line), CONFIG.search(line)
        if kernel and config:
            found[kernel.group(1)] = json.JSONDecoder().raw_decode(config.group(1))[0]
    return found


def fields(message):
    """A message in JSON as text proto."""
    out = []
    for name, value in message.items():
        if name == "tuning_knobs":
            out += [f"{name} {{ key: {k} value: {v} }}" for k, v in value.items()]
        elif name == "workspace_size":
            out.append(f"{name} {{ value: {value} }}")
        else:
            for v in value if isinstance(value, list) else [value]:
                out.append(f"{name} {{ {fields(v)} }}" if isinstance(v, dict) else
                           f"{name}: {str(v).lower() if isinstance(v, bool) else v}")
    return " ".join(out)


def choice(config):
    """(backend, its field, what it holds) of a kernel's config; None: nobody chose."""
    fusion = config.get("fusion_backend_config", {})
    for backend, field, value in (
            ("TRITON", "triton", fusion.get("triton_gemm_config")),
            ("BLOCK_LEVEL_EMITTER", "block_level", fusion.get("block_level_fusion_config")),
            ("NATIVE_EMITTER", "native_emitter", config.get("native_emitter_backend_config")),
            ("CUDNN", "algorithm", config.get("cudnn_conv_backend_config", {}).get("algorithm"))):
        if value is not None:
            return backend, field, value
    return None


def results(chosen, after):
    """The file, from the one that hilo has written of its own choices and from the state behind the pass."""
    decided, out = kernels(after), []
    for name, entry in ENTRY.findall(chosen):
        found = choice(decided.get(name, {}))
        if found:
            key = entry[:entry.index("  value {")]
            out.append(f"{key}  value {{ optimal_config {{ backend: {found[0]} "
                       f"backend_config {{ {found[1]} {{ {fields(found[2])} }} }} }} }}\n}}\n")
    return "".join(out)
