/** A bug in the domain's text, and the property that must notice it. */
export interface PlantedBug {
  readonly bug: string
  /** Of `transitionProperties` or `acceptanceProperties`. */
  readonly property: string
  /** In `src/domain`. */
  readonly file: string
  /** Occurs exactly once. */
  readonly from: string
  readonly to: string
}

export const plant = (bug: string, property: string, file: string, from: string, to: string): PlantedBug => ({
  bug,
  property,
  file,
  from,
  to,
})

export const plantedBugs: ReadonlyArray<PlantedBug> = [
  plant(
    "no fence",
    "exactly the transitions of the table happen, with the states it lists",
    "Lease.ts",
    "job.held && job.token === token",
    "job.held",
  ),
  plant(
    "a released job may still be written",
    "exactly the transitions of the table happen, with the states it lists",
    "Lease.ts",
    'job.status === "processing" && job.held && job.token',
    'job.status === "processing" && job.token',
  ),
  plant(
    "a lease is taken over a millisecond early",
    "exactly the transitions of the table happen, with the states it lists",
    "Lease.ts",
    "job.claimableAt <= now &&",
    "job.claimableAt <= now + 1 &&",
  ),
  plant(
    "overdue a millisecond late",
    "exactly the transitions of the table happen, with the states it lists",
    "Lease.ts",
    "job.deadlineAt <= now",
    "job.deadlineAt < now",
  ),
  plant(
    "an unfinished job may be erased",
    "exactly the transitions of the table happen, with the states it lists",
    "JobTransition.ts",
    "!(rule.from as ReadonlyArray<string>).includes(job.status) || ",
    "",
  ),
  plant(
    "erasing touches the state",
    "a finished job never changes again",
    "JobTransition.ts",
    '    case "erased":\n      return job',
    '    case "erased":\n      return { ...job, finishedAt: now }',
  ),
  plant(
    "a canceled job times out",
    "fields are set exactly in the statuses to which they belong",
    "JobTransition.ts",
    'finish(job, "failed", "canceled_by_operator", now)',
    'finish(job, "failed", "job_timeout", now)',
  ),
  plant(
    "a delayed job may begin at once",
    "a delayed job begins no earlier, and has its whole queue limit from then on",
    "JobTransition.ts",
    "claimableAt: now + delayMs,",
    "claimableAt: now,",
  ),
  plant(
    "a delay takes from the queue limit",
    "a delayed job begins no earlier, and has its whole queue limit from then on",
    "JobTransition.ts",
    "deadlineAt: now + delayMs + limits",
    "deadlineAt: now + limits",
  ),
  plant(
    "a delay counts as waiting",
    "waiting and running add up to the time that passed, less what followed the ends of leases",
    "JobTransition.ts",
    "phaseStartedAt: now + delayMs,",
    "phaseStartedAt: now,",
  ),
  plant(
    "a deferred job is queued again",
    "a status never goes backwards",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: false,\n    claimableAt,",
    '    status: "queued",\n    token: job.token + 1,\n    held: false,\n    claimableAt,',
  ),
  plant(
    "a claim does not raise the token",
    "the fencing token grows with every claim and every end of a claim, and with nothing else",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: true,",
    "    held: true,",
  ),
  plant(
    "a heartbeat raises the token",
    "the fencing token grows with every claim and every end of a claim, and with nothing else",
    "JobTransition.ts",
    "return { ...job, ...leaseAt(job,",
    "return { ...job, token: job.token + 1, ...leaseAt(job,",
  ),
  plant(
    "a takeover keeps the token",
    "no claim's token is ever another's, and once a claim ended its token writes nothing",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: true,",
    "    token: job.held ? job.token : job.token + 1,\n    held: true,",
  ),
  plant(
    "releasing keeps the claim",
    "no claim's token is ever another's, and once a claim ended its token writes nothing",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: false,\n    claimableAt,",
    "    held: true,\n    claimableAt,",
  ),
  plant(
    "time after the lease's end counts as waiting",
    "a held job never fails for waiting, however late it is",
    "JobTransition.ts",
    "waitedMs: job.waitedMs,",
    "waitedMs: job.waitedMs + Math.max(0, now - heldUntil),",
  ),
  plant(
    "time after the lease's end counts as running, if a heartbeat comes",
    "a heartbeat after the lease's end begins a lease, and what passed meanwhile was not running",
    "JobTransition.ts",
    "if (now <= (job.claimableAt ?? now)) return { ...job,",
    "return { ...job,",
  ),
  plant(
    "waiting starts over with each phase",
    "waiting and running add up to the time that passed, less what followed the ends of leases",
    "JobTransition.ts",
    "waitedMs: job.waitedMs + Math.max(0, now - startedAt) }",
    "waitedMs: Math.max(0, now - startedAt) }",
  ),
  plant(
    "a heartbeat extends past the run limit",
    "no lease reaches past the run limit, or past what was asked",
    "Lease.ts",
    "Math.min(now + leaseDurationMs, runDeadline)",
    "now + leaseDurationMs",
  ),
  plant(
    "the run limit applies to each attempt",
    "no lease reaches past the run limit, or past what was asked",
    "Lease.ts",
    "phaseStartedAt + budgets.runLimitMs - budgets.ranMs",
    "phaseStartedAt + budgets.runLimitMs",
  ),
  plant(
    "a job is overdue as soon as its lease ends",
    "a lease is as long as was asked, unless the run limit cuts it",
    "Lease.ts",
    "claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets)",
    "claimableAt",
  ),
  plant(
    "a job past its run limit waits once more",
    "a lease is as long as was asked, unless the run limit cuts it",
    "Lease.ts",
    "claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets)",
    "claimableAt + queueBudgetMs(budgets)",
  ),
  plant(
    "each wait has the whole queue limit",
    "an unfinished job always has a deadline",
    "Lease.ts",
    "Math.max(0, budgets.queueLimitMs - budgets.waitedMs)",
    "budgets.queueLimitMs",
  ),
  plant(
    "every overdue job reports the queue limit",
    "a held job never fails for waiting, however late it is",
    "Lease.ts",
    'job.held ? "job_timeout" : "queue_timeout"',
    '"queue_timeout"',
  ),
  plant(
    "a claimed overdue job reports the run limit",
    "an overdue job says which limit it met",
    "Lease.ts",
    "isOverdue(job, now) && job.held && job.claimableAt !== job.deadlineAt",
    "false",
  ),
  plant(
    "a released job counts as a lost worker",
    "failures, lost workers and attempts are counted apart",
    "JobTransition.ts",
    "lostWorkers: job.lostWorkers + (job.held ? 1 : 0)",
    'lostWorkers: job.lostWorkers + (job.status === "processing" ? 1 : 0)',
  ),
  plant(
    "every deferral is a failure",
    "failures, lost workers and attempts are counted apart",
    "JobTransition.ts",
    "job.failures + (event.countsAsFailure ? 1 : 0)",
    "job.failures + 1",
  ),
  plant(
    "a job is claimable before its delay has passed",
    "a job that is not held is claimable when the event says",
    "JobTransition.ts",
    "now, now + event.delayMs)",
    "now, now)",
  ),
  plant(
    "a released job goes to the end of its lane",
    "a job that is not held is claimable when the event says",
    "JobTransition.ts",
    "return wait(job, now, event.createdAt)",
    "return wait(job, now, now)",
  ),
  plant(
    "a failed job has no error code",
    "fields are set exactly in the statuses to which they belong",
    "JobTransition.ts",
    'finish(job, "failed", event.errorCode, now)',
    'finish(job, "failed", null, now)',
  ),
  plant(
    "a finished job keeps its lease",
    "fields are set exactly in the statuses to which they belong",
    "JobTransition.ts",
    "  claimableAt: null,\n  deadlineAt: null,",
    "  deadlineAt: null,",
  ),
]
