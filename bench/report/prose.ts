/** The parts of docs/benchmarks.md that do not depend on figures. */

export const introduction = `# Benchmarks

This page compares kiln with other job engines, on one machine and in one run. \`npx -y pnpm@12 bench --write\` wrote this page. Rates depend on the
machine; compare ratios. Jobs do nothing, so the figures show what an engine itself costs.`

export const options = `## Run it

\`npx -y pnpm@12 bench\` installs the other engines into \`bench/node_modules\` from their own lockfile. Nothing else in this
repository installs them.

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
  with a different one, so that a slow minute of the machine affects all of them.
- Each measurement has an empty database and its own process. Memory is the largest resident set of the measured process, without the Postgres server.
- kiln is measured as it is published: compiled packages, not sources.
- Postgres runs with \`fsync=on\` and \`synchronous_commit=on\`, on the same machine. SQLite runs with \`synchronous=FULL\`, which
  waits for the disk at every commit, except where a column says "no fsync".
- *limit* is the same work without an engine: prepared statements on narrow tables, concurrent inserts in one commit, claims and
  completions in batches of 500.
- *best peer* is the best engine beside kiln that does not lose accepted jobs in a power failure. A ratio over 1 is good for
  rates and bad for latencies and memory.
- A drain begins when the workers start on a full queue and ends when every job is finished in the store. After the queue is filled, Postgres
  gets a \`VACUUM ANALYZE\` and a checkpoint. An engine that needs longer than 8 seconds (2 with \`--quick\`) is stopped; its rate is that of the jobs it has run.
- *submit to start* is the time from the call that adds a job to the first line of its handler. *apart* means that caller and
  worker are two processes.
- *in the caller's transaction* is the time of the call alone, after \`BEGIN\` and an \`INSERT\` of the caller's and before its \`COMMIT\`: \`submitMany\` of kiln,
  and \`insert\` of pg-boss with \`db\`.
- An HTTP server has one core; the load generator has another one. \`kiln serve\` stores jobs in SQLite and files on disk. Each request is authenticated, and
  each POST is durable. The bare server sends the same bytes, without authentication and without a store.`

export const costs = `## Where the time goes

Processor time per job or request, from profiles of the same machine on earlier runs, some of them beside other work. It explains the targets that are missed.

| Work | Cost today | What reduced it | What remains |
|---|---|---|---|
| GET a finished job | 27 µs; bare \`node:http\` 10 to 13 µs | reading only what a poll shows: 63 to 48 µs; sending the replies of a turn of the event loop together: 48 to 34 µs, because each write woke a sleeping reader; checks that are done at once, without a step of Effect for each: 4% | writing the reply, mostly in the kernel, 17%; the statement 13%; key check and signed URL, with a hash and an HMAC, 7%; JSON of the reply 5%; Effect 5%; Node's own parsing and bookkeeping |
| POST, durable | 53 to 65 µs; bare 18 to 28 µs, both on a busy machine | 64 connections share a commit of 53 to 60 jobs instead of 33 to 41; their replies are sent together after it, without generators in between: 3% | the commit is a third: about 7 pages for a single job, each with a checksum and two writes. Reading and checking the request 20%, the replies 16% |
| upload of 24 MB | 44 to 49 ms; bare with SHA-256 and fsync 35 to 37 ms | freeing each received piece once it is written: 65 to 46 ms. V8 counted the pieces as growth of the heap, and collected all of it once or twice per upload | SHA-256 16 ms; three commits, which wait for the disk while another upload is written to it |
| create, 1 caller, SQLite | 40 µs of processor time when warm and without a disk, of which the store takes 33; 115 µs in the first 500 creations | HMAC by two one-shot hashes: 52 to 48 µs | a run of a second ends before V8 has compiled the code that each creation uses; rows and indexes of a creation fill 5 to 6 pages, each with a checksum and two writes. Without the index of deadlines, the statement would take 3 µs less |
| create, 1 caller, Postgres | server, without a disk, on a busy machine: 270 µs | a function for one job instead of lists of one; the request in the row of the job instead of a third table; the trigger that checked the queue now fills it; domains instead of CHECK constraints; an advisory lock instead of a row lock: together 540 to 270 µs | starting the executor for three statements a quarter; the flight and the commit a fifth. Node takes about as long as the server |
| create, 32 callers, Postgres | server: 33 µs a job in batches of 32, 21 µs in batches of 500 | the same changes, except the first: 40 and 23 µs before | index entries 40%; reading the list 15%; checking the idempotency key before the insertion 10% |
| submit to start, idle, SQLite | the sync of one commit, and code that V8 has not compiled: 1 ms on a busy machine. Of that, the claim takes 22%, deciding what to claim 14%, two turns of the event loop 14%, the insertion 13%, writing the commit 8% | 15 statements instead of 22 for the creation and the claim: the claim takes 17% less | the commit writes 10 to 11 pages: six of the job and its indexes, four of its lane, one of the clock that lanes share |
| drain, SQLite | 24 to 27 µs when warm, 60 to 80 µs in the first 1,000 jobs. Warm: the claim 7 µs, the completion 5 µs, garbage collection 3 µs, and the rest is the engine's | one trigger for all guards of an update, and claims that compute the new state in SQL: 2 to 3 µs. A list statement is compiled once: 11 ms of the first 200 | code that V8 has not compiled, which is a third of 4,000 jobs; the update of a wide row at the claim and at the end, 3 µs each. Completing and claiming in one transaction would save 1 µs: a commit of 250 jobs costs 0.7 µs for each and a sync. Claims of 100 jobs cost 3 µs more and no less memory |
| drain, Postgres | server: claim 23 µs, completion 15 µs, 1.5 KB of WAL; process: 26 µs of its main thread once warm, 35 to 55 µs in all while V8 still compiles | held jobs in three indexes of the queue instead of five, and a claim in sets that returns columns instead of rows: claim 32 to 23 µs; one look at the job and narrower rows: completion 17 to 15 µs; ids of finished jobs measured once: 4 of 20 KB of JavaScript objects | of a claim, the update and its three indexes take 13 µs; of a completion, the checks of two triggers take 5 µs. pg-boss takes 37 µs in its server and 13 to 18 µs in its process, so the process decides |
| memory of a drain | 123 to 145 MB once the engine is open, of which Node takes 73, Kysely 23 and Effect 30; 185 to 205 MB after 60,000 jobs | claims of half the slots: 300 to 185 MB. \`--max-semi-space-size=8 --heap-growing-percent=30\`: 143 MB, for a third more processor time, before that. A program sets these flags, a library cannot | V8 enlarges its young generation while modules load, and again because 500 jobs in progress survive each collection. Statements compiled when kiln is built would save most of what Kysely takes |`

export const engines = `## Engines

| Engine | Configuration |
|---|---|
| kiln | \`createEngine\` with 500 slots and without a queue cap. Bulk: \`submitMany\` |
| pg-boss | \`useListenNotify\`, queue with \`notify\`, two workers with batches of 500, \`burstWhenBatchFull\`. Bulk: \`insert\` |
| graphile-worker | \`concurrentJobs: 100\`, \`localQueue.size: 500\`, \`completeJobBatchDelay: 0\`. Bulk: \`addJobs\` |
| BullMQ | its Postgres backend, \`concurrency: 100\`. Bulk: \`addBulk\` |
| openworkflow | a workflow without steps, \`concurrency: 20\`. It has no bulk call; all runs are started concurrently |
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
