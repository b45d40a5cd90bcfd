export interface PlantedBug {
  readonly bug: string
  /** Path below `src/`. */
  readonly file: string
  readonly from: string
  readonly to: string
  /** The section of the conformance suite that catches it. */
  readonly section: string
}

const createJobs = "jobs/createJobs.ts"

/** Bugs in what the fast paths leave out. */
export const plantedBugs: ReadonlyArray<PlantedBug> = [
  {
    bug: "an insertion that meets its idempotency key counts as a new job",
    file: "jobs/insertJob.ts",
    from: "if (seq === undefined) return undefined",
    to: "if (seq === undefined) return { job, seq: 0 }",
    section: "JobStore.createJobs: idempotency",
  },
  {
    bug: "a refusal does not look for the job of the idempotency key",
    file: createJobs,
    from: 'const job = outcome._tag === "Created" ? this.#insert(item, outcome.job, lane) : undefined',
    to: 'if (outcome._tag !== "Created") return outcome\n      const job = this.#insert(item, outcome.job, lane)',
    section: "JobStore.createJobs: precedence",
  },
  {
    bug: "a retry is inserted before it takes over the upload",
    file: createJobs,
    from: "if (item.retryOf === null && lane !== undefined) {",
    to: "if (lane !== undefined) {",
    section: "JobStore.createJobs: retries",
  },
  {
    bug: "a job that must be unique is judged by its scope before its idempotency key",
    file: createJobs,
    from: 'if (job !== undefined) return { _tag: "Created", job }',
    to: 'if (job !== undefined || outcome._tag !== "Created") return outcome',
    section: "JobStore.createJobs: unique jobs",
  },
  {
    bug: "a single job that must be unique is created at once",
    file: "jobs/insertJob.ts",
    from: " || item.unique !== undefined",
    to: "",
    section: "JobStore.createJobs: unique jobs",
  },
  {
    bug: "a retry leaves the scope to the failed job",
    file: "jobs/labels.ts",
    from: "if (retryOf !== null)",
    to: "if (false)",
    section: "JobStore.createJobs: unique jobs",
  },
  {
    bug: "a lane that waits for a delayed job misses an earlier one",
    file: createJobs,
    from: "lane.nextAt === null || lane.nextAt > claimableAt",
    to: "lane.nextAt === null",
    section: "JobStore.createJobs: delay",
  },
  {
    bug: "a single job is inserted although its lane waits for a later one",
    file: "jobs/insertJob.ts",
    from: '        .where("next_at", "<=", given.claimableAt)\n',
    to: "",
    section: "JobStore.createJobs: delay",
  },
  {
    bug: "a single job is inserted although its lane does not look for its rank",
    file: "jobs/insertJob.ts",
    from: "        .where(knowsRank(given))\n",
    to: "",
    section: "JobStore.claimJobs: priority",
  },
  {
    bug: "a single job is inserted although the project has reached its cap",
    file: "jobs/insertJob.ts",
    from: "(${countUnfinished(given)}) < ${given.cap}",
    to: "1 = 1",
    section: "JobStore.createJobs: queue cap",
  },
  {
    bug: "a single job with a gate is inserted without looking at the gate",
    file: "jobs/insertJob.ts",
    from: "if (item.gate !== null || item.uploadId",
    to: "if (item.uploadId",
    section: "JobStore.createJobs: gate",
  },
  {
    bug: "a lane does not learn the rank of its first job of another priority",
    file: createJobs,
    from: "if (isNewRank) addRank(this.#tx, lane.id, rank)",
    to: "",
    section: "JobStore.claimJobs: priority",
  },
  {
    bug: "a completion is written without its fence",
    file: "jobs/completeJobs.ts",
    from: '    .whereRef("jobs.token", "=", "given.token")\n',
    to: "",
    section: "JobStore: fencing",
  },
  {
    bug: "a completion is not distinguished from its repetition",
    file: "jobs/completeJobs.ts",
    from: "if (seq === undefined) return repeatedOrLost(tx, item)",
    to: 'if (seq === undefined) return "LeaseLost"',
    section: "JobStore: fencing",
  },
  {
    bug: "a completion after the end of its lease counts the time since as running",
    file: "jobs/completeJobs.ts",
    from: "min(${now}, claimable_at)",
    to: "min(${now}, ${now})",
    section: "JobStore.completeJobs",
  },
  {
    bug: "checkpoints are not read before the third attempt",
    file: "jobs/JobRow.ts",
    from: 'row.status === "processing" ? checkpointsOf',
    to: "row.attempts > 1 ? checkpointsOf",
    section: "JobStore.checkpointJobs",
  },
  {
    bug: "a claim returns the job as it was before",
    file: "jobs/claimJobs.ts",
    from: "const job = jobOf(tx, row, claimed)",
    to: "const job = jobOf(tx, row)",
    section: "JobStore.claimJobs",
  },
  {
    bug: "a claim passes over jobs whose lease has ended",
    file: "jobs/readyJobs.ts",
    from: "const lost = current.lost.peek(atMost)",
    to: "const lost: JobRow | undefined = undefined",
    section: "JobStore.claimJobs: lost workers",
  },
  {
    bug: "a claim takes every waiting job before those whose lease has ended",
    file: "jobs/readyJobs.ts",
    from: "(lost === undefined || comesBefore(waiting, lost))",
    to: "true",
    section: "JobStore.claimJobs: lost workers",
  },
  {
    bug: "a lane is settled before the leases of its claims are written",
    file: "jobs/claimJobs.ts",
    from: 'if (outcome === "empty") empty.push(lane)',
    to: 'if (outcome === "empty") settled.set(lane.id, settleLane(tx, lane))',
    section: "JobStore.claimJobs",
  },
  {
    bug: "a lane counts as alone although another of its kind has jobs too",
    file: "jobs/laneOrder.ts",
    from: '.orderBy("next_at")\n    .limit(2)',
    to: '.orderBy("next_at")\n    .limit(1)',
    section: "JobStore.claimJobs: fairness",
  },
  {
    bug: "a lane counts as alone although a lane of another kind has jobs too",
    file: "jobs/laneOrder.ts",
    from: "const ready = first.filter(({ nextAt }) => nextAt <= tx.now)",
    to: "const ready = first.filter(({ nextAt }) => nextAt <= tx.now).slice(0, 1)",
    section: "JobStore.claimJobs: fairness",
  },
  {
    bug: "a lane that was served alone keeps its turn",
    file: "jobs/claimJobs.ts",
    from: "settleLane(tx, lane, turns.get(lane.id))",
    to: "settleLane(tx, lane)",
    section: "JobStore.claimJobs: fairness",
  },
  {
    bug: "a claim tells when its lane had something before it, not after",
    file: "jobs/nextClaimable.ts",
    from: "if (nextAt === undefined) return [lane]",
    to: "if (nextAt === undefined || nextAt !== null) return [lane]",
    section: "JobStore.claimJobs",
  },
  {
    bug: "the next time of a lane with priorities leaves out all but normal jobs",
    file: "jobs/nextClaimable.ts",
    from: "ranksIn(ranks).map",
    to: "[0].map",
    section: "JobStore.claimJobs: priority",
  },
  {
    bug: "a claim forgets what a job has waited since it was queued",
    file: "jobs/writeState.ts",
    from: "queue_limit_ms - ${waitedMs}",
    to: "queue_limit_ms - waited_ms",
    section: "JobStore.claimJobs",
  },
  {
    bug: "a lease that the run limit ends leaves time to wait",
    file: "jobs/writeState.ts",
    from: "iif(${leaseEndsAt} = ${runsUntil}, ${runsUntil}, ",
    to: "iif(0, 0, ",
    section: "JobStore.claimJobs",
  },
  {
    bug: "a lease ignores the time that earlier attempts ran",
    file: "jobs/writeState.ts",
    from: "+ run_limit_ms - ran_ms)",
    to: "+ run_limit_ms)",
    section: "JobStore.claimJobs",
  },
  {
    bug: "held jobs never become overdue",
    file: "jobs/expireJobs.ts",
    from: "...tx.all(overdueHeld, due)",
    to: "",
    section: "JobStore.expireJobs",
  },
  {
    bug: "of two completions of a job in one call, either may be the one that is written",
    file: "jobs/completeJobs.ts",
    from: "return isDistinct ? completeDistinct(tx, items) :",
    to: "return isDistinct || true ? completeDistinct(tx, items) :",
    section: "JobStore: fencing",
  },
  {
    bug: "a list by age leaves out the first job of its range",
    file: "directory.ts",
    from: "job === undefined || job.createdAt >= time",
    to: "job === undefined || job.createdAt > time",
    section: "JobDirectory.listJobs",
  },
]
