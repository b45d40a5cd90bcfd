import { hidden, plant } from "./PlantedBug.ts"

/** In what a worker does with a job in hand, and in the sweep. */
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
    "return next === undefined ? undefined : putJob",
    "if (next === undefined && 'files' in changes(job)) putJob(state, { ...job, ...changes(job), output: job.output }); return next === undefined ? undefined : putJob",
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
  plant("jobs/fencedVerbs.ts", "JobStore.releaseJobs", "a released job goes to the end of its line", [
    "createdAt: job.createdAt })",
    "createdAt: now })",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.deferJobs", "every deferral counts as a failure", [
    "delayMs, countsAsFailure }), now)",
    "delayMs, countsAsFailure: true }), now)",
  ]),
  plant("jobs/fencedVerbs.ts", "JobStore.extendLeases", "past the run limit a heartbeat is granted a negative lease", [
    "Math.max(0, (job.claimableAt ?? now) - now)",
    "(job.claimableAt ?? now) - now",
  ]),
  plant("jobs/expireJobs.ts", "JobStore.expireJobs", "queued jobs are never overdue", [
    "isOverdue(job, now))",
    'job.status === "processing" && isOverdue(job, now))',
  ]),
  hidden(
    plant("jobs/expireJobs.ts", "JobStore.expireJobs", "the sweep takes the newest first", [
      "(a.deadlineAt ?? 0) - (b.deadlineAt ?? 0)",
      "(b.deadlineAt ?? 0) - (a.deadlineAt ?? 0)",
    ]),
  ),
]
