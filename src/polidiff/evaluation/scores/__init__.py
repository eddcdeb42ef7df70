"""Scores: what each logged episode says about a change of policy, with the nuisances fitted on other episodes.

A score is a number per episode (or person) whose mean estimates an effect; differences, segments, plans and several
outcomes are then sums over the same scores, and an interval is that of a mean.

- `decisions`: the rows of a log as numbers, in an order of their own, with folds of whole units;
- `regression`: ridge and boosted trees as linear smoothers, one model per action;
- `propensity`: the chances of the logged actions, recorded or estimated: the one estimate of who wrote a log;
- `episodes`: the score of the difference of two policies, where decisions follow each other;
- `difference`: scores of every action, where each row is an episode; from scores to intervals that hold together, and
  when not to decide;
- `scored_log`: a log as scores; `verdicts`: the judge of feature rows;
- `plans`: plans chosen by scores, judged on folds that did not choose them.
"""
