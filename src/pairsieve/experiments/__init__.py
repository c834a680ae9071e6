"""Do the paper's tables and figures hold here? Declared experiments, which can be stopped and resumed.

    OUT/NAME.TASK.ENCODER.parquet   results in long format     OUT/cells/    one folder a cell
    OUT/shared/                     embeddings of all cells    OUT/notes/    what people say about results

`declared.py` says what is run, `cells.py` runs one piece, `running.py` all of them, `results.py` keeps rows,
`tables.py` and `page.py` make tables, figures and docs/results.md from stored rows alone.
"""

from pairsieve.experiments.declared import DECLARED, Cell, Experiment, experiment_named
from pairsieve.experiments.ground import Ground
from pairsieve.experiments.page import page_text, write_page
from pairsieve.experiments.results import Row, read_results
from pairsieve.experiments.running import Outcome, run_experiments
from pairsieve.experiments.tables import Table, tables

__all__ = [
    "DECLARED",
    "Cell",
    "Experiment",
    "Ground",
    "Outcome",
    "Row",
    "Table",
    "experiment_named",
    "page_text",
    "read_results",
    "run_experiments",
    "tables",
    "write_page",
]
