// A server with an app, made by the server's half of ext-apps; it says what of its client the package sees.
// It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { host } from "./hosting_2.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { McpServer } = sdk("@modelcontextprotocol/server");
const { z } = sdk("zod");
const folder = `${process.cwd()}/node_modules/@modelcontextprotocol/ext-apps/dist/src/server/index.js`;
const apps = await import(pathToFileURL(folder));

const URI = "ui://theirs/page.html";

function makeServer() {
  const server = new McpServer({ name: "theirs", version: "1" });
  const add = z.object({ a: z.number(), b: z.number() });
  const _meta = { ui: { resourceUri: URI } };
  apps.registerAppTool(server, "add", { inputSchema: add, _meta }, async ({ a, b }) => ({
    content: [{ type: "text", text: String(a + b) }],
  }));
  const hidden = { ui: { resourceUri: URI, visibility: ["app"] } };
  apps.registerAppTool(server, "refresh", { _meta: hidden }, async () => {
    const seen = apps.getUiCapability(server.server.getClientCapabilities());
    return { content: [{ type: "text", text: JSON.stringify(seen ?? null) }] };
  });
  const csp = { connectDomains: ["https://api.example.com"], frameDomains: ["https://video.example.com"] };
  const ui = { csp, permissions: { microphone: {} }, prefersBorder: false };
  apps.registerAppResource(server, "page", URI, {}, async () => ({
    contents: [{ uri: URI, mimeType: apps.RESOURCE_MIME_TYPE, text: "<!DOCTYPE html><p>theirs", _meta: { ui } }],
  }));
  return server;
}

console.error("ready to serve");
host(makeServer);
