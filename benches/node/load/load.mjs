// node load.mjs: takes keys of catalogues in S3, a line each, and writes their products to PostgreSQL; each is answered with a line that says
// what it took.
//
// What a careful program in Node.js does with a catalogue: everything streams, chunks of a thousand rows in the order of their keys, each a transaction
// with COPY to a temporary table and INSERT … ON CONFLICT DO UPDATE of what changed. A chunk is written while the next one is read.

import { createHash, randomUUID } from "node:crypto";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import pg from "pg";
import { from as copyFrom } from "pg-copy-streams";
import chain, { none } from "stream-chain";
import { parser } from "stream-json";
import { streamArray } from "stream-json/streamers/stream-array.js";

const WINDOW = 64 * 1024;
const CHUNK = 1000;
const TEXTS = ["TITLE", "DESCRIPTION", "EAN", "BRAND", "NCM", "CATEGORY", "IMAGELINK", "COLOR"];
const NUMBERS = ["PRICE", "PRICEPROMO", "WHOLESALEPRICE", "QUANTITY", "SIZE", "MEASURE", "WHOLESALEMIN", "INDICE"];
const DATES = ["DATACADASTROPRODUTO", "DATAATUALIZACAOPRODUTO", "DATAATUALIZACAOESTOQUE"];
const KEY = ["cnpj", "shopid", "productid"];
const KNOWN = new Set(["CNPJ", "SHOPID", "PRODUCTID", ...TEXTS, ...NUMBERS, ...DATES]);
const COLUMNS = [
  ...KEY,
  ...[...TEXTS, ...NUMBERS].map((name) => name.toLowerCase()),
  ...["source_created_at", "source_updated_at", "extra", "key_hash", "row_hash"],
  ...["last_batch_id", "last_received_at", "last_item_index"],
];
const LIST = COLUMNS.join(", ");
const CREATE = `CREATE TEMPORARY TABLE staged ON COMMIT DELETE ROWS AS SELECT ${LIST} FROM products WITH NO DATA`;
const COPY = `COPY staged (${LIST}) FROM STDIN`;
const CHANGES = COLUMNS.filter((name) => !KEY.includes(name)).map((name) => `${name} = EXCLUDED.${name}`);
const UPSERT = `INSERT INTO products (${LIST}) SELECT ${LIST} FROM staged
  ON CONFLICT (cnpj, shopid, productid) DO UPDATE SET ${CHANGES.join(", ")}, updated_at = now()
  WHERE products.row_hash <> EXCLUDED.row_hash
  AND (EXCLUDED.source_updated_at, EXCLUDED.last_received_at) >= (products.source_updated_at, products.last_received_at)`;

const ESCAPES = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
const SPECIAL = /[\\\t\n\r]/;
const SPECIALS = /[\\\t\n\r]/g;

/** A value as COPY's text format has it. */
function field(value) {
  if (value === null || value === undefined) return "\\N";
  const text = String(value);
  return SPECIAL.test(text) ? text.replace(SPECIALS, (special) => ESCAPES[special]) : text;
}

/** An item's key and its fields; it throws where the item has a fault. */
function row(item, index, batch) {
  const { CNPJ: cnpj, SHOPID: shop, PRODUCTID: id } = item;
  if (typeof cnpj !== "string" || cnpj.length !== 14 || !Number.isInteger(shop) || !id) throw new Error("the key");
  const product = String(id);
  const values = [];
  for (const name of TEXTS) {
    const text = item[name] ?? null;
    if (text !== null && (typeof text !== "string" || text.includes("\0"))) throw new Error("a text");
    values.push(text);
  }
  for (const name of NUMBERS) {
    const number = item[name] ?? null;
    if (number !== null && !Number.isFinite(Number(number))) throw new Error("a number");
    values.push(number);
  }
  const [created, updated, stock] = DATES.map((name) => item[name] ?? null);
  values.push(created, updated !== null && (stock === null || updated > stock) ? updated : stock);
  const others = Object.keys(item).filter((name) => !KNOWN.has(name)).sort();
  values.push(others.length > 0 ? JSON.stringify(Object.fromEntries(others.map((name) => [name, item[name]]))) : null);
  const keyHash = createHash("sha256").update(`${cnpj}\0${shop}\0${product}`).digest().readBigInt64BE();
  const rowHash = createHash("sha256").update(JSON.stringify(values)).digest("hex").slice(0, 32);
  const fields = [cnpj, shop, field(product), ...values.map(field), keyHash, `\\\\x${rowHash}`, batch.id, batch.received, index];
  return { cnpj, shop, product, line: `${fields.join("\t")}\n` };
}

const byKey = (left, right) => {
  if (left.cnpj !== right.cnpj) return left.cnpj < right.cnpj ? -1 : 1;
  if (left.shop !== right.shop) return left.shop - right.shop;
  return left.product < right.product ? -1 : left.product > right.product ? 1 : 0;
};

async function write(client, rows) {
  // Of one key the last counts.
  const latest = new Map(rows.map((row) => [`${row.cnpj}\0${row.shop}\0${row.product}`, row]));
  const lines = [...latest.values()].sort(byKey).map((row) => row.line).join("");
  await client.query("BEGIN");
  await pipeline(Readable.from([Buffer.from(lines)]), client.query(copyFrom(COPY)));
  const { rowCount } = await client.query({ name: "upsert", text: UPSERT });
  await client.query("COMMIT");
  return rowCount;
}

async function load(s3, client, key) {
  const cpu = process.cpuUsage();
  const started = performance.now();
  const batch = { id: randomUUID(), received: new Date().toISOString() };
  const hash = createHash("sha256");
  let [items, written, rows, writing] = [0, 0, [], Promise.resolve(0)];

  const writeNext = async () => {
    written += await writing;
    writing = write(client, rows);
    // A failure is thrown where its outcome is awaited.
    writing.catch(() => {});
    rows = [];
    return none;
  };

  const { Body: body } = await s3.send(new GetObjectCommand({ Bucket: process.env.PAYLOAD_BUCKET, Key: key }));
  await pipeline(
    body,
    createGunzip({ chunkSize: WINDOW }),
    chain([
      (window) => {
        hash.update(window);
        return window;
      },
      // No tokens for parts of values.
      parser({ packValues: true, streamValues: false }),
      streamArray(),
      ({ value }) => {
        rows.push(row(value, items, batch));
        items += 1;
        return rows.length < CHUNK ? none : writeNext();
      },
    ]).resume(),
  );
  if (rows.length > 0) await writeNext();
  written += await writing;
  hash.digest("hex");
  const seconds = (performance.now() - started) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const peak = process.resourceUsage().maxRSS;
  return { items, written, seconds, cpu_seconds: (user + system) / 1e6, peak_kilobytes: peak };
}

const s3 = new S3Client({ endpoint: process.env.AWS_ENDPOINT_URL, forcePathStyle: true });
const client = new pg.Client({
  connectionString: process.env.DATABASE_URL,
  options: "-c timezone=America/Sao_Paulo -c jit=off",
});
await client.connect();
await client.query(CREATE);
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await load(s3, client, line.trim())));
}
await client.end();
s3.destroy();
