/**
 * A job starts only when a licence is free, and holds it until it ends:
 * `node --experimental-strip-types licences.ts PORT`. A service of more than one process keeps
 * `held` in a database.
 */

import { createServer } from "node:http";
import { pending, ready, Refused, webhook } from "./kueue-check.ts";

const TOTAL = 2;
const held = new Set<string>();
const free = (uid: string) => held.has(uid) || held.size < TOTAL;

const listener = webhook({
  key: process.env.SIGNING_KEY,
  review: (item) =>
    free(item.uid) ? ready("a licence is free") : pending("all licences are in use", { recheckAfter: 60 }),
  activate: (call) => {
    if (!free(call.uid)) throw new Refused("all licences are in use");
    held.add(call.uid);
  },
  release: (call) => void held.delete(call.uid),
  held: () => [...held],
});

createServer(listener).listen(Number(process.argv[2]), "127.0.0.1");
