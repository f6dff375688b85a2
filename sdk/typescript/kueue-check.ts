/**
 * A webhook of kueue-check, as a listener of node:http.
 *
 *     createServer(webhook({ review: (item) => item.workload.priority > 100
 *       ? ready("important")
 *       : pending("waits for the night", { recheckAfter: 3600 }) })).listen(8080);
 *
 * `review` is called for each Workload of a review. What it throws is an error of this item: its
 * state stays as it is, and it is reviewed again. The documents are described in
 * checks/rule/README.md.
 */

import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";

export const API_VERSION = "kueue-check.dev/v1alpha1";
/** The largest request that is read, in bytes. */
const LARGEST = 32 * 1024 * 1024;
/** How far the time of a signature may be from the clock, in seconds. */
const TOLERANCE = 300;

/** One Workload that holds quota. */
export interface Item {
  uid: string;
  workload: Workload;
  reservedAt: string;
  waitedSeconds: number;
  attempt: number;
  checks?: { name: string; state: string }[];
}

export interface Workload {
  namespace: string;
  name: string;
  uid: string;
  jobUid: string;
  owner?: { apiVersion: string; kind: string; name: string };
  role: string;
  createdAt?: string;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  queue?: string;
  clusterQueue?: string;
  priority: number;
  priorityClass?: string;
  admitted: boolean;
  maximumExecutionTimeSeconds?: number;
  podSets: PodSet[];
}

export interface PodSet {
  name: string;
  count: number;
  increase: number;
  /** Decimal numbers. */
  resources: Record<string, { perPod: string; total: string; flavor?: string }>;
}

/** What all items of a request have in common. */
export interface Review {
  admissionCheck: string;
  time: Date;
  dryRun: boolean;
  /** `spec.config` of the WebhookCheck. */
  config: Record<string, any>;
}

export interface PodSetUpdate {
  name: string;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  nodeSelector?: Record<string, string>;
  tolerations?: Record<string, unknown>[];
}

/** The response for one Workload. */
export interface Verdict {
  state: "Ready" | "Pending" | "Retry" | "Rejected";
  message?: string;
  retryAfterSeconds?: number;
  podSetUpdates?: PodSetUpdate[];
  recheckAfterSeconds?: number;
  ttlSeconds?: number;
}

/** What an activation and a release are about. */
export interface Call {
  uid: string;
  admissionCheck: string;
  namespace: string;
  name: string;
  jobUid: string;
  reason?: string;
}

export interface Options {
  review: (item: Item, review: Review) => Verdict | Promise<Verdict>;
  /** The signing key (`spec.signingKeyFile`): requests without a valid signature are refused. */
  key?: string;
  /** Allocates for a reservation; may throw `Refused`. */
  activate?: (call: Call) => void | Promise<void>;
  /** Releases what is allocated for a reservation. */
  release?: (call: Call) => void | Promise<void>;
  /** The uids of the reservations for which something is allocated. */
  held?: () => string[] | Promise<string[]>;
}

/** What `activate` throws when nothing can be allocated now: the Workload stays Pending. */
export class Refused extends Error {}

/** When a Workload is reviewed again, and for how long the response is valid, in seconds. */
interface Times {
  recheckAfter?: number;
  ttl?: number;
}

/** The job may start; `updates` are what is added to its pods. */
export function ready(message = "", more: Times & { updates?: PodSetUpdate[] } = {}): Verdict {
  return { ...verdict("Ready", message, more), podSetUpdates: more.updates };
}

/** Not yet: the Workload waits and holds its quota. */
export function pending(message = "", times: Times = {}): Verdict {
  return verdict("Pending", message, times);
}

/** Not now: Kueue evicts and requeues the Workload. With a delay in seconds, it holds the quota until then. */
export function retry(message = "", after = 0): Verdict {
  return { ...verdict("Retry", message, {}), retryAfterSeconds: seconds(after) };
}

/** Never: Kueue deactivates the Workload. */
export function rejected(message = ""): Verdict {
  return verdict("Rejected", message, {});
}

/** Whole seconds. JSON has no other numbers than finite ones: it would write `null`. */
function seconds(value?: number): number | undefined {
  if (value === undefined) return undefined;
  if (!Number.isFinite(value)) throw new RangeError(`${value} is no number of seconds`);
  return Math.max(0, Math.ceil(value));
}

function verdict(state: Verdict["state"], message: string, times: Times): Verdict {
  return { state, message, recheckAfterSeconds: seconds(times.recheckAfter), ttlSeconds: seconds(times.ttl) };
}

/** Whether `header` (`Kueue-Check-Signature`) signs `body`, recently. */
export function verify(key: string, header: string, body: Buffer, now = Date.now() / 1000): boolean {
  const parts = new Map(header.split(",").map((part) => part.split("=", 2) as [string, string]));
  const signedAt = parts.get("t") ?? "";
  const given = Buffer.from(parts.get("v1") ?? "", "hex");
  const expected = createHmac("sha256", key).update(`${signedAt}.`).update(body).digest();
  const recent = Math.abs(now - Number.parseInt(signedAt, 10)) <= TOLERANCE;
  return given.length === expected.length && timingSafeEqual(given, expected) && recent;
}

/** A listener for `createServer` of node:http. */
export function webhook(options: Options) {
  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    let [status, body]: [number, string] = [500, ""];
    try {
      const [code, answer] = await respond(options, request);
      // Not every value can be written: nested too deeply, or with a cycle.
      [status, body] = [code, answer === undefined ? "" : JSON.stringify(answer)];
    } catch (problem) {
      body = JSON.stringify({ message: String(problem) });
    }
    response.writeHead(status, { "content-type": "application/json" });
    response.end(body);
  };
}

async function respond(options: Options, request: IncomingMessage): Promise<[number, unknown]> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > LARGEST) return [413, { message: "the request is too large" }];
    chunks.push(chunk);
  }
  const body = Buffer.concat(chunks);
  const signature = String(request.headers["kueue-check-signature"] ?? "");
  if (options.key && !verify(options.key, signature, body)) {
    return [401, { message: "the signature is missing, wrong or old" }];
  }
  if (request.method === "GET") {
    if (!options.held) return [404, { message: "nothing is allocated here" }];
    return [200, document("AdmissionCheckHeldList", { uids: await options.held() })];
  }
  let asked: any;
  try {
    asked = JSON.parse(body.toString("utf8"));
  } catch {
    asked = undefined;
  }
  if (asked?.apiVersion !== API_VERSION || typeof asked.request !== "object" || asked.request === null) {
    return [400, { message: "this is no document of a WebhookCheck" }];
  }
  switch (asked.kind) {
    case "AdmissionCheckReview": {
      if (!Array.isArray(asked.request.items)) return [400, { message: "there are no items" }];
      if (asked.request.items.some((item: any) => typeof item?.uid !== "string")) {
        return [400, { message: "an item has no uid" }];
      }
      const { admissionCheck, time, dryRun = false, config = {} } = asked.request;
      const review: Review = { admissionCheck, time: new Date(time), dryRun, config };
      const items: unknown[] = [];
      for (const item of asked.request.items) items.push(await answer(options, item, review));
      return [200, document(asked.kind, { items })];
    }
    case "AdmissionCheckActivation":
      return call(options.activate, asked.request);
    case "AdmissionCheckRelease":
      return call(options.release, asked.request);
  }
  return [404, { message: `there is no ${asked.kind} here` }];
}

async function answer(options: Options, item: Item, review: Review): Promise<unknown> {
  try {
    const verdict = { ...(await options.review(item, review)), uid: item.uid };
    JSON.stringify(verdict);
    return verdict;
  } catch (problem) {
    return { uid: item?.uid, error: String(problem) };
  }
}

async function call(run: Options["activate"], request: Call): Promise<[number, unknown]> {
  if (!run) return [404, { message: "this call is not supported here" }];
  try {
    await run(request);
    return [204, undefined];
  } catch (problem) {
    if (problem instanceof Refused) return [409, { message: problem.message }];
    return [500, { message: String(problem) }];
  }
}

function document(kind: string, response: unknown) {
  return { apiVersion: API_VERSION, kind, response };
}
