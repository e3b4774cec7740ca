// All of a server's features with the TypeScript SDK, version 1: `full_typescript_1.mjs MARKER URL|COMMAND…`; see
// full_script.mjs. It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";

import { found, run, User } from "./full_script.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const { Client } = sdk("@modelcontextprotocol/sdk/client/index.js");
const types = sdk("@modelcontextprotocol/sdk/types.js");

function reach(target, ...args) {
  if (target.endsWith("/sse")) {
    const { SSEClientTransport } = sdk("@modelcontextprotocol/sdk/client/sse.js");
    return new SSEClientTransport(new URL(target));
  }
  if (target.startsWith("http:")) {
    const { StreamableHTTPClientTransport } = sdk("@modelcontextprotocol/sdk/client/streamableHttp.js");
    return new StreamableHTTPClientTransport(new URL(target));
  }
  const { StdioClientTransport } = sdk("@modelcontextprotocol/sdk/client/stdio.js");
  return new StdioClientTransport({ command: target, args });
}

const [marker, ...server] = process.argv.slice(2);
const user = new User();
const hasElicitation = types.ElicitRequestSchema !== undefined;
const capabilities = {
  roots: { listChanged: true },
  sampling: { tools: {} },
  ...(hasElicitation && { elicitation: { form: {}, url: {} } }),
};
const client = new Client({ name: "typescript 1", version: "1" }, { capabilities });
const transport = reach(...server);

client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => user.sample(params));
client.setRequestHandler(types.ListRootsRequestSchema, () => user.listRoots());
if (hasElicitation) {
  client.setRequestHandler(types.ElicitRequestSchema, ({ params }, { signal }) => user.elicit(params, signal));
}
for (const schema of [
  types.LoggingMessageNotificationSchema,
  types.ToolListChangedNotificationSchema,
  types.PromptListChangedNotificationSchema,
  types.ResourceListChangedNotificationSchema,
  types.ResourceUpdatedNotificationSchema,
  types.ElicitationCompleteNotificationSchema,
]) {
  if (schema) client.setNotificationHandler(schema, ({ method, params }) => user.notified(method, params));
}

// What was agreed on is not shown by every version, so it is looked up where it arrives.
let revision;
const start = transport.start.bind(transport);
transport.start = async () => {
  const onmessage = transport.onmessage;
  transport.onmessage = (message, extra) => {
    revision ??= message.result?.protocolVersion;
    onmessage(message, extra);
  };
  await start();
};

await client.connect(transport);
const callTool = (name, given, options) => client.callTool({ name, arguments: given }, undefined, options);
const setLogLevel = (level) => client.setLoggingLevel(level);
await run(client, { revision, callTool, setLogLevel }, user, marker);
await client.close();
found("closed", true);
