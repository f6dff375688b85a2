/** Jobs start only inside a daily window: `node --experimental-strip-types window.ts PORT`. */

import { createServer } from "node:http";
import { pending, ready, webhook } from "./kueue-check.ts";
import type { Item, Review } from "./kueue-check.ts";

/** What a clock in `zone` shows at `time`, as if it were UTC. */
function local(time: Date, zone: string): Date {
  const format = new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  return new Date(`${format.format(time).replace(" ", "T")}Z`);
}

function window(_item: Item, review: Review) {
  const { opens, closes, timeZone } = review.config;
  const now = local(review.time, timeZone);
  const at = now.toISOString().slice(11, 19);
  const [early, late] = [at < closes, opens <= at];
  if (opens <= closes ? early && late : early || late) return ready("inside the window");
  const day = new Date(now.getTime() + (late ? 86_400_000 : 0)).toISOString().slice(0, 10);
  const shown = new Date(`${day}T${opens}Z`).getTime();
  // The zone's offset there may be another one than now.
  let start = shown - (now.getTime() - review.time.getTime());
  start += shown - local(new Date(start), timeZone).getTime();
  const message = `outside the window, which opens at ${new Date(start).toISOString()}`;
  return pending(message, { recheckAfter: (start - review.time.getTime()) / 1000 });
}

createServer(webhook({ review: window, key: process.env.SIGNING_KEY })).listen(Number(process.argv[2]), "127.0.0.1");
