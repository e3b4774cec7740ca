// A protected server on the TypeScript SDK, version 2, by the authorization server of the SDK's own demonstration:
// `protected_typescript_2.mjs streamable-http DEMO PORT`. That one is a file of version 1: version 2 has no other.
// Who asks is logged in at once. The tool `whoami` says which client the token was issued to.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

import { host } from "./hosting_2.mjs";

const sdk = createRequire(`${process.cwd()}/`);
const {
  getOAuthProtectedResourceMetadataUrl, McpServer, OAuthError, OAuthErrorCode, oauthMetadataResponse, requireBearerAuth,
} = sdk("@modelcontextprotocol/server");

const [, demo, port] = process.argv.slice(2);
const SCOPES = ["mcp:tools"];
const { setupAuthServer } = await import(pathToFileURL(demo));
const oauthMetadata = setupAuthServer({
  authServerUrl: new URL(`http://localhost:${port}`), mcpServerUrl: new URL("http://127.0.0.1/mcp"), strictResource: false,
});

const verifier = {
  async verifyAccessToken(token) {
    const asked = { method: "POST", body: new URLSearchParams({ token }) };
    const found = await (await fetch(oauthMetadata.introspection_endpoint, asked)).json();
    if (!found.active) throw new OAuthError(OAuthErrorCode.InvalidToken, "not one that is known");
    return {
      token,
      clientId: found.client_id,
      scopes: found.scope.split(" "),
      expiresAt: found.exp,
      resource: new URL(found.aud),
    };
  },
};

async function guard(request) {
  const resourceServerUrl = new URL("/mcp", request.url);
  const document = oauthMetadataResponse(request, { oauthMetadata, resourceServerUrl, scopesSupported: SCOPES });
  if (document) return document;
  const gate = requireBearerAuth({
    verifier,
    requiredScopes: SCOPES,
    resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resourceServerUrl),
    expectedResource: resourceServerUrl,
  });
  return gate(request);
}

function makeServer() {
  const server = new McpServer({ name: "protected", version: "1" });
  server.registerTool("whoami", {}, async (context) => ({
    content: [{ type: "text", text: context.http.authInfo.clientId }],
  }));
  return server;
}

const hosted = host(makeServer, guard);
hosted.once("listening", () => console.error(`listening at http://127.0.0.1:${hosted.address().port}`));
