"""Logs of any size, read once: shards that any worker can read, and counts of them that can be added.

::

    shard_files        files -> shards (ranges of rows of Parquet files; a table in memory is one shard) -> tables of
                       about a million rows; what cannot be read is named, or left out if that was asked for
    shard_counter      tables -> summary of a shard: everything the estimators and the checks need to know
      labels             numbers for labels and episodes while they come, features of discrete states
      transition_counts  a transition as one number, and sums per number
      row_buffer         rows that wait to be sorted by that number, some millions at a time
      kernels            the loops behind them, compiled where there are many rows
    shard_summary      summaries in order -> one, whatever the borders cut in two
    result_cache       finished parts in a work folder, under the hash of their input
    scan               all of it
"""
