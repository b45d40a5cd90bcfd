import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as domain from "@kiln/core/domain"
import { type Transitions, transitionProperties } from "./jobTransitionProperties.ts"

describe("job transitions", () => {
  for (const [name, holds] of Object.entries(transitionProperties))
    it(name, () => expect(() => holds(domain)).not.toThrow())

  it("creates a job as queued, claimable at once, with its whole queue limit ahead", () => {
    expect(domain.created(5, { queueLimitMs: 100, runLimitMs: 10 })).toEqual({
      queueLimitMs: 100,
      runLimitMs: 10,
      status: "queued",
      token: 0,
      held: false,
      claimableAt: 5,
      deadlineAt: 105,
      phaseStartedAt: 5,
      ranMs: 0,
      waitedMs: 0,
      attempts: 0,
      failures: 0,
      lostWorkers: 0,
      errorCode: null,
      finishedAt: null,
    })
  })

  it("every event is reachable by random histories of these tests' length", () => {
    const seen = new Set<string>()
    const applyEvent: Transitions["applyEvent"] = (job, event, now) => {
      const after = domain.applyEvent(job, event, now)
      if (after !== undefined) seen.add(event.event)
      return after
    }
    transitionProperties["a status never goes backwards"]?.({ ...domain, applyEvent })
    expect([...seen, "created"].toSorted()).toEqual(Object.keys(domain.jobTransitions).toSorted())
  })
})

/** A bug in the domain's text, and the property that must notice it. */
const plantedBugs: ReadonlyArray<readonly [bug: string, property: string, file: string, from: string, to: string]> = [
  [
    "no fence",
    "exactly the moves of the table are made, and lead where it says",
    "Lease.ts",
    "job.held && job.token === token",
    "job.held",
  ],
  [
    "a released job may still be written",
    "exactly the moves of the table are made, and lead where it says",
    "Lease.ts",
    'job.status === "processing" && job.held && job.token',
    'job.status === "processing" && job.token',
  ],
  [
    "a lease is taken over a millisecond early",
    "exactly the moves of the table are made, and lead where it says",
    "Lease.ts",
    "job.claimableAt <= now &&",
    "job.claimableAt <= now + 1 &&",
  ],
  [
    "overdue a millisecond late",
    "exactly the moves of the table are made, and lead where it says",
    "Lease.ts",
    "job.deadlineAt <= now",
    "job.deadlineAt < now",
  ],
  [
    "an unfinished job may be erased",
    "exactly the moves of the table are made, and lead where it says",
    "JobTransition.ts",
    "!(rule.from as ReadonlyArray<string>).includes(job.status) || ",
    "",
  ],
  [
    "erasing touches the state",
    "a finished job never changes again",
    "JobTransition.ts",
    '    case "erased":\n      return job',
    '    case "erased":\n      return { ...job, finishedAt: now }',
  ],
  [
    "a deferred job is queued again",
    "a status never goes backwards",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: false,\n    claimableAt,",
    '    status: "queued",\n    token: job.token + 1,\n    held: false,\n    claimableAt,',
  ],
  [
    "a claim does not raise the token",
    "the fencing token grows with every claim and every end of a claim, and with nothing else",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: true,",
    "    held: true,",
  ],
  [
    "a heartbeat raises the token",
    "the fencing token grows with every claim and every end of a claim, and with nothing else",
    "JobTransition.ts",
    "return { ...job, ...leaseAt(job,",
    "return { ...job, token: job.token + 1, ...leaseAt(job,",
  ],
  [
    "a takeover keeps the token",
    "no claim's token is ever another's, and once a claim ended its token writes nothing",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: true,",
    "    token: job.held ? job.token : job.token + 1,\n    held: true,",
  ],
  [
    "releasing keeps the claim",
    "no claim's token is ever another's, and once a claim ended its token writes nothing",
    "JobTransition.ts",
    "    token: job.token + 1,\n    held: false,\n    claimableAt,",
    "    held: true,\n    claimableAt,",
  ],
  [
    "time after the lease's end counts for nothing",
    "waiting and running add up to the time that passed",
    "JobTransition.ts",
    "waitedMs: job.waitedMs + Math.max(0, now - heldUntil),",
    "waitedMs: job.waitedMs,",
  ],
  [
    "waiting starts over with each phase",
    "waiting and running add up to the time that passed",
    "JobTransition.ts",
    "waitedMs: job.waitedMs + Math.max(0, now - startedAt) }",
    "waitedMs: Math.max(0, now - startedAt) }",
  ],
  [
    "a heartbeat extends past the run limit",
    "no lease reaches past the run limit, or past what was asked",
    "Lease.ts",
    "Math.min(now + leaseDurationMs, runDeadline)",
    "now + leaseDurationMs",
  ],
  [
    "the run limit is each attempt's",
    "no lease reaches past the run limit, or past what was asked",
    "Lease.ts",
    "phaseStartedAt + budgets.runLimitMs - budgets.ranMs",
    "phaseStartedAt + budgets.runLimitMs",
  ],
  [
    "a job is overdue as soon as its lease ends",
    "a lease is as long as was asked, unless the run limit cuts it",
    "Lease.ts",
    "claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets)",
    "claimableAt",
  ],
  [
    "a run out of time waits once more",
    "a lease is as long as was asked, unless the run limit cuts it",
    "Lease.ts",
    "claimableAt === runDeadline ? runDeadline : claimableAt + queueBudgetMs(budgets)",
    "claimableAt + queueBudgetMs(budgets)",
  ],
  [
    "each wait has the whole queue limit",
    "an unfinished job always has an end in sight",
    "Lease.ts",
    "Math.max(0, budgets.queueLimitMs - budgets.waitedMs)",
    "budgets.queueLimitMs",
  ],
  [
    "each overdue job met the queue limit",
    "an overdue job says which limit it met",
    "Lease.ts",
    "job.held && job.claimableAt === job.deadlineAt ?",
    "job.held && job.claimableAt === null ?",
  ],
  [
    "a held job that is overdue met the run limit",
    "an overdue job says which limit it met",
    "Lease.ts",
    "job.held && job.claimableAt === job.deadlineAt ?",
    "job.held ?",
  ],
  [
    "a released job counts as a lost worker",
    "failures, lost workers and attempts are counted apart",
    "JobTransition.ts",
    "lostWorkers: job.lostWorkers + (job.held ? 1 : 0)",
    'lostWorkers: job.lostWorkers + (job.status === "processing" ? 1 : 0)',
  ],
  [
    "every deferral is a failure",
    "failures, lost workers and attempts are counted apart",
    "JobTransition.ts",
    "job.failures + (event.countsAsFailure ? 1 : 0)",
    "job.failures + 1",
  ],
  [
    "a delay is not waited for",
    "a job that is not held is claimable when the event says",
    "JobTransition.ts",
    "now, now + event.delayMs)",
    "now, now)",
  ],
  [
    "a released job goes to the end of its line",
    "a job that is not held is claimable when the event says",
    "JobTransition.ts",
    "return wait(job, now, event.createdAt)",
    "return wait(job, now, now)",
  ],
  [
    "a failed job does not say why",
    "what belongs to a status is there exactly then",
    "JobTransition.ts",
    'finish(job, "failed", event.errorCode, now)',
    'finish(job, "failed", null, now)',
  ],
  [
    "a finished job keeps its lease",
    "what belongs to a status is there exactly then",
    "JobTransition.ts",
    "  claimableAt: null,\n  deadlineAt: null,",
    "  deadlineAt: null,",
  ],
]

describe("the properties catch", () => {
  // Beside the tests, so that the copies' imports resolve as the sources' do.
  let directory = ""
  beforeAll(async () => {
    directory = await mkdtemp(join(import.meta.dirname, ".planted-"))
  })
  afterAll(() => rm(directory, { recursive: true, force: true }))

  for (const [n, [bug, property, file, from, to]] of plantedBugs.entries())
    it(bug, async () => {
      const copy = join(directory, String(n))
      await cp(join(import.meta.dirname, "../src/domain"), copy, { recursive: true })
      const text = await readFile(join(copy, file), "utf8")
      expect(text.split(from).length - 1, `occurrences of ${from} in ${file}`).toBe(1)
      await writeFile(
        join(copy, file),
        text.replace(from, () => to),
      )
      const mutant = (await import(join(copy, "JobTransition.ts"))) as Transitions
      const holds = transitionProperties[property]
      if (holds === undefined) throw new Error(`no property ${property}`)
      expect(() => holds(mutant)).toThrow("Property failed")
    })
})
