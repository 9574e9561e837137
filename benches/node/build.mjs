// node build.mjs DIRECTORY: what a careful author would deploy, one minified file with the schema compiled beforehand.

import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import Ajv from "ajv";
import standalone from "ajv/dist/standalone/index.js";
import { build } from "esbuild";
import { produce } from "./schema.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const directory = resolve(process.argv[2]);
mkdirSync(directory, { recursive: true });
const ajv = new Ajv({ code: { source: true, esm: true } });
const validate = join(directory, "validate.mjs");
writeFileSync(validate, standalone.default(ajv, ajv.compile(produce)));

await build({
  entryPoints: [join(here, "handler.mjs")],
  outfile: join(directory, "handler.mjs"),
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  format: "esm",
  mainFields: ["module", "main"],
  nodePaths: [join(here, "node_modules")],
  // Some dependencies are CommonJS and ask for Node's own modules.
  banner: { js: 'import { createRequire } from "node:module";const require=createRequire(import.meta.url);' },
  plugins: [
    {
      name: "schema compiled beforehand",
      setup: ({ onResolve }) => onResolve({ filter: /^\.\/validate\.mjs$/ }, () => ({ path: validate })),
    },
  ],
});
rmSync(validate);
