"""Turns what `hilo --help` and `hilo COMMAND --help` print into man pages: man.py PROGRAM VERSION FOLDER.

The help stays the one place where options are described. Lines that start in the first column and end in a
colon become sections; a line of the form "  --option ...   what it does" becomes a tagged paragraph.
"""
import os
import re
import subprocess
import sys

program, version, folder = sys.argv[1:]


def output(*args, name=None):
    """What the program prints; by another name, as which it is called by a link."""
    executable = os.path.abspath(program)
    return subprocess.run([name or executable, *args], executable=executable, capture_output=True, text=True,
                          check=True).stdout


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def body(help_text):
    for line in help_text.rstrip().splitlines():
        tagged = re.match(r"^ +(\S.*?)  +(\S.*)$", line)
        if not line.strip():
            yield ".PP"
        elif re.match(r"^[A-Za-z][\w ]*:$", line):
            yield ".SH " + line[:-1].upper()
        elif tagged:
            yield from (".TP", ".B " + escape(tagged[1]), escape(tagged[2]))
        else:
            yield from (escape(line.strip()), ".br") if line.startswith(" ") else (escape(line.strip()),)


# Manual pages of the names under which the program is one of XLA's tools, or of ParaGraph's.
TOOLS = {"hlo-opt": "XLA's tool of that name: run passes over a module",
         "run_hlo_module": "XLA's tool of that name: do a platform's passes keep results",
         "hlo_bridge": "ParaGraph's tool of that name: the graph of a module in HLO",
         "graph_converter": "ParaGraph's tool of that name: write a graph in another form",
         "graph_data_parallel_extender": "ParaGraph's tool of that name: change the number of replicas",
         "graph_translator": "ParaGraph's tool of that name: a graph for each processor, with messages",
         "simulator": "ParaGraph's tool of that name: run the graph of one processor",
         "allreduce": "ParaGraph's generator of that name: a loop of work and an all-reduce",
         "stencil": "ParaGraph's generator of that name: halos exchanged in a box of processors"}


def page(name, meaning, help_text):
    usage, _, rest = help_text.partition("\n")
    rest = rest.strip().removeprefix(meaning)  # NAME has it already
    lines = [f'.TH {name.upper()} 1 "" "Hilo {version}" "Hilo"', ".SH NAME", f"{escape(name)} \\- {escape(meaning)}",
             ".SH SYNOPSIS", escape(re.sub(r"^usage: *", "", usage)), ".SH DESCRIPTION", *body(rest)]
    others = [f"hilo-{line.split()[0]}" for line in commands] + list(TOOLS) if name == "hilo" else ["hilo"]
    lines += [".SH SEE ALSO", ",\n".join(f".BR {escape(other)} (1)" for other in others)]
    with open(os.path.join(folder, name + ".1"), "w") as f:
        f.write("\n".join(lines) + "\n")


os.makedirs(folder, exist_ok=True)
general = output("--help")
commands = output("--list-commands").splitlines()
for line in commands:
    command = line.split()[0]
    found = re.search(rf"^ +{re.escape(command)}\b.*?  +(\S.*)$", general, re.M)
    page("hilo-" + command, found[1] if found else f"the command {command} of hilo", output(command, "--help"))
page("hilo", "workbench for XLA's HLO", general)
for tool, meaning in TOOLS.items():
    page(tool, meaning, output("--help", name=tool))
