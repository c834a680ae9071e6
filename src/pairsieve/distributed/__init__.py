"""Embedding, scanning and neighbour search over shards of rows, on many machines or GPUs.

`MapShards` (in contracts) runs a function over shards: `LocalShards` in this process, `GpuShards` on its
GPUs, `RayShards` on a Ray cluster. Each function here gives the same as its namesake on one machine, and is
that where `shards` is None:

| function            | on one machine             | shards                      | a lost worker costs       |
| ------------------- | -------------------------- | --------------------------- | ------------------------- |
| `cached_embeddings` | `models.cached_embeddings` | texts                       | the shard it embedded     |
| `open_scan`         | `scan.open_scan`           | blocks of two bands of rows | the block it scanned      |
| `index_neighbours`  | `search.index_neighbours`  | indexes, and rows that ask  | the share it searched     |
"""

from pairsieve.distributed.embedding import cached_embeddings
from pairsieve.distributed.local import GpuShards, LocalShards
from pairsieve.distributed.neighbours import index_neighbours
from pairsieve.distributed.on_ray import RayShards, open_shards
from pairsieve.distributed.scan import ShardedScan, open_scan
