import { jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

const day = 86_400_000

const kindOf = <Name extends string>(name: Name, limits: { dataRetentionMs?: number; jobRetentionMs?: number } = {}) =>
  jobKind({ name, limits, request: z.object({}), run: async () => ({ output: {} }) })

/** One finished job of each of four kinds. */
const finishedJobs = async () => {
  const engine = await testEngine({
    kinds: [
      kindOf("ordinary"),
      kindOf("brief", { dataRetentionMs: 1_000, jobRetentionMs: 3_000 }),
      kindOf("lasting", { dataRetentionMs: 400 * day, jobRetentionMs: 500 * day }),
      kindOf("eternal", { dataRetentionMs: 0, jobRetentionMs: 0 }),
    ],
    settings: { dataRetentionMs: 2_000, jobRetentionMs: 4_000 },
  })
  for (const kind of ["ordinary", "brief", "lasting", "eternal"] as const) await engine.submit(kind, {})
  /** By kind: whether the data is there; kinds whose record is gone are not listed. */
  const left = async () => {
    const { jobs } = await engine.operator.list()
    return Object.fromEntries(jobs.map(({ kind, retained }) => [kind, retained]))
  }
  return { engine, left }
}

describe("retention of a kind", () => {
  it("replaces the engine's, for data and for records, to the millisecond", async () => {
    const { engine, left } = await finishedJobs()
    await using _ = engine
    const all = { ordinary: "kept", brief: "kept", lasting: "kept", eternal: "kept" }
    await engine.advance(999)
    expect(await left()).toEqual(all)
    await engine.advance(1)
    expect(await left()).toEqual({ ...all, brief: "expired" })
    await engine.advance(1_000)
    expect(await left()).toEqual({ ...all, brief: "expired", ordinary: "expired" })
    await engine.advance(999)
    expect(await left()).toEqual({ ...all, brief: "expired", ordinary: "expired" })
    await engine.advance(1)
    expect(await left()).toEqual({ ordinary: "expired", lasting: "kept", eternal: "kept" })
    await engine.advance(1_000)
    expect(await left()).toEqual({ lasting: "kept", eternal: "kept" })
    await engine.advance(400 * day - 4_001)
    expect(await left()).toEqual({ lasting: "kept", eternal: "kept" })
    await engine.advance(1)
    expect(await left()).toEqual({ lasting: "expired", eternal: "kept" })
    await engine.advance(100 * day)
    expect(await left()).toEqual({ eternal: "kept" })
    await engine.advance(5_000 * day)
    expect(await left()).toEqual({ eternal: "kept" })
  })

  it("can end although the engine keeps everything else indefinitely", async () => {
    await using engine = await testEngine({
      kinds: [kindOf("ordinary"), kindOf("brief", { jobRetentionMs: 1_000 })],
      settings: { dataRetentionMs: 0, jobRetentionMs: 0 },
    })
    await engine.submit("ordinary", {})
    await engine.submit("brief", {})
    await engine.advance(1_000)
    expect((await engine.operator.list()).jobs.map(({ kind }) => kind)).toEqual(["ordinary"])
  })

  it.each(["dataRetentionMs", "jobRetentionMs"] as const)("%s must be a non-negative integer", (name) => {
    for (const [wrong, shown] of [
      [-1, "-1"],
      [0.5, "0.5"],
      [Number.NaN, "NaN"],
      [Number.POSITIVE_INFINITY, "Infinity"],
      ["1d" as never, '"1d"'],
    ] as const)
      expect(() => kindOf("brief", { [name]: wrong })).toThrow(
        `${name} of job kind "brief" must be a non-negative integer, 0 to keep indefinitely, not ${shown}`,
      )
    expect(() => kindOf("brief", { [name]: 0 })).not.toThrow()
  })
})
