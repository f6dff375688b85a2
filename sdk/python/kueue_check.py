"""A webhook of kueue-check, as an ASGI application.

    from kueue_check import check, pending, ready

    @check
    def app(item, config, now):
        if item["workload"]["priority"] > 100:
            return ready("important")
        return pending("waits for the night", recheck_after=3600)

`uvicorn module:app` serves it. The function is called for each Workload of a review, with the item
as the service received it, `spec.config` of the WebhookCheck, and the time of the review. It
returns one of the verdicts below, or a coroutine of one. An exception is an error of this item:
its state stays as it is, and it is reviewed again.

No dependency but Python 3.9. The documents are described in checks/rule/README.md.
"""

import hashlib
import hmac
import inspect
import json
import math
import time
from datetime import datetime, timedelta

API_VERSION = "kueue-check.dev/v1alpha1"
#: The largest request that is read, in bytes.
LARGEST = 32 * 1024 * 1024
#: How far the time of a signature may be from the clock, in seconds.
TOLERANCE = 300


def ready(message="", *, updates=None, recheck_after=None, ttl=None):
    """The job may start. `updates` are what is added to its pods, as in `podSetUpdates`."""
    return _verdict("Ready", message, updates, recheck_after, ttl)


def pending(message="", *, recheck_after=None, ttl=None):
    """Not yet: the Workload waits and holds its quota."""
    return _verdict("Pending", message, None, recheck_after, ttl)


def retry(message="", *, after=0):
    """Not now: Kueue evicts and requeues the Workload. With a delay, it holds the quota until then."""
    return dict(_verdict("Retry", message), retryAfterSeconds=_seconds(after))


def rejected(message=""):
    """Never: Kueue deactivates the Workload."""
    return _verdict("Rejected", message)


class Refused(Exception):
    """What `activate` raises when nothing can be allocated now: the Workload stays Pending."""


def check(review=None, *, key=None, activate=None, release=None, held=None):
    """Makes the function `review` an ASGI application.

    `key` is the signing key (`spec.signingKeyFile`): with it, requests without a valid signature
    are refused. `activate(call)` allocates for a reservation and may raise `Refused`;
    `release(call)` releases it; `held()` returns the uids for which something is allocated.
    """
    if review is None:
        return lambda review: check(review, key=key, activate=activate, release=release, held=held)
    return _Application(review, key, activate, release, held)


def verify(key, header, body, now=None):
    """Whether `header` (`Kueue-Check-Signature`) signs `body`, recently."""
    try:
        parts = dict(part.split("=", 1) for part in header.split(","))
        signed_at, given = int(parts["t"]), parts["v1"]
    except (KeyError, ValueError):
        return False
    if abs(signed_at) >= 10**15:
        return False
    message = f"{signed_at}.".encode() + body
    expected = hmac.new(key.encode(), message, hashlib.sha256).hexdigest()
    recent = abs((time.time() if now is None else now) - signed_at) <= TOLERANCE
    return hmac.compare_digest(expected.encode(), given.encode()) and recent


class _Application:
    def __init__(self, review, key, activate, release, held):
        self.review, self.key = review, key
        self.calls = {"AdmissionCheckActivation": activate, "AdmissionCheckRelease": release}
        self.held = held

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            return await _lifespan(receive, send)
        status, answer = await self.respond(scope, receive)
        body = b"" if answer is None else json.dumps(answer, allow_nan=False).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def respond(self, scope, receive):
        body = bytearray()
        while True:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > LARGEST:
                return 413, {"message": "the request is too large"}
            if not message.get("more_body"):
                break
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if self.key and not verify(self.key, headers.get("kueue-check-signature", ""), bytes(body)):
            return 401, {"message": "the signature is missing, wrong or old"}
        if scope["method"] == "GET":
            if self.held is None:
                return 404, {"message": "nothing is allocated here"}
            return 200, _document("AdmissionCheckHeldList", {"uids": list(await _result(self.held()))})
        try:
            document = json.loads(bytes(body))
            kind, request = document["kind"], document["request"]
            if document["apiVersion"] != API_VERSION:
                raise ValueError(f"expected apiVersion {API_VERSION}")
            if kind == "AdmissionCheckReview":
                now, config = _time(request["time"]), request.get("config", {})
                items = [(item["uid"], item) for item in request["items"]]
                if not all(isinstance(uid, str) for uid, _ in items):
                    raise ValueError("a uid is no string")
        except (KeyError, TypeError, ValueError, RecursionError) as problem:
            return 400, {"message": f"this is no document of a WebhookCheck: {problem!r}"}
        if kind == "AdmissionCheckReview":
            answers = [await self.answer(uid, item, config, now) for uid, item in items]
            return 200, _document(kind, {"items": answers})
        call = self.calls.get(kind)
        if call is None:
            return 404, {"message": f"there is no {kind} here"}
        try:
            await _result(call(request))
        except Refused as refusal:
            return 409, {"message": str(refusal)}
        except Exception as problem:
            return 500, {"message": f"{type(problem).__name__}: {problem}"}
        return 204, None

    async def answer(self, uid, item, config, now):
        try:
            verdict = dict(await _result(self.review(item, config, now)))
            json.dumps(verdict, allow_nan=False)
        except Exception as problem:
            return {"uid": uid, "error": f"{type(problem).__name__}: {problem}"}
        return dict(verdict, uid=uid)


async def _lifespan(receive, send):
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _result(value):
    return await value if inspect.isawaitable(value) else value


def _document(kind, response):
    return {"apiVersion": API_VERSION, "kind": kind, "response": response}


def _time(text):
    # Python reads `Z` only from 3.11 on, and fractions of six digits at most.
    head, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{(fraction + '000000')[:6]}+00:00")


def _seconds(value):
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    return max(0, math.ceil(seconds))


def _verdict(state, message, updates=None, recheck_after=None, ttl=None):
    verdict = {"state": state, "message": message}
    if updates is not None:
        verdict["podSetUpdates"] = updates
    if recheck_after is not None:
        verdict["recheckAfterSeconds"] = _seconds(recheck_after)
    if ttl is not None:
        verdict["ttlSeconds"] = _seconds(ttl)
    return verdict
