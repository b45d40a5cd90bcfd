/** The parts of docs/benchmarks.md that do not depend on figures. */

export const introduction = `# Benchmarks

\`npx -y pnpm@12 bench --write\` compared kiln with other job engines, on one machine and in one run. Rates depend on the machine; compare ratios. An asterisk marks a figure during which other programs took more than 3 % of the machine, also when it was measured again.`

export const users = `Jobs as applications have them. Each row stands beside the best engine that can do the same and loses no accepted job, if there is one.`

export const options = `## Run it

\`npx -y pnpm@12 bench\` installs the other engines into \`bench/node_modules\` from their own lockfile.

| Option | |
|---|---|
| \`--quick\` | one round of smaller counts, in under three minutes on an idle machine |
| \`--only <regex>\` | workloads by id: \`sqlite/create-32\`, \`postgres/queue\`, \`http/get\` … |
| \`--engines <regex>\` | engines by name; kiln is always measured |
| \`--rounds <n>\` | rounds, default 3 |
| \`--base <directory>\` | another checkout of kiln, measured in the same rounds as \`kiln (base)\` |
| \`--long\` | includes drains beside a million finished jobs, which takes many minutes |
| \`--json <file>\` | writes every figure of every round |
| \`--write\` | writes this page and its plots |`

export const method = `## Method

- Each figure is the median of the rounds, followed by the minimum and maximum if there are several. Each round runs every engine and starts
  with a different one.
- Each measurement has an empty database and its own process. Memory is the largest resident set of the measured process, without the Postgres server.
- kiln is measured as published: compiled.
- Postgres runs with \`fsync=on\` and \`synchronous_commit=on\`, on the same machine. SQLite runs with \`synchronous=FULL\`, which
  waits for the disk at every commit, except where a column says "no fsync".
- *limit* is the same work without an engine: prepared statements on narrow tables, concurrent inserts in one commit, claims and
  completions in batches of 500.
- *best peer* is the best engine beside kiln that does not lose accepted jobs in a power failure. A ratio over 1 is good for
  rates and bad for latencies and memory.
- Rates, the queue and uploads of \`kiln serve\` are not limited (\`KILN_RATE_LIMITS=off\`, \`KILN_QUEUE_CAP=0\`, \`KILN_UPLOAD_CAP=0\`), and engines have no
  queue cap, except where a row says "under a cap". The role is \`api\` for \`POST\` and uploads, otherwise \`all\`. Texts have 21 to 62 characters.
- Jobs of the later tables do nothing: what is left is the engine.
- A drain begins when the workers start on a full queue and ends when every job is finished in the store. After the queue is filled, Postgres
  gets a \`VACUUM ANALYZE\` and a checkpoint. An engine that needs longer than 8 seconds (2 with \`--quick\`) is stopped; its rate is that of the jobs it has run.
- *submit to start* is the time from the call that adds a job to the first line of its handler. *apart* means that caller and
  worker are two processes.
- *in the caller's transaction* is the time of the call alone, after \`BEGIN\` and an \`INSERT\` of the caller's and before its \`COMMIT\`: \`submitMany\` of kiln,
  and \`insert\` of pg-boss with \`db\`.
- An HTTP server has one core; the load generator has another one, and \`--json\` says how much of it was used. \`kiln serve\` stores jobs in SQLite and files on disk. Each request is authenticated, and
  each POST is durable. The bare server sends the same bytes, without authentication or store.
- *speech from POST to file* is what a client sees: \`POST\`, a poll every 5 ms, and the download of 12.8 KB, by 16 clients. They share two cores with
  \`kiln serve\`, which has its default settings, except that rates and the queue are not limited.`

export const costs = `## Where the time goes

Processor time per job or request, from earlier profiles on the same machine. It explains missed targets.

| Work | Cost | Largest parts |
|---|---|---|
| GET a finished job | 27 µs; bare \`node:http\` 10 to 13 µs | writing the reply 17%, the statement 13%, key check and signed URL 7% |
| reads of jobs, Postgres | process 17 to 29 µs a read with 64 readers | the round trip, which readers of one turn of the event loop share |
| POST, durable | 53 to 65 µs; bare 18 to 28 µs | the commit a third, reading and checking the request 20%, the replies 16% |
| speech from POST to file | server 1.7 to 2.1 ms a job with SQLite, 2.5 to 2.7 with Postgres | the commit 13%, garbage collection 8%, opening and reading files; nothing else above 4% |
| POST, durable, with a worker beside it | 108 µs | both share a core, and each POST brings a job that takes as long as itself |
| jobs of 20 ms, 8 slots | 21.9 ms a job on SQLite, 23.1 on Postgres | the commit that ends a job and claims the next, and the wait for the one before it. graphile-worker claims 500 jobs ahead |
| upload of 24 MB | 44 to 49 ms; bare with SHA-256 and fsync 35 to 37 ms | SHA-256 16 ms, three commits |
| create, 1 caller, SQLite | 145 µs with a disk, of which plainjob takes 64; 31 µs without | JavaScript that runs from cold caches after each sync, and a commit of 6 pages |
| create, 1 caller, Postgres | server 102 µs without a disk | the row in the queue 47, the look at the lane 20, its lock 9. The process needs about 120 µs between an answer and the next request, openworkflow 70 |
| create, 32 callers, Postgres | server 33 µs a job in batches of 32, 21 µs in batches of 500 | index entries 40%, reading the list 15%, idempotency keys 10% |
| submit to start, idle, SQLite | 1.1 ms | the commit and its sync 0.4 ms, the claim 0.13 ms |
| submit to start, idle, Postgres | server 390 µs; apart 3.2 ms | apart: the creation 1.3, the claim 1.1, the wake-up 0.3 ms. The first claim of a new connection takes 8 ms to plan |
| drain, SQLite | 18 µs when warm | the claim 7, the completion 5 |
| drain, Postgres | server 26 to 29 µs; process 12 to 14 µs when warm | the claim 14 to 17, the completion 12 to 13. pg-boss takes 37 µs in its server, 13 to 18 µs in its process |
| memory of a drain | 99 MB (SQLite) and 104 MB (Postgres) with an open engine, of which Node takes 49 | V8 enlarges its young generation to 128 MB while 500 jobs in progress survive each collection. \`--max-semi-space-size\` limits it; a library cannot set it |`

export const engines = `## Engines

| Engine | Configuration |
|---|---|
| kiln | \`createEngine\` with 500 slots and without a queue cap. Bulk: \`submitMany\` |
| pg-boss | \`useListenNotify\`, queue with \`notify\`, two workers with batches of 500, \`burstWhenBatchFull\`. Bulk: \`insert\` |
| graphile-worker | \`concurrentJobs: 100\`, \`localQueue.size: 500\`, \`completeJobBatchDelay: 0\`. Bulk: \`addJobs\` |
| BullMQ | its Postgres backend, \`concurrency: 100\`. Bulk: \`addBulk\` |
| openworkflow | a workflow without steps, \`concurrency: 100\`, the best of 20, 100 and 400. It has no bulk call; all runs are started concurrently |
| plainjob | polls every millisecond. Its \`synchronous=NORMAL\` may lose the newest jobs in a power failure ("no fsync"); "fsync" sets \`FULL\` |

They do different amounts of work for a job:

| | kiln | pg-boss | graphile-worker | BullMQ | openworkflow | plainjob |
|---|---|---|---|---|---|---|
| finished jobs | kept, with result | kept, with result | deleted | kept, with result | kept, with result | kept |
| repeated creation with a key | same job, and a changed request is refused | dropped, by policy or singleton | replaces or keeps the job (\`jobKey\`) | dropped (\`jobId\`) | same run, for 24 hours | – |
| a lost worker's job runs again | when its 30 s lease ends | after 15 minutes, or a missed heartbeat | after 4 hours | when its 30 s lock ends | when its 30 s lease ends | after 30 minutes |
| a late worker's completion | refused, by claim | refused, by attempt | accepted | refused, by lock token | refused, by worker | accepted |
| tenants take turns | yes | limits per group | named queues | – | – | – |
| charge with the completion | same commit | – | – | – | – | – |
| completion of a batch | each job its own | one for the batch here | each job its own | each job its own | each run its own | each job its own |`
