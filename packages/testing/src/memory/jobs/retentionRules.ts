import { isReplaced, type PublishedRule, type RetentionPublication } from "@kiln/core/ports"
import type { MemoryState, StoredRule } from "../MemoryState.ts"

const publishedRule = ({ liveUntil, ...rule }: StoredRule, now: number): PublishedRule => ({
  ...rule,
  stoppedForMs: liveUntil > now ? null : now - liveUntil,
})

export const publishRetention = (state: MemoryState, publication: RetentionPublication, now: number): void => {
  const { program, publisher, rules, ttlMs } = publication
  for (const [name, rule] of state.retentionRules)
    if (rule.publisher === publisher || isReplaced(publishedRule(rule, now), publication))
      state.retentionRules.delete(name)
  for (const { dataMs, jobsMs, kind } of rules)
    state.retentionRules.set(
      JSON.stringify([kind, publisher]),
      Object.freeze({ kind, dataMs, jobsMs, publisher, program, liveUntil: now + Math.ceil(ttlMs) }),
    )
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

export const readRetention = (state: MemoryState, now: number): ReadonlyArray<PublishedRule> =>
  [...state.retentionRules.values()]
    .sort((a, b) => compare(a.kind, b.kind) || compare(a.publisher, b.publisher))
    .map((rule) => publishedRule(rule, now))
