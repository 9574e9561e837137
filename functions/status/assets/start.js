// Swagger UI fills every example into its field, and sends it. These would make the first request
// of an operation fail, or match nothing.
const NOT_PREFILLED = ["Content-Encoding", "Idempotency-Expiry-Seconds", "source_key", "batch_id", "body_id", "test_id"];

// `crypto.randomUUID` is missing where the page does not come over TLS.
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// What `parameter` is, whether it stands there or is referred to.
function resolved(contract, parameter) {
  const name = parameter.$ref?.replace("#/components/parameters/", "");
  return structuredClone(name ? contract.components.parameters[name] : parameter);
}

// Where the schema is referred to, its example would be filled in as well.
function withoutExample(contract, parameter) {
  const { example, examples, ...rest } = parameter;
  const name = rest.schema?.$ref?.replace("#/components/schemas/", "");
  const schema = structuredClone(name ? contract.components.schemas[name] : rest.schema);
  delete schema.example;
  delete schema.examples;
  return { ...rest, schema };
}

// A key of each operation's own, new with each visit: a key that everybody has is a replay of
// somebody else's request.
function prefilled(contract, parameter) {
  const full = resolved(contract, parameter);
  if (full.name === "Idempotency-Key") return { ...withoutExample(contract, full), example: uuid() };
  return NOT_PREFILLED.includes(full.name) ? withoutExample(contract, full) : full;
}

// The first example is the one that is sent first, so it takes nothing off a queue.
const READS = { consume: "browseOnly", move: "dryRun" };

function readsFirst(operation) {
  const member = READS[operation.operationId];
  if (!member) return;
  const content = operation.requestBody.content["application/json"];
  const all = Object.entries(content.examples);
  const isRead = ([, example]) => example.value[member] === true;
  content.examples = Object.fromEntries([...all.filter(isRead), ...all.filter((entry) => !isRead(entry))]);
}

// The contract as this page shows it: the same, but for what it fills in.
function forTrying(contract) {
  // The policy of this page admits no other server than its own.
  contract.servers = contract.servers.slice(0, 1);
  for (const path of Object.values(contract.paths)) {
    for (const operation of Object.values(path)) {
      if (operation.parameters) operation.parameters = operation.parameters.map((one) => prefilled(contract, one));
      readsFirst(operation);
    }
  }
  return contract;
}

window.addEventListener("load", async () => {
  const response = await fetch("openapi.json");
  window.ui = SwaggerUIBundle({
    spec: forTrying(await response.json()),
    dom_id: "#swagger-ui",
    deepLinking: true,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    // The default asks a validator on the internet.
    validatorUrl: null,
  });
});
