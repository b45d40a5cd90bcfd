import { describe, expect, it } from "vitest"
import { SharedRuns } from "../src/file/system.ts"

/** Runs that end when they are told to. */
const controlled = () => {
  const begun: Array<{ readonly path: string; readonly end: () => void; readonly fail: (error: Error) => void }> = []
  const runs = new SharedRuns<number>((path) => {
    const number = begun.length + 1
    return new Promise((resolve, reject) => {
      begun.push({ path, end: () => resolve(number), fail: reject })
    })
  })
  return { begun, runs }
}
const turn = () => new Promise<void>((resolve) => setImmediate(resolve))

describe("shared runs", () => {
  it("of callers that ask before it begins are one; a caller during a run gets the next one", async () => {
    const { begun, runs } = controlled()
    const first = [runs.of("a"), runs.of("a")]
    await turn()
    expect(begun).toHaveLength(1)
    // In progress: what these callers wrote may not be in it.
    const second = [runs.of("a"), runs.of("a")]
    await turn()
    expect(begun).toHaveLength(1)
    begun[0]?.end()
    expect(await Promise.all(first)).toEqual([1, 1])
    await turn()
    const third = runs.of("a")
    await turn()
    expect(begun).toHaveLength(2)
    begun[1]?.end()
    expect(await Promise.all(second)).toEqual([2, 2])
    await turn()
    begun[2]?.end()
    expect(await third).toBe(3)
  })

  it("of different paths do not wait for each other", async () => {
    const { begun, runs } = controlled()
    const both = [runs.of("a"), runs.of("b")]
    await turn()
    expect(begun.map(({ path }) => path)).toEqual(["a", "b"])
    for (const { end } of begun) end()
    expect(await Promise.all(both)).toEqual([1, 2])
  })

  it("that fail fail for all of their callers, and for nobody after them", async () => {
    const { begun, runs } = controlled()
    const first = Promise.allSettled([runs.of("a"), runs.of("a")])
    await turn()
    const second = runs.of("a")
    begun[0]?.fail(new Error("EIO"))
    expect((await first).map(({ status }) => status)).toEqual(["rejected", "rejected"])
    await turn()
    begun[1]?.end()
    expect(await second).toBe(2)
  })
})
