// A host on the package of ext-apps: `apps_typescript_2.mjs MODE COMMAND…`; says what it makes of a server's apps.
// It is started in the directory where the version under test is installed.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const sdk = createRequire(`${process.cwd()}/`);
const { Client } = sdk("@modelcontextprotocol/client");
const { StdioClientTransport } = sdk("@modelcontextprotocol/client/stdio");
const folder = `${process.cwd()}/node_modules/@modelcontextprotocol/ext-apps/dist/src`;
const bridge = await import(pathToFileURL(`${folder}/app-bridge.js`));

const [mode, command, ...args] = process.argv.slice(2);
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: [bridge.RESOURCE_MIME_TYPE] } };
const versionNegotiation = { mode };
const client = new Client({ name: "host", version: "1" }, { capabilities: { extensions }, versionNegotiation });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));

const { tools } = await client.listTools();
const { contents: [page] } = await client.readResource({ uri: bridge.getToolUiResourceUri(tools[0]) });
console.log(JSON.stringify({
  revision: client.getNegotiatedProtocolVersion(),
  declared: client.getServerCapabilities().extensions,
  pages: tools.map((tool) => bridge.getToolUiResourceUri(tool) ?? null),
  appOnly: tools.map((tool) => bridge.isToolVisibilityAppOnly(tool)),
  modelOnly: tools.map((tool) => bridge.isToolVisibilityModelOnly(tool)),
  mimeType: page.mimeType,
  meta: bridge.McpUiResourceMetaSchema.parse(page._meta.ui),
  allow: bridge.buildAllowAttribute(page._meta.ui.permissions),
  told: (await client.callTool({ name: "tell", arguments: {} })).content[0].text,
}));
await client.close();
