"""The paper's tables and figures, and ours: experiments that can be stopped, resumed and printed again.

    python -m experiments NAME ...        run an experiment, print its tables, write docs/results.md
    python -m experiments.bench.NAME ...  timings and comparisons with peers (`experiments/bench`)

    OUT/NAME.TASK.ENCODER.parquet   results in long format     OUT/runs/     one folder per run
    OUT/shared/                     embeddings of all runs     OUT/notes/    remarks on the results

`definitions.py` defines the experiments, `setup.py` loads a task and an encoder, `runs.py` executes one run,
`runner.py` all of them, `results.py` stores rows, `aggregate.py` averages them over seeds, `tables.py` and
`page.py` make tables, figures and docs/results.md from stored rows alone.
"""
