// Starts `hilo lsp` for HLO and StableHLO texts, and again when its path changes or somebody asks.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

async function start() {
  const command = vscode.workspace.getConfiguration("hilo").get("path", "hilo");
  const made = new LanguageClient(
    "hilo",
    "Hilo",
    { command, args: ["lsp"] },
    { documentSelector: [{ language: "hlo" }, { language: "mlir" }] }
  );
  client = made;
  try {
    await made.start();
  } catch (error) {
    if (client === made) client = undefined;
    vscode.window.showErrorMessage(`Cannot start '${command} lsp' (setting hilo.path): ${error.message}`);
  }
}

async function stop() {
  const old = client;
  client = undefined;
  if (old) await old.stop();
}

async function restart() {
  await stop();
  await start();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("hilo.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hilo.path")) restart();
    })
  );
  await start();
}

module.exports = { activate, deactivate: stop };
