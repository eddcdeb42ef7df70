"""Outcomes of policies from nothing but a log of past decisions.

What `evaluation.log`, `divergence.log` and `surrogates.log` are made of:

``counted_log(log, policies) -> CountedLog``
    A log as counts over its states, or over cells of its feature rows, with starts and policies as tables.
``compare_log(log, current, proposed, groups=None, level=, family=) -> GroupVerdicts``
    ``.verdicts[group][outcome]`` with unsupported mass and, where unknown, a note that names the state and the action
    nobody has tried. Groups are masks over ``log.starts``. Bonferroni over groups × outcomes.
``estimated_world(log) -> TabularMDP``
    The model to follow policies in (divergence, paths): pairs nobody has tried lead to a state "unknown".
``supported_world(log, min_support=10) -> TabularMDP``
    The model to plan in: only pairs seen often enough are allowed.
``choose_and_judge(log)``, ``learn_candidates(log)``
    For `improve`: a half of the log that chooses and a half that judges; candidates where none are given.
``cross_check(log, policy) -> CrossCheck``
    IS, PDIS, WIS, DR and WDR beside the model, and a warning where they disagree beyond their intervals.
``estimate_behaviour(log) -> Behaviour``
    The policy that wrote the log, with its calibration. As a policy argument, the text "log" stands for it.
"""
