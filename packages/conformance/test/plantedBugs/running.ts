import { hidden, plant } from "./PlantedBug.ts"

/** Bugs in operations of a worker on a claimed job, and in the sweep. */
export const running = [
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "no fence: any token writes", [
    "applyEvent(job, event(job), now)",
    "applyEvent(job, { ...event(job), token: job.token }, now)",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a higher token passes", [
    "applyEvent(job, event(job), now)",
    "applyEvent(job, claim.token > job.token ? { ...event(job), token: job.token } : event(job), now)",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a lost lease still writes the output's files", [
    "if (next === undefined) return undefined",
    "if (next === undefined && 'files' in changes(job)) putJob(state, { ...job, ...changes(job), output: job.output }); if (next === undefined) return undefined",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a repeated end is answered with a lost lease", [
    "isRepeatedEnd(job, event(job))) return",
    "false) return",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a stale worker's completion is taken for a repetition", [
    "isRepeatedEnd(job, event(job)))",
    "isRepeatedEnd(job, { ...event(job), token: job.token - 1 }))",
  ]),
  plant(
    "jobs/fencedVerbs.ts",
    "JobStore: fencing",
    "a stale worker's release is taken for a repetition, so its successor's claim seems released",
    ["isRepeatedEnd(job, event(job)))", "isRepeatedEnd({ ...job, held: false }, event(job)))"],
  ),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a failure with another code is taken for a repetition", [
    "isRepeatedEnd(job, event(job)))",
    "isRepeatedEnd(job, { ...event(job), errorCode: job.errorCode }))",
  ]),
  // In a history every charge is the same.
  hidden(
    plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a repeated completion writes a second charge", [
      'isRepeatedEnd(job, event(job))) return "Written"',
      `isRepeatedEnd(job, event(job))) {
    const charge = changes?.(job).charge ?? job.charge
    const entry = state.charges.get(job.id)
    if (entry !== undefined && charge !== null) state.charges.set(job.id, { ...entry, charge })
    putJob(state, { ...job, charge })
    return "Written"
  }`,
    ]),
  ),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a repeated completion brings erased data back", [
    'isRepeatedEnd(job, event(job))) return "Written"',
    `isRepeatedEnd(job, event(job))) {
    if (job.retained !== "kept") putJob(state, { ...job, ...changes?.(job) })
    return "Written"
  }`,
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore: fencing", "a repeated deferral counts as another failure", [
    'isRepeatedEnd(job, event(job))) return "Written"',
    `isRepeatedEnd(job, event(job))) {
    if (event(job).event === "deferred") putJob(state, { ...job, failures: job.failures + 1 })
    return "Written"
  }`,
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.completeJobs", "a live job completes without a charge", [
    'if (job !== undefined && holdsClaim(job, item.token) && (job.mode === "live") !== (item.charge !== null))',
    "if (false)",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.completeJobs", "the warning is lost", ["warningCode: item.warningCode,", ""]),
  plant("jobs/fencedVerbs.ts", "JobStore.checkpointJobs", "a checkpoint replaces those before it", [
    "keep({ ...job.checkpoints, [item.step]: item.value })",
    "keep({ [item.step]: item.value })",
  ]),
  plant("MemoryState.ts", "JobStore.checkpointJobs", "checkpoints outlive their job", [
    "finishes ? { ...next, checkpoints: Object.freeze({}) } : next",
    "next",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.releaseJobs", "a released job goes to the end of its lane", [
    "createdAt: job.createdAt })",
    "createdAt: now })",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.deferJobs", "every deferral counts as a failure", [
    "delayMs, countsAsFailure }, now)",
    "delayMs, countsAsFailure: true }, now)",
  ]),
  plant(
    "jobs/fencedVerbs.ts",
    "JobStore.extendLeases",
    "past the run limit a heartbeat is granted a negative lease",
    [
      "items.map((item) => {\n    const job = write(",
      "items.map((item) => {\n    const before = state.jobs.get(item.jobId)\n    const job = write(",
    ],
    [
      "Math.max(0, (job.claimableAt ?? now) - now)",
      "((before?.claimableAt === before?.deadlineAt ? before?.claimableAt : job.claimableAt) ?? now) - now",
    ],
  ),
  plant(
    "jobs/fencedVerbs.ts",
    "JobStore.listCharges",
    "a charge has the time of its transaction, even if that time was already exported",
    ["Math.max(job.finishedAt, state.ledgerClosedUntil)", "job.finishedAt"],
  ),
  plant("jobs/listCharges.ts", "JobStore.listCharges", "an export claims to be complete up to the requested end", [
    "{ entries, until }",
    "{ entries, until: to }",
  ]),
  plant("jobs/expireJobs.ts", "JobStore.expireJobs", "queued jobs are never overdue", [
    "isOverdue(job, now))",
    'job.status === "processing" && isOverdue(job, now))',
  ]),
  plant("jobs/expireJobs.ts", "JobStore.expireJobs", "a claimed job fails for waiting", [
    "applyEvent(job, overdueEvent(job, now), now)",
    'applyEvent({ ...job, held: false }, { event: "expired" }, now)',
  ]),
  hidden(
    plant("jobs/expireJobs.ts", "JobStore.expireJobs", "the sweep expires the newest job first", [
      "(a.deadlineAt ?? 0) - (b.deadlineAt ?? 0)",
      "(b.deadlineAt ?? 0) - (a.deadlineAt ?? 0)",
    ]),
  ),
]
