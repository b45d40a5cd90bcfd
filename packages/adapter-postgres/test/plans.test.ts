import { describe, expect, it, vi } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import pg from "pg"
import { JobStore } from "@kiln/core/ports"
import { arrangeEveryState, callEveryVerb, fixtures } from "@kiln/conformance"
import { announcedUploads, arrivingUploads, chargesAfter, storedLineage, storedUploads } from "@kiln/sql-store"
import { postgresMigrations, PostgresStores } from "../src/index.ts"
import { jobByIdempotencyKey, jobsByOwner, jobsBySeq } from "../src/jobs/jobRow.ts"
import { lockHeads } from "../src/jobs/claimJobs.ts"
import { countAll, countOfProject } from "../src/countJobs.ts"
import { depthByKind, oldestReady } from "../src/queueDepth.ts"
import { anyFinishedJob, finishedJobs } from "../src/jobs/deleteJobs.ts"
import { erasedUploads } from "../src/uploads/sweepUploads.ts"
import { anyKeptJob, keptJobs } from "../src/jobs/eraseJobs.ts"
import { overdueJobs } from "../src/jobs/expireJobs.ts"
import { unusedUploads } from "../src/uploads/sweepUploads.ts"
import { jobsBefore } from "../src/directory.ts"
import { insertCharged } from "../src/spending.ts"
import { closeLedger } from "../src/jobs/listCharges.ts"
import { heldJobs } from "../src/jobs/laneOrder.ts"
import { lanesAhead, lanesBehind } from "../src/jobs/laneOrder.ts"
import { earliestLane } from "../src/jobs/nextClaimable.ts"
import { unfinishedJobs } from "../src/jobs/queueCap.ts"
import { ownOf } from "../src/Statement.ts"
import { lockJobs } from "../src/jobs/lockJobs.ts"
import { ownUploads } from "../src/uploads/uploadRow.ts"
import { everyState } from "./support/everyState.ts"
import { temporaryDatabase } from "./support/places.ts"
import { openPlanner, type Planner, type Scan } from "./support/plans.ts"

const { completionOf, newJob, noLimits, outputFile, ownerOf, projectId } = fixtures

/** Finished jobs in so many ranges of the index, of which each looks for a label, and only a child for its parent. */
const notNeeded = (ranges: number): ReadonlyArray<string> =>
  ["job_labels_job", "queue_pkey", "results_finished", "results_finished"]
    .flatMap((index) => Array.from({ length: ranges }, () => index))
    .toSorted()

/** Tables that grow with the load, or with the number of callers. */
const growing = new Set(["jobs", "results", "queue", "checkpoints", "files", "uploads", "charges", "lanes"])

/** A sort below a limit reads everything to hand out a little of it. */
const isSortedForLimit = ({ above, index }: Scan): boolean =>
  // A fleet holds few jobs.
  index !== "queue_held" &&
  above.includes("Limit") &&
  above.slice(0, above.indexOf("Limit")).some((node) => node.endsWith("Sort"))

/** From which index each question about many rows is answered. Plans that read other tables too name them all. */
const answers: ReadonlyArray<readonly [question: string, sql: string, indexes: ReadonlyArray<string>]> = [
  ["a lane's claimable jobs, rank by rank and in order", lockHeads.sql, ["queue_by_turn", "queue_by_turn"]],
  ["lanes behind the clock, by age", lanesBehind.sql, ["fairness_pkey", "lanes_by_age"]],
  ["lanes ahead of it, by turn", lanesAhead.sql, ["fairness_pkey", "lanes_by_turn"]],
  ["the lane that is next to have something", earliestLane.sql, ["lanes_by_next"]],
  ["overdue jobs", overdueJobs.sql, ["queue_deadline", "queue_held"]],
  [
    "callers' jobs",
    jobsByOwner.sql,
    ["checkpoints_pkey", "files_job_seq_name_key", "jobs_id_key", "prices_pkey", "queue_pkey", "results_pkey"],
  ],
  [
    "an idempotency key's job",
    jobByIdempotencyKey.sql,
    [
      "checkpoints_pkey",
      "files_job_seq_name_key",
      "jobs_key_id_idempotency_key_key",
      "prices_pkey",
      "queue_pkey",
      "results_pkey",
    ],
  ],
  [
    "claimed jobs",
    jobsBySeq.sql,
    ["checkpoints_pkey", "files_job_seq_name_key", "jobs_pkey", "prices_pkey", "queue_pkey", "results_pkey"],
  ],
  ["a project's unfinished jobs", unfinishedJobs.sql, ["lanes_project_id_kind_kind_version_mode_key", "queue_by_turn"]],
  ["uploads and their jobs", ownUploads.sql, ["jobs_upload", "uploads_id_key"]],
  ["jobs to be moved", lockJobs.sql, ["queue_pkey"]],
  [
    "jobs whose data is to expire",
    keptJobs.sql,
    ["job_labels_job", "jobs_pkey", "queue_pkey", "results_finished", "results_finished", "results_pkey"],
  ],
  ["whether one is due", anyKeptJob.sql, notNeeded(1)],
  ["jobs to be deleted", finishedJobs.sql, notNeeded(3)],
  ["whether one is due to be deleted", anyFinishedJob.sql, notNeeded(3)],
  [
    "a project's jobs, counted",
    countOfProject.sql,
    ["lanes_project_id_kind_kind_version_mode_key", "queue_by_turn", "results_finished", "results_finished"],
  ],
  [
    "a page of jobs, newest first",
    jobsBefore.sql,
    ["jobs_pkey", "jobs_pkey", "queue_by_age", "queue_held", "queue_pkey", "results_by_status", "results_pkey"],
  ],
  ["entries of the ledger, in order", ownOf(chargesAfter).sql, ["charges_by_time"]],
  ["a project's stored uploads", ownOf(storedUploads).sql, ["jobs_upload", "uploads_stored"]],
  ["a project's announced uploads", ownOf(announcedUploads).sql, ["uploads_announced"]],
  ["a project's arriving uploads", ownOf(arrivingUploads).sql, ["uploads_arriving"]],
  ["uploads to expire", unusedUploads.sql, ["jobs_upload", "uploads_sweep"]],
  ["uploads to be deleted", erasedUploads.sql, ["jobs_upload", "uploads_sweep"]],
]

/** Every statement that the verbs send, by calling them all. */
const sentStatements = Effect.gen(function* () {
  const url = yield* everyState
  const query = vi.spyOn(pg.Client.prototype, "query")
  yield* Effect.provide(callEveryVerb, PostgresStores.layer({ url, poolSize: 2, notifications: false }))
  const texts = query.mock.calls.map(([config]: ReadonlyArray<unknown>) =>
    typeof config === "object" && config !== null && "text" in config ? String(config.text) : "",
  )
  query.mockRestore()
  return new Set(texts.filter((text) => /^(select|insert|update|delete|with)\b/.test(text)))
})

const migrated: Effect.Effect<string, unknown, Scope.Scope> = Effect.gen(function* () {
  const url = yield* temporaryDatabase()
  yield* postgresMigrations.apply({ url })
  return url
})

/** A store after some days: many finished jobs with files, some unfinished ones, many lanes. */
const grown = Effect.gen(function* () {
  const url = yield* everyState
  yield* Effect.gen(function* () {
    const jobs = yield* JobStore
    for (const first of [1_000, 2_000, 3_000])
      yield* jobs.createJobs(
        Array.from({ length: 1_000 }, (_, n) =>
          newJob(first + n, { projectId: projectId(n % 200), kind: "transcription" }),
        ),
      )
    const runnable = [{ kind: "transcription", kindVersion: 1, mode: "sandbox" }] as const
    const ask = { runnable, limits: noLimits, limit: 2_500, leaseDurationMs: 60_000, maxLostWorkers: 3 }
    const { claims } = yield* jobs.claimJobs(ask)
    yield* jobs.completeJobs(
      claims.slice(100).map((claim, n) => completionOf(claim, { files: [outputFile(claim, 1_000 + n)] })),
    )
  }).pipe(Effect.provide(PostgresStores.layer({ url, poolSize: 2, notifications: false })))
  return url
})

const analyzed = Effect.gen(function* () {
  const url = yield* grown
  const planner = yield* openPlanner(url)
  yield* Effect.promise(() => planner.query("ANALYZE"))
  return url
})

/** Plans are kept as they were made, so they must be right however much was there by then, and whatever was known of it. */
const stages: ReadonlyArray<readonly [stage: string, url: Effect.Effect<string, unknown, Scope.Scope>]> = [
  ["new tables", migrated],
  ["a few rows without statistics", everyState],
  ["many rows with statistics", analyzed],
]

const expectAnswers = async (planner: Planner): Promise<void> => {
  for (const [question, sql, indexes] of answers) {
    const scans = await planner.scansOf(sql)
    expect(scans.map(({ index, table }) => index ?? table).toSorted(), question).toEqual(indexes)
    expect(scans.filter(isSortedForLimit), question).toEqual([])
  }
}

/** Indexes whose first columns pick too little: how far a condition must go in them. */
const wholeKeys: Readonly<Record<string, RegExp>> = {
  jobs_key_id_idempotency_key_key: /key_id.*idempotency_key/,
  // The second form finds the next kind, of which it reads one entry.
  results_finished: /COALESCE\(retained.*(kind = .*finished_at|kind > present)/,
  results_by_status: /COALESCE\(status.*ROW\(created_at, job_id\).*created_at/,
  queue_by_age: /ROW\(created_at, id\).*created_at/,
  queue_by_turn: /lane_id/,
  charges_by_time: /ROW\(charged_at, job_id\).*charged_at </,
  lanes_by_age: /kind.*kind_version.*mode/,
  lanes_by_turn: /kind.*kind_version.*mode/,
  lanes_by_next: /kind.*kind_version.*mode/,
  uploads_sweep: /erased.*sweep_at/,
}

/** Every lane is read, in any order. */
const anyLanes = [
  "lanes_pkey",
  "lanes_by_age",
  "lanes_by_turn",
  "lanes_by_next",
  "lanes_project_id_kind_kind_version_mode_key",
]

/**
 * Tables that may be read whole, or from the end: the newest id of jobs and of uploads; held jobs, since a fleet holds few; of the queue, when an operator wants to know how
 * many there are.
 */
const wholeFor: ReadonlyMap<string, ReadonlyArray<string>> = new Map([
  [heldJobs.sql, ["queue_held"]],
  [jobsBefore.sql, ["queue_held"]],
  [ownOf(storedLineage).sql, ["jobs_id_key", "uploads_id_key"]],
  // The charges of a month, when an operator sets a spend cap.
  [insertCharged.sql, ["charges_by_time"]],
  // The last entry alone, from the end of the index.
  [closeLedger.sql, ["charges_by_time"]],
  // As many as its limit.
  [depthByKind.sql, ["queue_by_turn", ...anyLanes]],
  [oldestReady.sql, anyLanes],
  [countAll.sql, ["queue_by_turn", "lanes_pkey", "lanes_project_id_kind_kind_version_mode_key"]],
])

/** Of a table that grows, each scan reads what a condition picks from an index. */
const expectPicked = async (planner: Planner, statements: ReadonlySet<string>): Promise<void> => {
  for (const sql of statements) {
    const whole = (await planner.scansOf(sql)).filter(
      ({ condition = "", index = "", table }) =>
        growing.has(table) && (condition === "" || !(wholeKeys[index] ?? /./).test(condition)),
    )
    expect(
      whole.filter(({ index = "" }) => wholeFor.get(sql)?.includes(index) !== true),
      sql,
    ).toEqual([])
  }
}

describe("plans use indexes, whatever the tables contain", () => {
  for (const [stage, place] of stages)
    it.live(stage, () =>
      Effect.gen(function* () {
        const statements = yield* sentStatements
        expect(statements.size).toBeGreaterThan(60)
        const planner = yield* openPlanner(yield* place)
        yield* Effect.promise(() => expectAnswers(planner))
        yield* Effect.promise(() => expectPicked(planner, statements))
      }),
    )

  // Among the indexes of lanes any will do until the server knows better, which it does within a minute.
  it.live("many rows without statistics", () =>
    Effect.gen(function* () {
      const statements = yield* sentStatements
      const planner = yield* openPlanner(yield* grown)
      yield* Effect.promise(() => expectPicked(planner, statements))
    }),
  )
})

it.live("no growing table is scanned, not by triggers and functions either", () =>
  Effect.gen(function* () {
    const url = yield* migrated
    const { query } = yield* openPlanner(url)
    // Sessions that end hand in what they counted, some time after their clients are gone.
    const others =
      "SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
    const othersGone = Effect.repeat(
      Effect.promise(() => query(others)),
      { until: ({ rowCount }) => rowCount === 0 },
    )
    // Reads by migrations do not count.
    yield* othersGone
    yield* Effect.promise(() => query("SELECT pg_stat_reset()"))
    const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false })
    yield* Effect.provide(arrangeEveryState, layer, { local: true })
    yield* Effect.provide(callEveryVerb, layer, { local: true })
    yield* othersGone
    const { rows } = yield* Effect.promise(() =>
      query("SELECT relname AS table, seq_scan::int AS whole, idx_scan > 0 AS picked FROM pg_stat_user_tables"),
    )
    const counted = rows.filter(({ table }) => growing.has(table)) as ReadonlyArray<object>
    expect(counted).toHaveLength(growing.size)
    const expected = (rows as ReadonlyArray<{ readonly table: string }>).flatMap(({ table }) =>
      growing.has(table) ? [{ table, whole: 0, picked: true }] : [],
    )
    expect(counted).toEqual(expected)
  }),
)

/** The hot verbs, on ever other jobs. */
const hotVerbs = Effect.fnUntraced(function* (jobs: JobStore["Service"], round: number) {
  const created = [newJob(200 + round), newJob(300 + round, { projectId: projectId(round), queueCap: 100 + round })]
  yield* jobs.createJobs(created)
  const { claims } = yield* jobs.claimJobs({
    runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" }],
    limits: { perKind: { transcription: 1 }, perProject: 1_000 + round },
    limit: 10 + round,
    leaseDurationMs: 1_000 + round,
    maxLostWorkers: 3,
  })
  expect(claims.length).toBeGreaterThan(1)
  yield* jobs.extendLeases(claims.map(({ job, token }) => ({ jobId: job.id, token, leaseDurationMs: 2_000 + round })))
  yield* jobs.completeJobs(
    claims.map((claim, n) => completionOf(claim, { files: [outputFile(claim, 100 * round + n)] })),
  )
  yield* jobs.findJobs(created.map((job) => ({ jobId: job.id, principal: ownerOf(job) })))
  yield* jobs.findByIdempotencyKey(newJob(1).keyId, `idempotency-${200 + round}`)
  yield* jobs.expireJobs(10 + round)
})

/** What the server keeps for this process's connections, heartbeats' among them. */
const preparedOn = (clients: ReadonlySet<pg.Client>): Effect.Effect<ReadonlyArray<{ readonly custom: number }>> =>
  Effect.promise(async () => {
    const rows: Array<{ readonly custom: number }> = []
    for (const client of clients)
      rows.push(
        ...(
          await client.query("SELECT statement, custom_plans AS custom FROM pg_prepared_statements ORDER BY statement")
        ).rows,
      )
    return rows
  })

it.live("no statement is prepared or planned again when its parameters change", () =>
  Effect.gen(function* () {
    const url = yield* everyState
    const query = vi.spyOn(pg.Client.prototype, "query")
    // One connection for heartbeats, and one for everything else.
    const layer = PostgresStores.layer({ url, poolSize: 2, notifications: false })
    yield* Effect.gen(function* () {
      const jobs = yield* JobStore
      for (const round of [1, 2]) yield* hotVerbs(jobs, round)
      const clients = new Set(query.mock.contexts.filter((context) => context instanceof pg.Client))
      const before = yield* preparedOn(clients)
      expect(clients.size).toBe(2)
      expect(before.length).toBeGreaterThan(20)
      expect(before.filter(({ custom }) => custom > 0)).toEqual([])
      for (const round of [3, 4, 5]) yield* hotVerbs(jobs, round)
      expect(yield* preparedOn(clients)).toEqual(before)
    }).pipe(Effect.provide(layer))
    query.mockRestore()
  }),
)

it.live("a claim without limits counts nothing", () =>
  Effect.gen(function* () {
    const query = vi.spyOn(pg.Client.prototype, "query")
    const counts = () =>
      query.mock.calls.some(([config]: ReadonlyArray<unknown>) => Object(config).text === heldJobs.sql)
    const layer = PostgresStores.layer({ url: yield* everyState, poolSize: 2, notifications: false })
    yield* Effect.gen(function* () {
      const { claimJobs } = yield* JobStore
      const runnable = [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }]
      const request = { runnable, limit: 1, leaseDurationMs: 1_000, maxLostWorkers: 3 }
      yield* claimJobs({ ...request, limits: noLimits })
      expect(counts()).toBe(false)
      yield* claimJobs({ ...request, limits: { perKind: {}, perProject: 1 } })
      expect(counts()).toBe(true)
    }).pipe(Effect.provide(layer))
    query.mockRestore()
  }),
)
