// All of a server's features with the TypeScript SDK, version 2: `full_typescript_2.mjs MODE MARKER URL|COMMAND…`; see
// full_script.mjs. It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

import { found, run, User } from "./full_script.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { Client, SSEClientTransport, StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/client");
const { StdioClientTransport } = sdk("@modelcontextprotocol/client/stdio");

function reach(target, ...args) {
  if (target.endsWith("/sse")) return new SSEClientTransport(new URL(target));
  if (target.startsWith("http:")) return new StreamableHTTPClientTransport(new URL(target));
  return new StdioClientTransport({ command: target, args });
}

const [mode, marker, ...server] = process.argv.slice(2);
const versionNegotiation = { mode: mode === "auto" || mode === "legacy" ? mode : { pin: mode } };
const capabilities = { roots: { listChanged: true }, sampling: { tools: {} }, elicitation: { form: {}, url: {} } };
const client = new Client({ name: "typescript 2", version: "1" }, { versionNegotiation, capabilities });
const user = new User();

client.setRequestHandler("sampling/createMessage", ({ params }) => user.sample(params));
client.setRequestHandler("roots/list", () => user.listRoots());
client.setRequestHandler("elicitation/create", ({ params }, { mcpReq }) => user.elicit(params, mcpReq.signal));
for (const method of [
  "notifications/message",
  "notifications/tools/list_changed",
  "notifications/prompts/list_changed",
  "notifications/resources/list_changed",
  "notifications/resources/updated",
  "notifications/elicitation/complete",
]) {
  client.setNotificationHandler(method, ({ params }) => user.notified(method, params));
}

await client.connect(reach(...server));
let more = {};
const callTool = (name, given, options) => client.callTool({ name, arguments: given, ...more }, options);
const setLogLevel = async (level) => {
  if (client.getProtocolEra() === "modern") {
    more = { _meta: { "io.modelcontextprotocol/logLevel": level } };
  } else {
    await client.setLoggingLevel(level);
  }
};
const listen = (uri) => client.listen({
  toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true, resourceSubscriptions: [uri],
});
const revision = client.getNegotiatedProtocolVersion();
await run(client, { revision, callTool, setLogLevel, listen }, user, marker);
await client.close();
found("closed", true);
