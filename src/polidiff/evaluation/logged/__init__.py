"""Outcomes of policies from nothing but a log of past decisions.

What the public functions call for ``world.kind == "log"``:

``evaluate_log(log, policy, level=) -> Evaluation``
    Expected outcomes with careful intervals, from every logged start; the borrow rule, the weighted estimators and the
    effective sample size in ``details``.
``compare_log(log, current, proposed, groups=None, level=, family=) -> LogComparison``
    ``.verdicts[group][outcome]`` with unsupported mass and, where unknown, a note that names the state and the action
    nobody has tried. Groups are masks over ``log.starts``. Bonferroni over groups × outcomes.
``estimated_world(log) -> TabularMDP``
    The model to follow policies in (divergence, paths): pairs nobody has tried lead to a state "unknown".
``supported_world(log, min_support=10) -> TabularMDP``
    The model to plan in: only pairs seen often enough are allowed.
``choose_and_judge(log)``, ``learn_candidates(log)``
    For `improve`: a half of the log that chooses and a half that judges; candidates where none are given.
``tied_edit(...)``, ``tied_value(...)``
    For `improve` over feature rows: all cells of a region change together.
``cross_check(log, policy) -> CrossCheck``
    IS, PDIS, WIS, DR and WDR beside the model, and a warning where they disagree beyond their intervals.
``estimate_behaviour(log) -> Behaviour``
    The policy that wrote the log, with its calibration. As a policy argument, the text "log" stands for it.
"""
