"""A worker of its own: `python -m tests.unit.notify.worker <address> announce|deliver`, in REPRISE_HOME.

`announce` migrates, makes a channel to the address and writes a message. `deliver` does what a sweep and a woken
worker do, until nothing is due; leases are over at once, so that nobody has to wait for one.
"""

import sys
from datetime import timedelta

import django


def main(address: str, act: str) -> None:
    django.setup()
    from django.core.management import call_command
    from django.utils import timezone

    from recovery.models import Delivery
    from recovery.notify import delivering, outbox
    from recovery.notify.actions import announce_event, create_channel
    from recovery.people.roles import Actor, Role

    if act == "announce":
        call_command("migrate", verbosity=0)
        create_channel(
            name="ops", kind="webhook", address=address, secret_ref="env:REPRISE_NOTIFY_SECRET",
            environments=["production"], events=["audit.broken"], by=Actor("root", Role.ADMIN),
        )  # fmt: skip
        announce_event(event="audit.broken", dedupe="1")
        return
    Delivery.objects.filter(state="sending").update(claimed_until=timezone.now() - timedelta(seconds=1))
    for channel_id in outbox.channels_due(timezone.now()):
        delivering.deliver_channel(channel_id)
    sys.stdout.write(" ".join(f"{d.state}:{d.attempts}" for d in Delivery.objects.all()))


if __name__ == "__main__":
    main(*sys.argv[1:])
