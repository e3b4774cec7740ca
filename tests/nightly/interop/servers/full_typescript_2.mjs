// Everything that McpServer of the TypeScript SDK 2.4 can offer and ask, in both eras. It is started in the directory
// where that is installed.

import { createRequire } from "node:module";

import { host, notify } from "./hosting_2.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer, ResourceTemplate, completable, inputRequired } = sdk("@modelcontextprotocol/server");
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
const report = ({ _meta, notify: say }, progress, total) => say({
  method: "notifications/progress", params: { progressToken: _meta.progressToken, progress, total },
});
const saidByUser = (said) => [{ role: "user", content: { type: "text", text: said } }];

// Asks by the result, and goes on with the answer when it comes; the SDK asks clients of the legacy era itself.
const asking = (makeRequest, goOn) => async (...given) => {
  const answer = given.at(-1).mcpReq.inputResponses?.answer;
  return answer === undefined ? inputRequired({ inputRequests: { answer: makeRequest(...given) } }) : text(goOn(answer));
};

function makeServer() {
  const capabilities = { logging: {}, resources: { subscribe: true } };
  const server = new McpServer({ name: "full", version: "1" }, { capabilities });

  server.registerTool("summarise", { inputSchema: z.object({ text: z.string() }) }, asking(
    (given) => inputRequired.createMessage({
      messages: saidByUser(`Summarise: ${given.text}`), maxTokens: 100, systemPrompt: "Be brief.",
    }),
    (said) => `${said.model}: ${said.content.text}`,
  ));
  server.registerTool("research", {}, asking(
    () => inputRequired.createMessage({
      messages: saidByUser("How warm?"),
      maxTokens: 100,
      tools: [{ name: "weather", inputSchema: { type: "object", properties: { city: { type: "string" } } } }],
      toolChoice: { mode: "required" },
    }),
    (said) => `${said.stopReason}: ${[said.content].flat()[0].name} ${[said.content].flat()[0].input.city}`,
  ));
  server.registerTool("book", {}, asking(
    () => inputRequired.elicit({ mode: "form", message: "Your booking, please.", requestedSchema: BOOKING }),
    ({ action, content }) => (action === "accept" ? JSON.stringify(content) : action),
  ));
  server.registerTool("pay", {}, asking(
    () => inputRequired.elicitUrl({ message: "Please pay.", url: "https://example.com/pay" }),
    ({ action }) => action,
  ));
  server.registerTool("where", {}, asking(
    () => inputRequired.listRoots(),
    ({ roots }) => roots.map((root) => root.uri).join(", "),
  ));
  // Clients of the legacy era ask for this; the SDK's entry knows who listens in the modern one.
  server.server.setRequestHandler("resources/subscribe", async () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", async () => ({}));
  server.registerTool("change", {}, async () => {
    await server.server.sendResourceUpdated({ uri: "notes://today" });
    server.sendToolListChanged();
    server.sendPromptListChanged();
    server.sendResourceListChanged();
    notify?.resourceUpdated("notes://today");
    notify?.toolsChanged();
    notify?.promptsChanged();
    notify?.resourcesChanged();
    return text("changed");
  });

  server.registerTool("count", { inputSchema: z.object({ to: z.number() }) }, async ({ to }, { mcpReq }) => {
    for (let step = 1; step <= to; step++) {
      await mcpReq.log("info", `step ${step}`, "count");
      await report(mcpReq, step, to);
    }
    return text(`counted to ${to}`);
  });
  server.registerTool("block", {}, async ({ mcpReq }) => {
    await report(mcpReq, 1);
    await new Promise((resolve) => { mcpReq.signal.addEventListener("abort", resolve); });
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
  const argsSchema = z.object({ title: z.string(), tone: completable(z.string(), tones).optional() });
  server.registerPrompt("review", { title: "Review", argsSchema }, ({ title, tone = "kind" }) => ({
    messages: [
      { role: "user", content: { type: "text", text: `Review ${title} in a ${tone} way.` } },
      { role: "assistant", content: { type: "text", text: "Which edition?" } },
      { role: "user", content: { type: "resource", resource: { uri: "notes://today", text: "a note" } } },
    ],
  }));
  return server;
}

host(makeServer);
