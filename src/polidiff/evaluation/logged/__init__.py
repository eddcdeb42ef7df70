"""Outcomes of policies from nothing but a log of past decisions.

- `counts`: a log as counts of transitions; `counted_log` also how often rules are met in its rows;
- `policies`: policies beside a log, among them the one that wrote it ("log");
- `counted_log`: states (or cells of features), counts, starts and policies as tables, for what needs a model;
- `model`, `bounds`: the estimated world under a policy, and careful intervals that know what nobody has tried;
- `judge`: all checks of a log, and what every verdict from it goes through; `compare`: the judge of labelled states,
  and `judge_log`, the one door to both judges (the other is `scores.verdicts`);
- `named`: estimators that may be asked for by name. A new one is a function in its `ESTIMATES`, and a name
  in `options.Estimator`;
- `second_log`: the proposed policy as the log that it wrote; `plan`: models to plan in, and candidates.
"""
