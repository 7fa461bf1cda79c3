"""EASY-SJBF: EASY backfilling in which the shortest jobs are backfilled first.

    hpcosim run demo.yaml --scheduler easy_sjbf.py:easy_sjbf

D. Tsafrir, Y. Etsion, D. G. Feitelson, "Backfilling Using System-Generated Predictions Rather than
User Runtime Estimates", IEEE TPDS 18(6), 2007.
"""

from hpcosim_client import View, main, profile_of


def easy_sjbf(view: View) -> None:
    """Start jobs in submission order; then backfill, the shortest requested time first."""
    while view.queue and view.start(view.queue.first()):
        pass
    if not view.queue:
        return
    head = view.queue.first()
    profile = profile_of(view)  # free cores by requested run times
    shadow = profile.earliest(head)  # the earliest start of the head
    if shadow is not None:
        profile.reserve(head, shadow)
    for job in sorted(view.queue.values(), key=lambda job: job.requested_s):
        if job is not head:
            profile.start(view, job)  # only if that does not delay the head


if __name__ == "__main__":
    main(easy_sjbf)
