import { assert, describe, it } from "@effect/vitest"
import { hostileCases } from "./cases.ts"
import { probe } from "./judge.ts"

describe("a file that plays longer than it looks", () => {
  it("has a unique name", () => {
    assert.strictEqual(new Set(hostileCases.map(({ name }) => name)).size, hostileCases.length)
  })

  it.each(hostileCases)("$name", async ({ file, format, seconds }) => {
    const bytes = file()
    assert.isTrue(bytes.equals(file()), "the file differs when built again")
    const { outcome, reason, seconds: measured } = await probe(format, bytes)
    assert.notStrictEqual(outcome, "died", reason)
    if (outcome === "measured") assert.isAtLeast(measured, 0.95 * seconds)
  })
})
