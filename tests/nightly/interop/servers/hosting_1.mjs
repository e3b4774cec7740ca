// How every server on the TypeScript SDK, version 1, is reached: `program.mjs [TRANSPORT [OPTION…]]`, over stdio
// unless told otherwise. The options are `json` and `stateless`.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const sdk = createRequire(`${process.cwd()}/`);
const [transport = "stdio", ...options] = process.argv.slice(2);

// Keeps what was said on streams for those who take them up again.
class Events {
  #said = [];

  async storeEvent(streamId, message) {
    this.#said.push([streamId, message]);
    return String(this.#said.length - 1);
  }

  async getStreamIdForEventId(eventId) {
    return this.#said[Number(eventId)]?.[0];
  }

  async replayEventsAfter(lastEventId, { send }) {
    const stream = this.#said[Number(lastEventId)][0];
    for (let number = Number(lastEventId) + 1; number < this.#said.length; number++) {
      const [streamId, message] = this.#said[number];
      const says = Object.keys(message).length > 0; // unlike what only marks a place
      if (streamId === stream && says) await send(String(number), message);
    }
    return stream;
  }
}

// Each session has a server and a transport of its own.
function hostStreamableHttp(makeServer) {
  const { StreamableHTTPServerTransport } = sdk("@modelcontextprotocol/sdk/server/streamableHttp.js");
  const sessions = new Map();
  return async (request, response) => {
    let session = sessions.get(request.headers["mcp-session-id"]);
    if (session === undefined && request.headers["mcp-session-id"]) {
      response.writeHead(404).end();
      return;
    }
    session ??= new StreamableHTTPServerTransport({
      sessionIdGenerator: options.includes("stateless") ? undefined : randomUUID,
      enableJsonResponse: options.includes("json"),
      eventStore: new Events(),
      retryInterval: 100,
      onsessioninitialized: (id) => { sessions.set(id, session); },
      onsessionclosed: (id) => { sessions.delete(id); },
    });
    if (session.sessionId === undefined) await makeServer().connect(session);
    await session.handleRequest(request, response);
  };
}

function hostSse(makeServer) {
  const { SSEServerTransport } = sdk("@modelcontextprotocol/sdk/server/sse.js");
  const sessions = new Map();
  return async (request, response) => {
    const { pathname, searchParams } = new URL(request.url, "http://127.0.0.1");
    if (request.method === "GET" && pathname === "/sse") {
      const session = new SSEServerTransport("/messages", response);
      sessions.set(session.sessionId, session);
      await makeServer().connect(session);
    } else if (request.method === "POST" && pathname === "/messages") {
      await sessions.get(searchParams.get("sessionId")).handlePostMessage(request, response);
    } else {
      response.writeHead(pathname === "/sse" ? 405 : 404).end();
    }
  };
}

export async function host(makeServer) {
  if (transport === "stdio") {
    const { StdioServerTransport } = sdk("@modelcontextprotocol/sdk/server/stdio.js");
    await makeServer().connect(new StdioServerTransport());
  } else {
    createServer((transport === "sse" ? hostSse : hostStreamableHttp)(makeServer)).listen(0, "127.0.0.1");
  }
}
