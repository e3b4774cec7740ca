// What is measured of McpServer of the TypeScript SDK 2, in both eras: `typescript_2.mjs stdio|node`. It is started in
// the directory where that is installed.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer, ResourceTemplate, createMcpHandler, inputRequired } =
  sdk("@modelcontextprotocol/server");
const { serveStdio } = sdk("@modelcontextprotocol/server/stdio");
const { z } = sdk("zod");

const endedAt = {};
const listeners = new Set();
let handler; // serves modern HTTP, and knows who listens there
const text = (said) => ({ content: [{ type: "text", text: said }] });
const filler = z.object({
  name: z.string().describe("What it is done to."),
  count: z.number().int().describe("How often."),
  ratio: z.number().describe("How much of it."),
  tags: z.array(z.string()).describe("What to call it."),
  dry_run: z.boolean().default(false).describe("Whether to do even less."),
});
const TEXT = z.object({ text: z.string() });
const COUNT = z.object({ count: z.number() });
const NAME = { type: "object", properties: { value: { type: "string" } }, required: ["value"] };

// Asks by the result, and goes on with the answer when it comes; the SDK asks clients of the legacy era itself.
const asking = (makeRequest, goOn) => async (...given) => {
  const answer = given.at(-1).mcpReq.inputResponses?.answer;
  return answer === undefined ? inputRequired({ inputRequests: { answer: makeRequest(...given) } }) : text(goOn(answer));
};

function makeServer() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "typescript 2", version: "1" }, { capabilities });
  const tool = (name, description, inputSchema, run) =>
    server.registerTool(name, inputSchema ? { description, inputSchema } : { description }, run);
  const report = (context, progress, total) => context.mcpReq.notify({
    method: "notifications/progress",
    params: { progressToken: context.mcpReq._meta?.progressToken, progress, total },
  });

  tool("echo", "Say it again.", TEXT, async (given) => text(given.text));
  tool("report", "Say it again, and report progress once.", TEXT, async (given, context) => {
    await report(context, 1, 1);
    return text(given.text);
  });
  tool("flood", "Report progress so many times.", COUNT, async ({ count }, context) => {
    for (let step = 1; step <= count; step++) await report(context, step, count);
    return text("done");
  });
  tool("shout", "Send so many log messages.", COUNT, async ({ count }, context) => {
    for (let step = 0; step < count; step++) await context.mcpReq.log("info", "a message");
    return text("done");
  });
  tool("blob", "Return so much text.", z.object({ size: z.number() }), async ({ size }) => text("x".repeat(size)));
  tool("swallow", "Return how long a text is.", TEXT, async (given) => text(String(given.text.length)));
  tool("ask", "Ask the user.", undefined, asking(
    () => inputRequired.elicit({ mode: "form", message: "What is your name?", requestedSchema: NAME }),
    ({ content }) => content.value,
  ));
  tool("sample", "Ask the model.", undefined, asking(
    () => inputRequired.createMessage({
      messages: [{ role: "user", content: { type: "text", text: "Say something." } }], maxTokens: 10,
    }),
    (said) => said.content.text,
  ));
  tool("hold", "Wait for ever, and note when that ends.", z.object({ key: z.string() }), async ({ key }, context) => {
    await report(context, 1);
    await new Promise((resolve) => { context.mcpReq.signal.addEventListener("abort", resolve); });
    endedAt[key] = Number(process.hrtime.bigint());
    throw new Error("cancelled");
  });
  tool("ended", "Tell when those that waited ended.", undefined, async () => {
    const said = JSON.stringify(endedAt);
    for (const key of Object.keys(endedAt)) delete endedAt[key];
    return text(said);
  });
  tool("touch", "Say that a resource has changed.", undefined, async () => {
    const uri = "bench://watched";
    if (handler) {
      for (const listener of listeners) await listener.server.sendResourceUpdated({ uri });
      handler.notify.resourceUpdated(uri);
    } else {
      await server.server.sendResourceUpdated({ uri });
    }
    return text("done");
  });
  for (let number = 0; number < 39; number++) {
    tool(`filler_${number}`, "Do nothing, at some length.", filler, async (given) => text(JSON.stringify(given)));
  }

  // Clients of the legacy era ask for this; the SDK's entries know who listens in the modern one.
  server.server.setRequestHandler("resources/subscribe", async () => { listeners.add(server); return {}; });
  server.server.setRequestHandler("resources/unsubscribe", async () => { listeners.delete(server); return {}; });
  server.server.onclose = () => listeners.delete(server);
  const template = (kind) => new ResourceTemplate(`bench://${kind}/{size}`, { list: undefined });
  server.registerResource("text", template("text"), { mimeType: "text/plain" }, async ({ href }, { size }) => ({
    contents: [{ uri: href, text: "x".repeat(Number(size)), mimeType: "text/plain" }],
  }));
  server.registerResource("binary", template("binary"), {}, async ({ href }, { size }) => ({
    contents: [{ uri: href, blob: Buffer.alloc(Number(size)).toString("base64"), mimeType: "application/octet-stream" }],
  }));
  server.registerResource("watched", "bench://watched", {}, async ({ href }) => ({
    contents: [{ uri: href, text: "as it was" }],
  }));
  server.registerPrompt("greet", { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  return server;
}

if (process.argv[2] === "stdio") {
  serveStdio(makeServer);
} else {
  const { NodeStreamableHTTPServerTransport, toNodeHandler, localhostHostValidation } = sdk("@modelcontextprotocol/node");
  const isLocal = localhostHostValidation();
  const sessions = new Map();
  handler = createMcpHandler(makeServer, { legacy: "reject", maxSubscriptions: 2_000 });
  const serveModern = toNodeHandler(handler);
  const serveLegacy = async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (transport === undefined) {
      transport = new NodeStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => { sessions.set(id, transport); },
        onsessionclosed: (id) => { sessions.delete(id); },
      });
      await makeServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  };
  const listener = createServer(async (request, response) => {
    if (!isLocal(request, response)) return;
    // The harness names the era in the header field that only the modern era has.
    await (request.headers["mcp-method"] ? serveModern : serveLegacy)(request, response);
  });
  listener.keepAliveTimeout = 75_000;
  listener.listen({ port: 0, host: "127.0.0.1", backlog: 2048 }, () => {
    console.log(`http://127.0.0.1:${listener.address().port}/mcp`);
  });
}
