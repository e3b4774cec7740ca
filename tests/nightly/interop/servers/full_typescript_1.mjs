// Everything that McpServer of the TypeScript SDK 1.32 can offer and ask. It is started in the directory where that
// is installed.

import { createRequire } from "node:module";

import { host } from "./hosting_1.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer, ResourceTemplate } = sdk("@modelcontextprotocol/sdk/server/mcp.js");
const { completable } = sdk("@modelcontextprotocol/sdk/server/completable.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");
const { z } = sdk("zod");

const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const BOOKING = {
  type: "object",
  properties: {
    name: { type: "string", description: "The guest." },
    nights: { type: "integer", minimum: 1 },
    room: { type: "string", enum: ["single", "double"], default: "single" },
    breakfast: { type: "boolean", default: true },
  },
  required: ["name", "nights"],
};
const text = (said) => ({ content: [{ type: "text", text: said }] });
const report = ({ _meta, sendNotification }, progress, total) => sendNotification({
  method: "notifications/progress", params: { progressToken: _meta.progressToken, progress, total },
});
const saidByUser = (said) => [{ role: "user", content: { type: "text", text: said } }];

function makeServer() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "full", version: "1" }, { capabilities });

  server.registerTool("summarise", { inputSchema: { text: z.string() } }, async (given) => {
    const messages = saidByUser(`Summarise: ${given.text}`);
    const said = await server.server.createMessage({ messages, maxTokens: 100, systemPrompt: "Be brief." });
    return text(`${said.model}: ${said.content.text}`);
  });
  server.registerTool("research", {}, async () => {
    const tools = [{ name: "weather", inputSchema: { type: "object", properties: { city: { type: "string" } } } }];
    const asked = { messages: saidByUser("How warm?"), maxTokens: 100, tools, toolChoice: { mode: "required" } };
    const said = await server.server.createMessage(asked);
    const [use] = [said.content].flat();
    return text(`${said.stopReason}: ${use.name} ${use.input.city}`);
  });
  server.registerTool("book", {}, async () => {
    const asked = { mode: "form", message: "Your booking, please.", requestedSchema: BOOKING };
    const { action, content } = await server.server.elicitInput(asked);
    return text(action === "accept" ? JSON.stringify(content) : action);
  });
  server.registerTool("pay", {}, async () => {
    const asked = {
      mode: "url", message: "Please pay.", url: "https://example.com/pay", elicitationId: "payment-7",
    };
    const { action } = await server.server.elicitInput(asked);
    await server.server.createElicitationCompletionNotifier("payment-7")();
    return text(action);
  });
  server.registerTool("where", {}, async () => {
    const { roots } = await server.server.listRoots();
    return text(roots.map((root) => root.uri).join(", "));
  });
  const subscribed = new Set();
  server.server.setRequestHandler(types.SubscribeRequestSchema, ({ params }) => {
    subscribed.add(params.uri);
    return {};
  });
  server.server.setRequestHandler(types.UnsubscribeRequestSchema, ({ params }) => {
    subscribed.delete(params.uri);
    return {};
  });
  server.registerTool("change", {}, async () => {
    for (const uri of subscribed) await server.server.sendResourceUpdated({ uri });
    server.sendToolListChanged();
    server.sendPromptListChanged();
    server.sendResourceListChanged();
    return text("changed");
  });

  server.registerTool("count", { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
    for (let step = 1; step <= to; step++) {
      await server.server.sendLoggingMessage({ level: "info", logger: "count", data: `step ${step}` });
      await report(extra, step, to);
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("block", {}, async (extra) => {
    await report(extra, 1);
    await new Promise((resolve) => { extra.signal.addEventListener("abort", resolve); });
    throw new Error("cancelled");
  });

  const plain = { mimeType: "text/plain" };
  server.registerResource("today", "notes://today", { title: "Today", ...plain }, async ({ href }) => ({
    contents: [{ uri: href, text: "buy milk", ...plain }],
  }));
  server.registerResource("picture", "notes://picture", { mimeType: "image/png" }, async ({ href }) => ({
    contents: [{ uri: href, blob: PNG, mimeType: "image/png" }],
  }));
  const complete = {
    title: (value, context) => [`${value} by ${context?.arguments?.author ?? "nobody"}`],
  };
  const template = new ResourceTemplate("notes://{author}/{title}", { list: undefined, complete });
  server.registerResource("note", template, plain, async ({ href }, { author, title }) => ({
    contents: [{ uri: href, text: `${title} is by ${author}`, ...plain }],
  }));

  const tones = (value) => ["kind", "harsh", "honest"].filter((tone) => tone.startsWith(value));
  const argsSchema = { title: z.string(), tone: completable(z.string().optional(), tones) };
  server.registerPrompt("review", { title: "Review", argsSchema }, ({ title, tone = "kind" }) => ({
    messages: [
      { role: "user", content: { type: "text", text: `Review ${title} in a ${tone} way.` } },
      { role: "assistant", content: { type: "text", text: "Which edition?" } },
      { role: "user", content: { type: "resource", resource: { uri: "notes://today", text: "a note" } } },
    ],
  }));
  return server;
}

await host(makeServer);
