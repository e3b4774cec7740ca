// Says on standard error where anything in this process listens: `node --import announce.mjs PROGRAM`, for programs
// that are told port 0 and repeat it.

import { Server } from "node:net";

const { listen } = Server.prototype;
Server.prototype.listen = function announced(...args) {
  this.once("listening", () => console.error(`listening at http://127.0.0.1:${this.address().port}`));
  return listen.apply(this, args);
};
