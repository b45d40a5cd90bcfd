import { describe, expect, it } from "vitest"
import * as rules from "@kiln/core/rules"
import { type Transitions, transitionProperties } from "./jobTransitionProperties.ts"

describe("job transitions", () => {
  for (const [name, holds] of Object.entries(transitionProperties))
    it(name, () => expect(() => holds(rules)).not.toThrow())

  it("creates a job as queued and claimable immediately, with its full queue limit", () => {
    expect(rules.created(5, { queueLimitMs: 100, runLimitMs: 10 })).toEqual({
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

  it("creates a delayed job that becomes claimable later", () => {
    const limits = { queueLimitMs: 100, runLimitMs: 10 }
    const times = { claimableAt: 12, deadlineAt: 112, phaseStartedAt: 12 }
    expect(rules.created(5, limits, 7)).toEqual({ ...rules.created(5, limits), ...times })
  })

  it("every event is reachable by random histories of these tests' length", () => {
    const seen = new Set<string>()
    const applyEvent: Transitions["applyEvent"] = (job, event, now) => {
      const after = rules.applyEvent(job, event, now)
      if (after !== undefined) seen.add(event.event)
      return after
    }
    transitionProperties["a status never goes backwards"]?.({ ...rules, applyEvent })
    expect([...seen, "created"].toSorted()).toEqual(Object.keys(rules.jobTransitions).toSorted())
  })
})
