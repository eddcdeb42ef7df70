"""Logs of any size, read once: parts of whole episodes that any worker can read, and counts of them that can be added.

::

    shard_files        files -> ranges of rows -> parts of whole episodes -> batches of rows
    shard_summary      batches -> summary of a part: everything the estimators and the checks need; summaries -> one;
                       finished ones in a work folder, under the hash of their input
    transition_counts  a transition as one number, and sums per number
"""
