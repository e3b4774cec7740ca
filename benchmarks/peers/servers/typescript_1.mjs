// What is measured of McpServer of the TypeScript SDK 1: `typescript_1.mjs stdio|node|sse`. It is started in the
// directory where that is installed.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer, ResourceTemplate } = sdk("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = sdk("@modelcontextprotocol/sdk/server/stdio.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");
const { z } = sdk("zod");

const endedAt = {};
const listeners = new Set();
const text = (said) => ({ content: [{ type: "text", text: said }] });
const filler = {
  name: z.string().describe("What it is done to."),
  count: z.number().int().describe("How often."),
  ratio: z.number().describe("How much of it."),
  tags: z.array(z.string()).describe("What to call it."),
  dry_run: z.boolean().default(false).describe("Whether to do even less."),
};
const NAME = { type: "object", properties: { value: { type: "string" } }, required: ["value"] };

function makeServer() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "typescript 1", version: "1" }, { capabilities });
  const tool = (name, description, inputSchema, run) => server.registerTool(name, { description, inputSchema }, run);
  const report = (extra, progress, total) => extra.sendNotification({
    method: "notifications/progress",
    params: { progressToken: extra._meta?.progressToken, progress, total },
  });

  tool("echo", "Say it again.", { text: z.string() }, async (given) => text(given.text));
  tool("report", "Say it again, and report progress once.", { text: z.string() }, async (given, extra) => {
    await report(extra, 1, 1);
    return text(given.text);
  });
  tool("flood", "Report progress so many times.", { count: z.number() }, async ({ count }, extra) => {
    for (let step = 1; step <= count; step++) await report(extra, step, count);
    return text("done");
  });
  tool("shout", "Send so many log messages.", { count: z.number() }, async ({ count }, extra) => {
    const params = { level: "info", data: "a message" };
    for (let step = 0; step < count; step++) await extra.sendNotification({ method: "notifications/message", params });
    return text("done");
  });
  tool("blob", "Return so much text.", { size: z.number() }, async ({ size }) => text("x".repeat(size)));
  tool("swallow", "Return how long a text is.", { text: z.string() }, async (given) => text(String(given.text.length)));
  tool("ask", "Ask the user.", {}, async (_, extra) => {
    const params = { mode: "form", message: "What is your name?", requestedSchema: NAME };
    const answer = await extra.sendRequest({ method: "elicitation/create", params }, types.ElicitResultSchema);
    return text(answer.content.value);
  });
  tool("sample", "Ask the model.", {}, async (_, extra) => {
    const messages = [{ role: "user", content: { type: "text", text: "Say something." } }];
    const params = { messages, maxTokens: 10 };
    const said = await extra.sendRequest({ method: "sampling/createMessage", params }, types.CreateMessageResultSchema);
    return text(said.content.text);
  });
  tool("hold", "Wait for ever, and note when that ends.", { key: z.string() }, async ({ key }, extra) => {
    await report(extra, 1);
    await new Promise((resolve) => { extra.signal.addEventListener("abort", resolve); });
    endedAt[key] = Number(process.hrtime.bigint());
    throw new Error("cancelled");
  });
  tool("ended", "Tell when those that waited ended.", {}, async () => {
    const said = JSON.stringify(endedAt);
    for (const key of Object.keys(endedAt)) delete endedAt[key];
    return text(said);
  });
  tool("touch", "Say that a resource has changed.", {}, async () => {
    for (const listener of listeners) await listener.server.sendResourceUpdated({ uri: "bench://watched" });
    return text("done");
  });
  for (let number = 0; number < 39; number++) {
    tool(`filler_${number}`, "Do nothing, at some length.", filler, async (given) => text(JSON.stringify(given)));
  }

  server.server.setRequestHandler(types.SubscribeRequestSchema, () => { listeners.add(server); return {}; });
  server.server.setRequestHandler(types.UnsubscribeRequestSchema, () => { listeners.delete(server); return {}; });
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
  server.registerPrompt("greet", { argsSchema: { name: z.string() } }, ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Hello, ${name}!` } }],
  }));
  return server;
}

function listen(handle, path) {
  const listener = createServer(handle);
  listener.keepAliveTimeout = 75_000;
  listener.listen({ port: 0, host: "127.0.0.1", backlog: 2048 }, () => {
    console.log(`http://127.0.0.1:${listener.address().port}${path}`);
  });
}

if (process.argv[2] === "stdio") {
  await makeServer().connect(new StdioServerTransport());
} else if (process.argv[2] === "sse") {
  const { SSEServerTransport } = sdk("@modelcontextprotocol/sdk/server/sse.js");
  const sessions = new Map();
  listen(async (request, response) => {
    if (request.method === "GET") {
      const transport = new SSEServerTransport("/messages", response);
      sessions.set(transport.sessionId, transport);
      response.on("close", () => sessions.delete(transport.sessionId));
      await makeServer().connect(transport);
    } else {
      const id = new URL(request.url, "http://localhost").searchParams.get("sessionId");
      await sessions.get(id).handlePostMessage(request, response);
    }
  }, "/sse");
} else {
  const { StreamableHTTPServerTransport } = sdk("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const sessions = new Map();
  listen(async (request, response) => {
    let transport = sessions.get(request.headers["mcp-session-id"]);
    if (transport === undefined) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => sessions.set(id, transport),
        onsessionclosed: (id) => sessions.delete(id),
      });
      await makeServer().connect(transport);
    }
    await transport.handleRequest(request, response);
  }, "/mcp");
}
