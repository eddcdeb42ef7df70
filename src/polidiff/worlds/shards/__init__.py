"""Logs of any size, read once: shards that any worker can read, and counts of them that can be added.

::

    split    files -> shards (row groups of Parquet files; a table in memory is one shard)
    frames   shard -> tables of about a million rows; what cannot be read is named, or left out if that was asked for
    tally    tables -> stretch: everything the estimators and the checks need to know of them
               labels, runs      numbers for labels and episodes while they come
               keys, table       a transition as one number, and sums per number
               waiting, sorting  rows that are sorted by number, some millions at a time
               traits            the features of discrete states
               kernels           the loops behind them, compiled where there are many rows
    join     stretches in order -> one stretch, whatever the borders cut in two
    store    finished stretches in a work folder, under the hash of their input; kept: the same for other counts
    resume   work on parts, of which some are there already, through `polidiff.parallel`
    scan     all of it
"""
