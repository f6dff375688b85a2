"""Jobs start only inside a daily window: `uvicorn window:app`."""
import datetime, zoneinfo
from kueue_check import check, pending, ready

@check
def app(item, config, now):
    opens, closes = (datetime.time.fromisoformat(config[key]) for key in ("opens", "closes"))
    local = now.astimezone(zoneinfo.ZoneInfo(config["timeZone"]))
    if (opens <= local.time() < closes) if opens <= closes else not closes <= local.time() < opens:
        return ready("inside the window")
    start = datetime.datetime.combine(local, opens, local.tzinfo) + datetime.timedelta(local.time() >= opens)
    return pending(f"outside the window, which opens at {start}", recheck_after=start - now)
