"""load.py: takes keys of catalogues in S3, a line each, and writes their products to PostgreSQL; each is answered with a line that says what it took.

What a careful program in Python does with a catalogue: orjson for the whole of it, chunks of a thousand rows in the order of their keys, each a
transaction with COPY to a temporary table and INSERT … ON CONFLICT DO UPDATE of what changed. One thread makes rows while another writes.
"""

import gzip
import hashlib
import os
import re
import resource
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

import boto3
import orjson
import psycopg

CHUNK = 1000
TEXTS = ("TITLE", "DESCRIPTION", "EAN", "BRAND", "NCM", "CATEGORY", "IMAGELINK", "COLOR")
NUMBERS = ("PRICE", "PRICEPROMO", "WHOLESALEPRICE", "QUANTITY", "SIZE", "MEASURE", "WHOLESALEMIN", "INDICE")
DATES = ("DATACADASTROPRODUTO", "DATAATUALIZACAOPRODUTO", "DATAATUALIZACAOESTOQUE")
KNOWN = frozenset(("CNPJ", "SHOPID", "PRODUCTID", *TEXTS, *NUMBERS, *DATES))
KEY = ("cnpj", "shopid", "productid")
COLUMNS = (
    *KEY,
    *(name.lower() for name in TEXTS),
    *(name.lower() for name in NUMBERS),
    "source_created_at",
    "source_updated_at",
    "extra",
    "key_hash",
    "row_hash",
    "last_batch_id",
    "last_received_at",
    "last_item_index",
)
LIST = ", ".join(COLUMNS)
CREATE = f"CREATE TEMPORARY TABLE staged ON COMMIT DELETE ROWS AS SELECT {LIST} FROM products WITH NO DATA"
COPY = f"COPY staged ({LIST}) FROM STDIN"
UPSERT = f"""INSERT INTO products ({LIST}) SELECT {LIST} FROM staged
    ON CONFLICT (cnpj, shopid, productid) DO UPDATE
    SET {", ".join(f"{name} = EXCLUDED.{name}" for name in COLUMNS if name not in KEY)}, updated_at = now()
    WHERE products.row_hash <> EXCLUDED.row_hash
    AND (EXCLUDED.source_updated_at, EXCLUDED.last_received_at) >= (products.source_updated_at, products.last_received_at)"""
ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
SPECIAL = re.compile(r"[\\\t\n\r]")


def row(item):
    """An item's key and its fields as COPY's text format has them; it raises where the item has a fault."""
    cnpj, shop, product = item["CNPJ"], item["SHOPID"], str(item["PRODUCTID"])
    if len(cnpj) != 14 or type(shop) is not int or not product:
        raise ValueError("the key")
    values = [item.get(name) for name in TEXTS]
    for text in values:
        if text is not None and (type(text) is not str or "\0" in text):
            raise ValueError("a text")
    for name in NUMBERS:
        number = item.get(name)
        if number is not None:
            float(number)
        values.append(number)
    created, updated, stock = (item.get(name) for name in DATES)
    values.append(created)
    values.append(max(filter(None, (updated, stock)), default=None))
    extra = {name: item[name] for name in item.keys() - KNOWN}
    values.append(orjson.dumps(extra, option=orjson.OPT_SORT_KEYS).decode() if extra else None)
    key_hash = hashlib.sha256(b"%s%s%s" % (cnpj.encode(), shop.to_bytes(4, "big", signed=True), product.encode())).digest()
    row_hash = hashlib.sha256(orjson.dumps(values)).digest()
    fields = ["\0" if value is None else str(value) for value in values]
    # Nearly no row has a character that COPY wants escaped, so all are looked at together.
    if SPECIAL.search("".join(fields)):
        fields = [field.translate(ESCAPES) for field in fields]
    fields = ["\\N" if field == "\0" else field for field in fields]
    fields.append(str(int.from_bytes(key_hash[:8], "big", signed=True)))
    fields.append("\\\\x" + row_hash[:16].hex())
    return (cnpj, shop, product), fields


def load(s3, connection, key):
    """Loads one catalogue; chunks are written while the next ones are made."""
    started, cpu = time.perf_counter(), time.process_time()
    batch, received = str(uuid.uuid4()), datetime.now(timezone.utc).isoformat()
    content = gzip.decompress(s3.get_object(Bucket=os.environ["PAYLOAD_BUCKET"], Key=key)["Body"].read())
    hashlib.sha256(content).hexdigest()
    items = orjson.loads(content)
    del content

    def write(lines):
        with connection.transaction(), connection.cursor() as cursor:
            with cursor.copy(COPY) as copy:
                copy.write(lines)
            cursor.execute(UPSERT)
            return cursor.rowcount

    written, writing = 0, None
    with ThreadPoolExecutor(max_workers=1) as writer:
        for first in range(0, len(items), CHUNK):
            # Of one key the last counts.
            rows = {}
            for index, item in enumerate(items[first : first + CHUNK], first):
                identity, fields = row(item)
                rows[identity] = (*fields, batch, received, str(index))
            lines = "".join(
                "\t".join((cnpj, str(shop), product.translate(ESCAPES), *rows[cnpj, shop, product])) + "\n"
                for cnpj, shop, product in sorted(rows)
            )
            if writing is not None:
                written += writing.result()
            writing = writer.submit(write, lines)
        if writing is not None:
            written += writing.result()
    return {
        "items": len(items),
        "written": written,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "peak_kilobytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def main():
    s3 = boto3.client("s3")
    options = "-c timezone=America/Sao_Paulo -c jit=off"
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True, options=options) as connection:
        connection.execute(CREATE)
        for line in sys.stdin:
            print(orjson.dumps(load(s3, connection, line.strip())).decode(), flush=True)


main()
