"""Jobs start only inside a daily window: `uvicorn window:app`."""
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo
from kueue_check import check, pending, ready

@check
def app(item, config, now):
    opens, closes = (time.fromisoformat(config[key]) for key in ("opens", "closes"))
    local = now.astimezone(ZoneInfo(config["timeZone"]))
    if (opens <= local.time() < closes) if opens <= closes else not closes <= local.time() < opens:
        return ready("inside the window")
    start = datetime.combine(local.date() + timedelta(days=local.time() >= opens), opens, local.tzinfo)
    return pending(f"outside the window, which opens at {start}", recheck_after=start - now)
