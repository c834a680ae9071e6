"""How does the same work run on many machines? Plain functions over shards of rows, through one seam.

`MapShards` (in contracts) is the seam: `LocalShards` runs shards in this process, `GpuShards` on its GPUs,
`RayShards` on a Ray cluster. What is built on it gives the same on either, to the bit:

| function          | shards                                  | a lost worker costs        |
| ----------------- | --------------------------------------- | -------------------------- |
| `embedded_rows`   | texts, each finished shard an artifact  | the shard it was embedding |
| `scan_by`         | blocks of two bands of rows             | the block it was scanning  |
| `index_by_shards` | bands of rows, each searched by itself  | the band it was searching  |
"""

from pairsieve.distributed.embedding import embedded_rows
from pairsieve.distributed.local import GpuShards, LocalShards
from pairsieve.distributed.neighbours import index_by_shards
from pairsieve.distributed.on_ray import RayShards, open_shards
from pairsieve.distributed.scan import ShardedScan, scan_by

__all__ = [
    "GpuShards",
    "LocalShards",
    "RayShards",
    "ShardedScan",
    "embedded_rows",
    "index_by_shards",
    "open_shards",
    "scan_by",
]
