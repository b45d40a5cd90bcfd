import { describe, expect, it, vi } from "@effect/vitest"
import Sqlite from "better-sqlite3"
import { Effect } from "effect"
import { callEveryVerb, fixtures } from "@kiln/conformance"
import { ranks } from "@kiln/core/rules"
import {
  announcedUploads,
  arrivingUploads,
  chargesAfter,
  erasedUploads,
  nextDue,
  storedUploads,
  unusedUploads,
} from "@kiln/sql-store"
import type { Database } from "../src/Database.ts"
import {
  jobByIdempotencyKey,
  jobByOwner,
  updateFinished,
  updateLost,
  updateUnfinished,
  updateWaiting,
} from "../src/jobs/JobRow.ts"
import { polledByOwner } from "../src/jobs/findJobs.ts"
import { finishCharged, finishFree, overdueHeld, overdueWaiting } from "../src/jobs/endClaims.ts"
import { unfinishedJobs } from "../src/jobs/CountedProjects.ts"
import { insertAtOnce } from "../src/jobs/insertJob.ts"
import { finishedJobs, keptJobs, nextFinishedKind } from "../src/jobs/retention.ts"
import {
  finishedByStatus,
  furthestJob,
  jobsInRange,
  lastFinished,
  nextJob,
  unfinishedByStatus,
} from "../src/jobs/directory.ts"
import { allKinds, earliestLane, earliestLaneOfOthers, firstLanes, lanesInTurn, nextOfRank } from "../src/jobs/lanes.ts"
import { depthByLane, depthOfProject, firstClaimable, runningJobs } from "../src/jobs/counts.ts"
import { claimableJobs, claimableStates } from "../src/jobs/claimJobs.ts"
import { prerequisites } from "../src/migrations/0010Prerequisites.ts"
import { unfinishedPrerequisites } from "../src/jobs/waitingJobs.ts"
import { compiled } from "../src/Statement.ts"
import { ownUpload } from "../src/uploads.ts"
import { everyState, onDatabase, sharedEveryState, storesOf } from "./support/arrangeJobs.ts"

const { newJob, ownerOf, uploadId } = fixtures

const planOf = ({ connection }: Database, sql: string): ReadonlyArray<string> => {
  const values = Array.from(sql.matchAll(/\?/g), () => 1)
  const rows = connection.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(values) as ReadonlyArray<{ readonly detail: string }>
  return rows.map((row) => row.detail)
}

/** Merges two ranges: of held jobs, and of others. */
const twice = (walks: ReadonlyArray<string>): ReadonlyArray<string> => [
  "MERGE (UNION ALL)",
  "LEFT",
  ...walks,
  "RIGHT",
  ...walks,
]

/** Runs only if the request is not in the job's row. */
const longRequest = ["CORRELATED SCALAR SUBQUERY 1", "SEARCH kiln_job_data USING INTEGER PRIMARY KEY (rowid=?)"]

/** Finished jobs of a kind, of which each looks for a label, and only a child for its parent. */
const finishedAndNotNeeded = (subquery: number): ReadonlyArray<string> => [
  "SEARCH kiln_jobs USING INDEX kiln_jobs_finished (retained=? AND kind=? AND finished_at<?)",
  `CORRELATED SCALAR SUBQUERY ${subquery}`,
  "SEARCH kiln_job_labels USING PRIMARY KEY (label=?)",
  "SEARCH dependent USING INTEGER PRIMARY KEY (rowid=?)",
  `CORRELATED SCALAR SUBQUERY ${subquery + 1}`,
  "SEARCH kiln_job_labels USING COVERING INDEX kiln_job_labels_job (job_seq=?)",
  "SEARCH parent USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)",
]

/** A list of items, as the rows of a table. */
const items = (count: number): ReadonlyArray<string> => [`SCAN ${count}-ROW VALUES CLAUSE`]

const labeled = ["LIST SUBQUERY 1", "SEARCH kiln_job_labels USING PRIMARY KEY (label=?)"]

/** The statements of the trigger that wakes the jobs which start after a job that ends. */
const wakingPlans = (/BEGIN(.*)END;/su.exec(prerequisites.sql)?.[1] ?? "")
  .split(";")
  .slice(0, 3)
  .map(
    (text, n) =>
      [
        `${["counting", "waking", "announcing"][n]} the jobs that start after a job`,
        text.replaceAll(/NEW\.\w+/gu, "?"),
        [
          ["SEARCH kiln_parked USING INTEGER PRIMARY KEY (rowid=?)", ...labeled],
          [
            "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)",
            ...labeled,
            "CORRELATED SCALAR SUBQUERY 2",
            "SEARCH kiln_parked USING INTEGER PRIMARY KEY (rowid=?)",
          ],
          [
            "SEARCH kiln_lanes USING INTEGER PRIMARY KEY (rowid=?)",
            "LIST SUBQUERY 2",
            "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)",
            ...labeled,
          ],
        ][n] ?? [],
      ] as const,
  )

/** The plan of each query that could read many rows: which index it uses, and which part of it. */
const answers: ReadonlyArray<readonly [question: string, sql: string, plan: ReadonlyArray<string>]> = [
  [
    "a lane's claimable jobs of a priority, in order",
    compiled(claimableJobs).sql,
    [
      "SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=? AND lane_id=? AND priority=? AND (claimable_at,id)>(?,?) AND claimable_at<?)",
      "SEARCH kiln_prices USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
      ...longRequest,
    ],
  ],
  [
    "their states, when one cannot be read",
    compiled(claimableStates).sql,
    [
      "SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=? AND lane_id=? AND priority=? AND (claimable_at,id)>(?,?) AND claimable_at<?)",
    ],
  ],
  [
    "the next time of a rank in a lane",
    compiled(nextOfRank).sql,
    twice(["SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=? AND lane_id=? AND priority=? AND claimable_at>?)"]),
  ],
  [
    "lanes, by turn",
    compiled(lanesInTurn).sql,
    ["SEARCH kiln_lanes USING INDEX kiln_lanes_by_turn (kind=? AND kind_version=? AND mode=? AND virtual_time>?)"],
  ],
  [
    "the lanes that have something first",
    compiled(firstLanes).sql,
    ["SEARCH kiln_lanes USING INDEX kiln_lanes_by_next (kind=? AND kind_version=? AND mode=? AND next_at>?)"],
  ],
  [
    "the lane that is next to have something",
    compiled(earliestLane).sql,
    ["SEARCH kiln_lanes USING INDEX kiln_lanes_by_next (kind=? AND kind_version=? AND mode=? AND next_at>?)"],
  ],
  [
    "the same without some projects' lanes",
    compiled(earliestLaneOfOthers).sql,
    [
      "SEARCH kiln_lanes USING INDEX kiln_lanes_by_next (kind=? AND kind_version=? AND mode=? AND next_at>?)",
      "LIST SUBQUERY 1",
      "SCAN json_each VIRTUAL TABLE INDEX 1:",
      "CREATE BLOOM FILTER",
    ],
  ],
  [
    "running jobs, by kind and project",
    compiled(runningJobs).sql,
    [
      "CO-ROUTINE running",
      "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_ready (held=?)",
      "SCAN running",
      "SEARCH kiln_lanes USING INTEGER PRIMARY KEY (rowid=?)",
    ],
  ],
  [
    "overdue jobs that wait",
    compiled(overdueWaiting).sql,
    ["SEARCH kiln_jobs USING INDEX kiln_jobs_deadline (deadline_at<?)"],
  ],
  ["overdue jobs that are held", compiled(overdueHeld).sql, ["SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=?)"]],
  [
    "a caller's job",
    compiled(jobByOwner).sql,
    [
      "SEARCH kiln_jobs USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)",
      "SEARCH kiln_prices USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
      ...longRequest,
    ],
  ],
  [
    "what a poll shows of a caller's job",
    compiled(polledByOwner).sql,
    [
      "SEARCH kiln_jobs USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)",
      "SEARCH kiln_prices USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
      "SEARCH kiln_files USING INDEX sqlite_autoindex_kiln_files_2 (job_seq=?) LEFT-JOIN",
      "CORRELATED SCALAR SUBQUERY 1",
      "SEARCH kiln_checkpoints USING PRIMARY KEY (job_seq=? AND step=?)",
    ],
  ],
  [
    "an idempotency key's job",
    compiled(jobByIdempotencyKey).sql,
    [
      "SEARCH kiln_jobs USING INDEX kiln_jobs_key (key_id=? AND idempotency_key=?)",
      "SEARCH kiln_prices USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN",
      ...longRequest,
    ],
  ],
  [
    "a project's unfinished jobs",
    compiled(unfinishedJobs).sql,
    [
      "CO-ROUTINE unfinished",
      "SEARCH own USING COVERING INDEX sqlite_autoindex_kiln_lanes_1 (project_id=?)",
      "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_ready (held=? AND lane_id=?)",
      "SCAN unfinished",
      "SCALAR SUBQUERY 1",
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>?)",
      "SCALAR SUBQUERY 2",
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>?)",
    ],
  ],
  [
    "a single new job",
    compiled(insertAtOnce).sql,
    [
      "SEARCH kiln_lanes USING INDEX sqlite_autoindex_kiln_lanes_1 (project_id=? AND kind=? AND kind_version=? AND mode=?)",
      "SCALAR SUBQUERY 2",
      "SCAN kiln_store_time",
      "SCALAR SUBQUERY 1",
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>?)",
      "SCALAR SUBQUERY 3",
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)",
      "SCALAR SUBQUERY 4",
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>?)",
      // The rows that refer to a job: looked at only if some refer to a missing one.
      "SEARCH kiln_job_scopes USING COVERING INDEX kiln_job_scopes_job (job_seq=?)",
      "SEARCH kiln_job_labels USING COVERING INDEX kiln_job_labels_job (job_seq=?)",
      "SEARCH kiln_files USING COVERING INDEX sqlite_autoindex_kiln_files_2 (job_seq=?)",
      "SEARCH kiln_checkpoints USING PRIMARY KEY (job_seq=?)",
      "SEARCH kiln_job_data USING INTEGER PRIMARY KEY (rowid=?)",
    ],
  ],
  [
    "an upload and its job",
    compiled(ownUpload).sql,
    [
      "SEARCH kiln_uploads USING INDEX sqlite_autoindex_kiln_uploads_1 (id=?)",
      "SEARCH kiln_jobs USING INDEX kiln_jobs_upload (upload_id=?) LEFT-JOIN",
    ],
  ],
  ["a move of a job", compiled(updateUnfinished).sql, ["SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)"]],
  [
    "completions of sandbox jobs",
    finishFree.sqlOf(64),
    [...items(64), "SEARCH kiln_jobs USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)"],
  ],
  [
    "the completion of a live job",
    finishCharged.sqlOf(4),
    [...items(4), "SEARCH kiln_jobs USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)"],
  ],
  [
    "claims of waiting jobs",
    compiled(updateWaiting).sql,
    [
      "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)",
      "LIST SUBQUERY 1",
      "SCAN json_each VIRTUAL TABLE INDEX 1:",
    ],
  ],
  [
    "claims of lost workers' jobs",
    updateLost.sqlOf(16),
    [...items(16), "SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)"],
  ],
  ["the end of a job", compiled(updateFinished).sql, ["SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid=?)"]],
  [
    "the unfinished prerequisites of a job",
    compiled(unfinishedPrerequisites).sql,
    [
      "SEARCH kiln_job_labels USING COVERING INDEX kiln_job_labels_job (job_seq=?)",
      "SEARCH kiln_jobs USING INDEX sqlite_autoindex_kiln_jobs_1 (id=?)",
    ],
  ],
  ...wakingPlans,
  ["jobs whose data is to expire", compiled(keptJobs).sql, finishedAndNotNeeded(1)],
  [
    "the kinds of finished jobs, one by one",
    compiled(nextFinishedKind).sql,
    ["SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_finished (retained=? AND kind>?)"],
  ],
  [
    "jobs to be deleted",
    compiled(finishedJobs).sql,
    [
      "MERGE (UNION ALL)",
      "LEFT",
      "MERGE (UNION ALL)",
      "LEFT",
      ...finishedAndNotNeeded(1),
      "RIGHT",
      ...finishedAndNotNeeded(4),
      "RIGHT",
      ...finishedAndNotNeeded(7),
    ],
  ],
  ["purges that are due", compiled(nextDue).sql, ["SCAN kiln_purges USING INDEX kiln_purges_due"]],
  [
    "how far a page of jobs looks",
    compiled(furthestJob).sql,
    ["SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
  ],
  [
    "a page of jobs, newest first",
    compiled(jobsInRange).sql,
    ["SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)"],
  ],
  [
    "the newest ends of a kind",
    compiled(lastFinished).sql,
    ["SEARCH kiln_jobs USING INDEX kiln_jobs_finished (retained=? AND kind=? AND finished_at>?)"],
  ],
  ["a step of the bisection by time", compiled(nextJob).sql, ["SEARCH kiln_jobs USING INTEGER PRIMARY KEY (rowid>?)"]],
  [
    "entries of the ledger, in order",
    compiled(chargesAfter).sql,
    [
      "CO-ROUTINE plenty",
      "SCAN CONSTANT ROW",
      "SEARCH kiln_charges USING INDEX kiln_charges_by_time ((charged_at,job_id)>(?,?) AND charged_at<?)",
      "SCAN plenty",
    ],
  ],
  [
    "a project's stored uploads",
    compiled(storedUploads).sql,
    [
      "SEARCH kiln_uploads USING INDEX kiln_uploads_stored (project_id=? AND usable_until>?)",
      "CORRELATED SCALAR SUBQUERY 1",
      "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_upload (upload_id=?)",
    ],
  ],
  [
    "a project's announced uploads",
    compiled(announcedUploads).sql,
    ["SEARCH kiln_uploads USING INDEX kiln_uploads_announced (project_id=? AND expires_at>?)"],
  ],
  [
    "a project's arriving uploads",
    compiled(arrivingUploads).sql,
    ["SEARCH kiln_uploads USING INDEX kiln_uploads_arriving (project_id=? AND claimed_until>?)"],
  ],
  [
    "uploads to expire",
    compiled(unusedUploads).sql,
    [
      "CO-ROUTINE plenty",
      "SCAN CONSTANT ROW",
      "SEARCH kiln_uploads USING INDEX kiln_uploads_sweep (erased=? AND sweep_at<?)",
      "CORRELATED SCALAR SUBQUERY 2",
      "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_upload (upload_id=?)",
      "SCAN plenty",
    ],
  ],
  [
    "uploads to be deleted",
    compiled(erasedUploads).sql,
    [
      "CO-ROUTINE plenty",
      "SCAN CONSTANT ROW",
      "SEARCH kiln_uploads USING INDEX kiln_uploads_sweep (erased=? AND sweep_at<?)",
      "CORRELATED SCALAR SUBQUERY 2",
      "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_upload (upload_id=?)",
      "SCAN plenty",
    ],
  ],
]

/** A store after some days of use: many finished jobs, few unfinished ones. */
const grown = Effect.gen(function* () {
  const database = yield* everyState
  const { jobs } = storesOf(database)
  const numbers = Array.from({ length: 2_000 }, (_, n) => 1_000 + n)
  yield* jobs.createJobs(
    numbers.map((n) => newJob(n, { projectId: fixtures.projectId(n % 200), kind: "transcription" })),
  )
  const runnable = [{ kind: "transcription", kindVersion: 1, mode: "sandbox" }] as const
  const { claims } = yield* jobs.claimJobs({
    runnable,
    limits: fixtures.noLimits,
    limit: 1_950,
    leaseDurationMs: 60_000,
    maxLostWorkers: 3,
  })
  yield* jobs.completeJobs(claims.map((claim) => fixtures.completionOf(claim)))
  return database
})

/** Plans of queries that have to read many rows. Statistics may change their order. */
const counts: typeof answers = [
  [
    "unfinished jobs, counted",
    compiled(unfinishedByStatus).sql,
    [
      "SCAN kiln_lanes USING COVERING INDEX sqlite_autoindex_kiln_lanes_1",
      "SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=? AND lane_id=?)",
      "USE TEMP B-TREE FOR GROUP BY",
    ],
  ],
  [
    "the depth of the queue, up to a limit",
    compiled(depthByLane).sql,
    [
      "CO-ROUTINE counted",
      "SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=?)",
      "SCAN counted",
      "SEARCH kiln_lanes USING INTEGER PRIMARY KEY (rowid=?)",
      "USE TEMP B-TREE FOR GROUP BY",
    ],
  ],
  [
    "the kinds of all lanes",
    compiled(allKinds).sql,
    ["SCAN kiln_lanes USING COVERING INDEX sqlite_autoindex_kiln_lanes_1", "USE TEMP B-TREE FOR DISTINCT"],
  ],
  [
    "the depth of the queue of one project",
    compiled(depthOfProject).sql,
    [
      "CO-ROUTINE counted",
      "SEARCH kiln_lanes USING COVERING INDEX sqlite_autoindex_kiln_lanes_1 (project_id=?)",
      "SEARCH kiln_jobs USING INDEX kiln_jobs_ready (held=? AND lane_id=?)",
      "SCAN counted",
      "USE TEMP B-TREE FOR GROUP BY",
    ],
  ],
  [
    "the oldest ready jobs, lane by lane",
    compiled(firstClaimable).sql,
    [
      "SCAN kiln_lanes USING INDEX kiln_lanes_by_age",
      "USE TEMP B-TREE FOR GROUP BY",
      ...Array.from({ length: 2 * ranks.length }, (_, n) => [
        `CORRELATED SCALAR SUBQUERY ${n + 1}`,
        "SEARCH kiln_jobs USING COVERING INDEX kiln_jobs_ready (held=? AND lane_id=? AND priority=? AND claimable_at>?)",
      ]).flat(),
    ],
  ],
  [
    "jobs that finished lately, counted",
    compiled(finishedByStatus).sql,
    [
      "SEARCH kiln_jobs USING INDEX kiln_jobs_finished (retained=? AND kind=? AND finished_at>?)",
      "USE TEMP B-TREE FOR GROUP BY",
    ],
  ],
]

describe("answered from an index, in its order", () => {
  const database = sharedEveryState()

  it.each([...answers, ...counts].map(([question, sql, plan]) => ({ question, sql, plan })))(
    "$question",
    ({ plan, sql }) => expect(planOf(database(), sql)).toEqual(plan),
  )

  it.effect("also after an operator runs ANALYZE", () =>
    Effect.gen(function* () {
      const database = yield* grown
      database.connection.exec("ANALYZE")
      for (const [question, sql, plan] of answers) expect(planOf(database, sql), question).toEqual(plan)
    }),
  )
})

it.effect("no verb scans or sorts a table that grows", () =>
  Effect.gen(function* () {
    const prepare = vi.spyOn(Sqlite.prototype, "prepare")
    const database = yield* everyState
    yield* onDatabase(database)(callEveryVerb)
    const statements = new Set(
      // SQLite rejects EXPLAIN for these.
      prepare.mock.calls.map(([sql]) => sql).filter((sql) => !/^(begin|commit|rollback|pragma)/i.test(sql)),
    )
    prepare.mockRestore()
    expect(statements.size).toBeGreaterThan(60)
    const growing = /^SCAN kiln_(jobs|job_data|files|checkpoints|uploads|charges|lanes)\b|TEMP B-TREE/
    // The few files of one job are sorted after they were found.
    // A count has to read all of them.
    const counting = new Set(counts.map(([, sql]) => sql))
    // Reading one row from the end of an index is a scan to SQLite.
    const newest = /^select "id" from "kiln_\w+" order by "id" desc limit 1$/
    const sorting = [...statements].filter(
      (sql) =>
        !sql.endsWith('from "kiln_files" where "job_seq" = +? order by "seq"') &&
        !counting.has(sql) &&
        !newest.test(sql),
    )
    for (const sql of sorting)
      expect(
        planOf(database, sql).filter((step) => growing.test(step)),
        sql,
      ).toEqual([])
  }),
)

it.effect("a claim without limits counts nothing", () =>
  Effect.gen(function* () {
    const prepare = vi.spyOn(Sqlite.prototype, "prepare")
    const { jobs } = storesOf(yield* everyState)
    const request = {
      runnable: [{ kind: "speech_synthesis", kindVersion: 1, mode: "sandbox" as const }],
      limit: 1,
      leaseDurationMs: 1_000,
      maxLostWorkers: 3,
    }
    const counts = () => prepare.mock.calls.some(([sql]) => sql === compiled(runningJobs).sql)
    yield* jobs.claimJobs({ ...request, limits: fixtures.noLimits })
    expect(counts()).toBe(false)
    yield* jobs.claimJobs({ ...request, limits: { perKind: {}, perProject: 1 } })
    expect(counts()).toBe(true)
    prepare.mockRestore()
  }),
)

/** Calls the most frequent verbs, on other jobs in each round. */
const hotVerbs = (database: Database, round: number) =>
  Effect.gen(function* () {
    const { jobs, keys, uploads } = storesOf(database)
    const created = [
      newJob(200 + round),
      newJob(300 + round, { projectId: fixtures.projectId(round), queueCap: 100 + round }),
    ]
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
      claims.map((claim, n) => fixtures.completionOf(claim, { files: [fixtures.outputFile(claim, 100 * round + n)] })),
    )
    yield* jobs.findJobs(created.map((job) => ({ jobId: job.id, principal: ownerOf(job) })))
    yield* jobs.pollJobs(created.map((job) => ({ jobId: job.id, principal: ownerOf(job) })))
    yield* jobs.findByIdempotencyKey(newJob(1).keyId, `idempotency-${200 + round}`)
    yield* jobs.findFile(fixtures.fileId(100 * round))
    yield* jobs.expireJobs(10 + round)
    yield* uploads.findUpload(uploadId(round))
    yield* keys.findKey(fixtures.digest(round))
  })

it.effect("no statement is prepared again when its parameters change", () =>
  Effect.gen(function* () {
    const database = yield* everyState
    // Rounds with one lane and with several: each has statements of its own.
    for (const round of [1, 2]) yield* hotVerbs(database, round)
    // The driver compiles a function for the rows of a statement whenever SQLite has prepared it.
    const compile = vi.spyOn(globalThis, "Function")
    for (const round of [3, 4, 5]) yield* hotVerbs(database, round)
    const compiled = compile.mock.calls.length
    compile.mockRestore()
    expect(compiled).toBe(0)
  }),
)
