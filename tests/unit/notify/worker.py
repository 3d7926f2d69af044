"""What a worker of an instance does: `run(address, secret, "announce" or "deliver")`, in a process of its own.

`announce` makes a channel to the address and writes a message. `deliver` does what a sweep and a woken
worker do, until nothing is due; leases are over at once, so that the test need not wait for one.
"""

import json
import os
import sys
from datetime import timedelta

from django.utils import timezone

from recovery.models import Delivery
from recovery.notify import delivering, outbox
from recovery.notify.actions import announce_event, create_channel
from recovery.people.roles import Actor, Role


def run(address: str, secret: str, act: str) -> None:
    """Announce or deliver; prints the state and the tries of each delivery as JSON."""
    os.environ["REPRISE_NOTIFY_SECRET"] = secret
    if act == "announce":
        create_channel(
            name="ops", kind="webhook", address=address, secret_ref="env:REPRISE_NOTIFY_SECRET",
            environments=["production"], events=["audit.broken"], by=Actor("root", Role.ADMIN),
        )  # fmt: skip
        announce_event(event="audit.broken", dedupe="1")
    else:
        Delivery.objects.filter(state="sending").update(claimed_until=timezone.now() - timedelta(seconds=1))
        for channel_id in outbox.channels_due(timezone.now()):
            delivering.deliver_channel(channel_id)
    sys.stdout.write(json.dumps([f"{d.state}:{d.attempts}" for d in Delivery.objects.all()]))
