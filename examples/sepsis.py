"""Treating sepsis: what the best policy of a published model gains over what clinicians did most often.

A model built from records, not advice; the caveats are part of the result.
"""

from polidiff import evaluate
from polidiff.domains import icu_sepsis

world = icu_sepsis.world()
current, proposed = (evaluate(world, policy) for policy in (icu_sepsis.current(), icu_sepsis.proposed()))

for name, now in current.outcomes.items():
    then = proposed.outcomes[name]
    print(f"{name:>26}: {now.estimate:8.3f} now, {then.estimate:8.3f} proposed")
print(*icu_sepsis.CAVEATS, sep="\n")
