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
| create, 1 caller, SQLite | 31 µs of processor time when warm and without a disk; 145 µs with one, of which plainjob takes 64 | HMAC by two one-shot hashes: 52 to 48 µs; no fiber that only waits for a turn, the canonical text of a request once, and no index entry for a job without a key: 36 to 31 µs | JavaScript takes 14 µs when nothing waits for the disk, but 65 µs after each sync, because its code and data have left the caches, and 40 µs from about the 10,000th job on. A commit writes 6 pages, each with a checksum and two writes, and a sync takes 126 µs |
| create, 1 caller, Postgres | server, without a disk: 102 µs on an idle machine, 270 µs on a busy one. In one busy run, server and process took 337 and 362 µs, those of openworkflow 165 and 128 µs | a function for one job instead of lists of one; the request in the row of the job instead of a third table; the trigger that checked the queue now fills it; domains instead of CHECK constraints; an advisory lock instead of a row lock: together 540 to 270 µs. A process without a worker is no longer told of its own jobs: 13% more jobs | the row in the queue, which the trigger inserts, takes 47 of 102 µs, the look at the lane 20, its lock 9. One statement for both rows, without the guard of the trigger, would save 5 to 10%. The process needs about 120 µs from one answer to the next request, openworkflow 70 |
| create, 32 callers, Postgres | server: 33 µs a job in batches of 32, 21 µs in batches of 500 | the same changes, except the first: 40 and 23 µs before | index entries 40%; reading the list 15%; checking the idempotency key before the insertion 10% |
| submit to start, idle, SQLite | 1.1 ms: the commit and its sync 0.4 ms, the claim 129 µs, the way back to the worker 83, deciding what to claim 76, the insertion 72, preparing the job 63, starting the attempt 62, two turns of the event loop 43 | 15 statements instead of 22 for the creation and the claim: the claim takes 17% less; no fiber that only waits for a turn | the commit writes 10 to 11 pages: six of the job and its indexes, four of its lane, one of the clock that lanes share. 15 ms apart, all of it runs from cold caches. A log file that does not grow would save 65 µs of a sync, but a test with one showed no gain |
| submit to start, idle, Postgres | one process: 390 µs of the server's processor time for the creation and the claim, on a busy machine. Apart, of 3.2 ms: the creation 1.3, the wake-up of the worker 0.3, the claim 1.1, the start 0.25 | looking first for a job that is claimable alone: 645 to 390 µs. Ends of jobs are announced only while a process listens: such a statement followed each job by up to 20 ms and met the next one | apart: two commits and two flights, where graphile-worker's worker takes one flight with a simpler statement. On a new connection, the first claim takes 8 ms and the first completion 2 ms, to load the catalog and to plan; with 200 jobs, that is the p99 |
| drain, SQLite | 18 µs of the main thread when warm. Of that, the claim 7 µs and the completion 5 µs | one trigger for all guards of an update, and claims that compute the new state in SQL: 2 to 3 µs. An attempt ends with the callback of the shared call instead of a fiber, and allocates 3.4 KB in the engine instead of 7: 22 to 18 µs | code that V8 has not compiled, which is a third of 4,000 jobs; the update of a wide row at the claim and at the end, 3 µs each. Completing and claiming in one transaction would save 1 µs |
| drain, Postgres | server: claim 14 to 17 µs, completion 12 to 13 µs, 1.5 KB of WAL; process: 12 to 14 µs of its main thread once warm, 16 to 20 µs in the first 20,000 jobs | held jobs in three indexes of the queue instead of five, and a claim in sets that returns columns instead of rows: claim 32 to 23 µs. Room in the index of ids, one look at a batch's jobs, and nothing returned that is the same for all: claim and completion 34 to 31 µs. The next claim is sent before the claimed jobs begin, and attempts end without a fiber of their own: together a third more jobs | pg-boss takes 37 µs in its server and 13 to 18 µs in its process. Each new connection of a pool costs 12 ms of planning and loading, which is 2 to 3 µs a job for 20,000 jobs. Of a claim, its update takes 5 µs, reading the jobs' own rows 2 µs. Tried without gain: held jobs out of the index of turns (0.6 µs), no lock before the update (0.3 to 0.8), no index by status (1.2, but lists need it), claims of a third or a quarter of the slots |
| memory of a drain | once the engine is open, 99 MB (SQLite) and 104 MB (Postgres), of which Node takes 49, drivers 2 to 13, Effect and kiln the rest | packages in a few files and Effect Schema only where it is needed: 127 to 99 MB. Lists instead of sets of attempts, whose outgrown tables kept dead attempts alive; less garbage: drains of 100,000 jobs from 290 to 170 MB (SQLite) and from 330 to 255 MB (Postgres) | V8 enlarges its young generation from 32 to 128 MB while 500 jobs in progress survive each collection, and about 1 KB a job reaches the old one. \`--max-semi-space-size=16\` on SQLite: 144 MB in two of three runs. A program sets this flag, a library cannot. Bundling Effect as well would save 25 MB, but programs share their copy |`

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
