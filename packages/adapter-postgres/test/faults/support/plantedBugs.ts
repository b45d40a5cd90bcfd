import type { Edit } from "../../../../../tests/planted/Edit.ts"

/** A bug in how the store handles a lost answer, or guards how jobs end. */
export interface PlantedBug {
  readonly bug: string
  readonly edits: ReadonlyArray<Edit>
  /** The script that runs the scenario, and its arguments. */
  readonly scenario: "reportLostCommits.ts" | "reportForgottenCommit.ts" | "reportClaims.ts" | "reportEnds.ts"
  readonly arguments: ReadonlyArray<string>
  /** What the script reports. */
  readonly noticed: RegExp
}

const inDatabase = (from: string, to: string): Edit => ({ file: "adapter-postgres/src/Database.ts", from, to })

const inTriggers = (file: "jobTriggers" | "queue", from: string, to: string): Edit => ({
  file: `adapter-postgres/src/migrations/initial/${file}.ts`,
  from,
  to,
})

/** A guard of the database that is missing, and the scenario that shows it. */
const missingGuard = (bug: string, scenario: string, edit: Edit, found = "taken"): PlantedBug => ({
  bug,
  edits: [edit],
  scenario: "reportEnds.ts",
  arguments: [scenario],
  noticed: new RegExp(`^${scenario}: ${found}, not`),
})

const inEnds = (from: string, to: string): Edit => ({ file: "adapter-postgres/src/jobs/endJobs.ts", from, to })

const wrongEnd = (bug: string, scenario: string, [from, to]: readonly [from: string, to: string]): PlantedBug => ({
  bug: `an end in one statement ${bug}`,
  edits: [{ file: "adapter-postgres/src/migrations/initial/ends.ts", from, to }],
  scenario: "reportEnds.ts",
  arguments: [scenario],
  noticed: new RegExp(`^${scenario}: `),
})

const inClaim = (bug: string, from: string, to: string): PlantedBug => ({
  bug: `a claim in one statement ${bug}`,
  edits: [{ file: "adapter-postgres/src/migrations/initial/claims.ts", from, to }],
  scenario: "reportClaims.ts",
  arguments: [],
  noticed: /^seed \d+: /,
})

const inClaimAlone = (bug: string, from: string, to: string): PlantedBug => ({
  ...inClaim("", "", ""),
  bug: `a claim of a job that seems to be alone ${bug}`,
  edits: [{ file: "adapter-postgres/src/migrations/initial/claimAlone.ts", from, to }],
  arguments: ["few"],
})

const committed = 'if (fate === "committed") return { _tag: "Done", value: lost.value }'

const justRetry = [inDatabase(committed, 'if (fate === "committed") return { _tag: "Undone", error: lost.error }')]

/** Most are harmless as long as every answer arrives. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "a claim whose COMMIT got no answer is repeated",
    edits: justRetry,
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs, of lost workers"],
    noticed: /^claimJobs, of lost workers: answered /,
  },
  {
    bug: "a claim in one statement that got no answer is made again",
    edits: [
      {
        file: "adapter-postgres/src/migrations/initial/claims.ts",
        from: "is_claimed := is_repeated AND EXISTS",
        to: "is_claimed := false AND EXISTS",
      },
    ],
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs"],
    noticed: /^claimJobs: answered .*\n(.*\n)*claimJobs: queue is /,
  },
  {
    bug: "a transfer whose COMMIT got no answer is repeated",
    edits: justRetry,
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimUpload"],
    noticed: /^claimUpload: answered \{"_tag":"Refused"/,
  },
  {
    bug: "a COMMIT without an answer counts as failed, without checking whether it happened",
    edits: [inDatabase(committed, 'if (fate === "committed") return lost')],
    scenario: "reportLostCommits.ts",
    arguments: ["answer lost", "claimJobs, of lost workers"],
    noticed: /^claimJobs, of lost workers: answered \{"failedWith":".*StoreUnavailable/,
  },
  {
    bug: "a COMMIT without an answer counts as done, without checking whether it happened",
    edits: [inDatabase('if (meaningOf(error) !== "connection") throw error', 'return { _tag: "Done", value }')],
    scenario: "reportLostCommits.ts",
    arguments: ["cut before", "cancelJobs"],
    noticed: /^cancelJobs: results is /m,
  },
  {
    bug: "a transaction number is trusted after a crash, although it may belong to another transaction",
    edits: [
      {
        file: "adapter-postgres/src/Session.ts",
        from: "if (told.now === began) return",
        to: "if (told.now !== null) return",
      },
    ],
    scenario: "reportForgottenCommit.ts",
    arguments: [],
    noticed: /^createJobs: answered Created, 0 stored/,
  },
  missingGuard(
    "a result is inserted for a job that stays in the queue",
    "result without leaving",
    inTriggers("jobTriggers", ' OR EXISTS (SELECT FROM "kiln".queue WHERE id = ANY (ids))', ""),
  ),
  missingGuard(
    "a job leaves the queue without a result",
    "leaving without result",
    inTriggers(
      "queue",
      "(status = 'failed' OR (status = 'done' AND removed.held)) OFFSET 0)) THEN",
      "(status = 'failed' OR (status = 'done' AND removed.held)) OFFSET 0)) AND false THEN",
    ),
  ),
  missingGuard("a job ends without a new token", "old token", inTriggers("queue", "token > removed.token AND", "")),
  missingGuard(
    "a result repeats another kind than its job's",
    "another kind",
    inTriggers("queue", "kind = removed.kind AND ", ""),
  ),
  missingGuard(
    "a result changes",
    "changed result",
    inTriggers("jobTriggers", "results_are_final BEFORE UPDATE ON", "results_are_final BEFORE UPDATE OF job_id ON"),
  ),
  missingGuard(
    "a result is deleted without its job",
    "removed result",
    inTriggers(
      "jobTriggers",
      'IF EXISTS (SELECT FROM removed WHERE EXISTS (SELECT FROM "kiln".jobs WHERE seq = removed.job_seq OFFSET 0)) THEN',
      "IF false THEN",
    ),
  ),
  missingGuard(
    "an unfinished job is deleted",
    "deleted while unfinished",
    inTriggers("jobTriggers", "IF finished < cardinality(removed_seqs) THEN", "IF finished < 0 THEN"),
  ),
  missingGuard(
    "a job counts as erased while its data is there",
    "erased with data",
    inTriggers(
      "jobTriggers",
      'EXISTS (SELECT FROM "kiln".jobs WHERE seq = OLD.job_seq AND request IS NOT NULL) OR',
      "",
    ),
  ),
  missingGuard(
    "a finished job gets into the queue again",
    "queued again",
    inTriggers("queue", "WHEN (pg_trigger_depth() = 0)", "WHEN (false)"),
  ),
  missingGuard(
    "a job is inserted with its result",
    "begun done",
    inTriggers("queue", 'NOT EXISTS (SELECT FROM "kiln".results WHERE job_seq = added.seq OFFSET 0)', "true"),
  ),
  missingGuard(
    "an erased job gets a request again",
    "request again",
    inTriggers("jobTriggers", "WHEN (NEW.request IS NOT NULL) EXECUTE", "WHEN (false) EXECUTE"),
  ),
  missingGuard(
    "checkpoints stay when their job ends",
    "left checkpoints",
    inTriggers(
      "queue",
      'DELETE FROM "kiln".checkpoints WHERE job_id = ANY (ARRAY(SELECT id FROM removed));',
      "PERFORM FROM removed;",
    ),
    "1",
  ),
  wrongEnd("ends a job whose claim was lost", "stale token", ["AND queue.token = item.token ", ""]),
  wrongEnd("ends a job that nobody holds", "token of no claim", [" AND queue.held = is_held", ""]),
  wrongEnd("writes the files of a claim that did not end", "files of a repeat", [
    "WHERE file.place = ANY (places)",
    "WHERE true",
  ]),
  wrongEnd("counts the time after a lease as running", "time after the lease", [
    "least(ended_at, claimable_at)",
    "ended_at",
  ]),
  {
    bug: "an end in one statement whose answer was lost counts as a lost lease",
    edits: [inEnds('written.has(end) || repeats.has(end) ? "Written"', 'written.has(end) ? "Written"')],
    scenario: "reportEnds.ts",
    arguments: ["repeated end"],
    noticed: /^repeated end: LeaseLost,LeaseLost, not/,
  },
  {
    bug: "an end in one statement takes another end of the job for its own",
    edits: [inEnds("state !== undefined && isRepeatedEnd(state, eventOf(end))", "state !== undefined")],
    scenario: "reportEnds.ts",
    arguments: ["other end"],
    noticed: /^other end: Written, not LeaseLost/,
  },
  inClaim(
    "ignores the turns that its process has not saved",
    "greatest(lane.virtual_time, noted.turn,",
    "greatest(lane.virtual_time,",
  ),
  inClaim(
    "fills more than a project's slots",
    "ELSE project_slots - coalesce(held.count, 0) END",
    "ELSE project_slots END",
  ),
  inClaim(
    "takes a job from a lost worker without counting it",
    "queue.held OR lost_workers > 0 AS is_lost",
    "false AS is_lost",
  ),
  inClaim(
    "grants a lease past the run limit",
    "least(claim_time + lease_ms, claim_time + run_limit_ms - ran_ms) AS lease_end",
    "claim_time + lease_ms AS lease_end",
  ),
  {
    ...inClaim("returns a job that was claimed before without its checkpoints", "", ""),
    edits: [
      {
        file: "adapter-postgres/src/migrations/initial/claimedColumns.ts",
        from: "checkpoints WHERE job_id = jobs.id",
        to: "checkpoints WHERE job_id = ''",
      },
    ],
  },
  {
    ...inClaim("forgets how often a job was attempted before", "", ""),
    edits: [
      {
        file: "adapter-postgres/src/migrations/initial/claimedColumns.ts",
        from: "'attempts', queue.attempts",
        to: "'attempts', 1",
      },
    ],
  },
  inClaim("takes the next job of one lane for the first of all", "EXIT WHEN soonest <= claim_time;", "EXIT;"),
  inClaim("gives no lane the turns that another leaves", "EXIT WHEN is_done OR is_claimed;", "EXIT;"),
  inClaimAlone(
    "ignores jobs of higher priority",
    'SELECT 0 FROM "kiln".queue AS above',
    'SELECT NULL::bigint FROM "kiln".queue AS above',
  ),
  inClaimAlone("ignores other jobs of the lane", "coalesce(only_next > claim_time, true)", "true"),
  inClaimAlone("ignores other lanes", "count(*) FILTER (WHERE next_at <= claim_time) = 1", "true"),
  inClaimAlone("takes a job from a lost worker without counting it", " AND NOT held AND lost_workers = 0", ""),
  inClaimAlone("fills more than a project's slots", "project_slots > 1 + coalesce(", "project_slots > coalesce(-9 + "),
]
