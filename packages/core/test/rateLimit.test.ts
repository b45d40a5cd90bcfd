import { describe, expect, it } from "vitest"
import * as rules from "../src/domain/RateLimit.ts"
import { rateLimitProperties } from "./rateLimitProperties.ts"

describe("portions of a rate limit", () => {
  for (const [name, holds] of Object.entries(rateLimitProperties))
    it(name, () => expect(() => holds(rules)).not.toThrow())

  it.each<readonly [object, string]>([
    [{ create: { perMinute: -1, burst: 1 } }, "limit create: the requests per minute must be"],
    [{ create: { perMinute: 1, burst: 0 } }, "limit create: the burst must be"],
    [{ creat: { perMinute: 1, burst: 1 } }, 'did you mean "create"'],
    [{}, "valid"],
    [{ read: { perMinute: 0, burst: 0 } }, "valid"],
  ])("%j", (limits, problem) => {
    expect(rules.keyLimitsProblem(limits) ?? "valid").toContain(problem)
  })
})
