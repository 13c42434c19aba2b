"""The extension for VS Code: its files are there and say what the program is; the grammars' expressions know every op."""
import json
import os
import re
import shutil
import subprocess
import sys

HILO = os.environ.get("HILO", "build/hilo")
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "editors", "vscode")


def load(name):
    with open(os.path.join(FOLDER, name)) as f:
        return json.load(f)


def patterns(grammar):
    for rule in grammar["patterns"]:
        for key in ("match", "begin", "end"):
            if key in rule:
                yield rule["name"] if "name" in rule else "", re.compile(rule[key])


def scopes(grammar, text, at):
    """The names of rules that match at a place: the first is what an editor shows."""
    return [rule.get("name", "") for rule in grammar["patterns"] if "match" in rule and
            any(m.start() == at for m in re.compile(rule["match"]).finditer(text))]


def main():
    package = load("package.json")
    assert os.path.exists(os.path.join(FOLDER, package["main"]))
    contributes = package["contributes"]
    languages = {language["id"] for language in contributes["languages"]}
    for language in contributes["languages"]:
        load(language["configuration"])
    for grammar in contributes["grammars"]:
        rules = load(grammar["path"])
        assert rules["scopeName"] == grammar["scopeName"] and grammar["language"] in languages
        assert len(list(patterns(rules))) > 8
    hlo, mlir = load("syntaxes/hlo.tmLanguage.json"), load("syntaxes/stablehlo.tmLanguage.json")
    page = subprocess.run([HILO, "docs", "ops"], capture_output=True, text=True, check=True).stdout
    ops = re.findall(r"^\| `([a-z0-9-]+)` \|", page.split("# Element types")[0], re.M)
    assert len(ops) > 120, len(ops)
    for op in ops:
        line = f"  y = f32[4]{{0}} {op}(x)"
        assert scopes(hlo, line, line.index(op + "("))[:1] == ["support.function.hlo"], (op, scopes(hlo, line, line.index(op)))
    for name in ("stablehlo.add", "chlo.top_k", "sdy.mesh"):
        assert scopes(mlir, f"  %0 = {name} %1", 7)[:1] == ["support.function.stablehlo"]
    extension = open(os.path.join(FOLDER, package["main"])).read()
    for setting in contributes["configuration"]["properties"]:
        section, key = setting.split(".")
        assert f'"{section}"' in extension and f'"{key}"' in extension
    for command in contributes["commands"]:
        assert f'"{command["command"]}"' in extension
    version = subprocess.run([HILO, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.split()[1] == package["version"], "editors/vscode/package.json has another version"
    if shutil.which("node"):
        subprocess.run(["node", "--check", os.path.join(FOLDER, package["main"])], check=True)
        drive(os.path.abspath(os.path.join(FOLDER, package["main"])))
    else:
        print("skipped: node is not installed (nodejs): the script of the extension was not run")
    print(f"{len(ops)} ops, {len(contributes['grammars'])} grammars")


# Stands in for the editor: what the extension asks of it is written down.
EDITOR = """
const Module = require("module"), load = Module._load, log = [];
let failing = false;
class LanguageClient {
  constructor(id, name, server, client) { log.push(["new", server, client.documentSelector.map((one) => one.language)]); }
  async start() { if (failing) throw new Error("no such file"); log.push(["start"]); }
  async stop() { log.push(["stop"]); }
}
let command, changed;
const vscode = {
  workspace: {
    getConfiguration: () => ({ get: () => "the-hilo" }),
    onDidChangeConfiguration: (f) => { changed = f; return {}; },
  },
  commands: { registerCommand: (name, f) => { command = f; return {}; } },
  window: { showErrorMessage: (text) => log.push(["error", text]) },
};
Module._load = (name, ...rest) =>
  name === "vscode" ? vscode : name === "vscode-languageclient/node" ? { LanguageClient } : load(name, ...rest);
(async () => {
  const extension = require(process.argv[2]);
  await extension.activate({ subscriptions: [] });
  await command();
  failing = true;
  await command();
  await extension.deactivate();
  console.log(JSON.stringify(log));
})();
"""


def drive(path):
    done = subprocess.run(["node", "-", path], input=EDITOR, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    log = json.loads(done.stdout)
    made = ["new", {"command": "the-hilo", "args": ["lsp"]}, ["hlo", "mlir"]]
    assert log[:6] == [made, ["start"], ["stop"], made, ["start"], ["stop"]], log
    assert log[6] == made and log[7][0] == "error" and "the-hilo lsp" in log[7][1] and len(log) == 8, log


main()
sys.exit(0)
