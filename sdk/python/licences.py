"""A job starts only when a licence is free, and holds it until it ends: `uvicorn licences:app`.

A service of more than one process keeps `held` in a database.
"""
from kueue_check import Refused, check, pending, ready

TOTAL = 2
held = set()

def activate(call):
    if call["uid"] not in held and len(held) >= TOTAL:
        raise Refused("all licences are in use")
    held.add(call["uid"])

def release(call):
    held.discard(call["uid"])

@check(activate=activate, release=release, held=lambda: held)
def app(item, config, now):
    if item["uid"] in held or len(held) < TOTAL:
        return ready("a licence is free")
    return pending("all licences are in use", recheck_after=60)
