import { jobKind } from "@kiln/core"
import { testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"

/** Kinds that record when they ran. `part` fails until its name is healed. */
const kindsFor = (broken: ReadonlySet<string> = new Set()) => {
  const ran: Array<string> = []
  const part = jobKind({
    name: "part",
    request: z.object({ name: z.string() }),
    output: z.object({ name: z.string(), after: z.array(z.string()) }),
    run: async ({ after, failure, request: { name } }) => {
      ran.push(name)
      if (broken.has(name)) throw failure("content_rejected")
      const given = after.map((each) =>
        each.status === "done" ? ((each.output as { name: string } | null)?.name ?? "erased") : each.errorCode,
      )
      return { output: { name, after: given } }
    },
  })
  return { ran, kinds: [part] }
}

const open = (broken?: ReadonlySet<string>) => {
  const { kinds, ran } = kindsFor(broken)
  return testEngine({ kinds, mode: "manual" }).then((kiln) => ({ kiln, ran }))
}

describe("a job with prerequisites", () => {
  it("runs a diamond in order, hands over the results, and counts no attempt for the wait", async () => {
    const { kiln, ran } = await open()
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" })
    const [b, c] = await Promise.all(["b", "c"].map((name) => kiln.submit("part", { name }, { after: [a] })))
    if (b === undefined || c === undefined) throw new Error("two jobs were submitted")
    const d = await kiln.submit("part", { name: "d" }, { after: [c, b.id], priority: "urgent" })
    // It is claimed first, and parked.
    await kiln.runNext()
    expect(await kiln.get(d)).toMatchObject({ status: "processing", attempts: 0 })
    expect(await kiln.operator.waitingFor(d)).toMatchObject([
      { reason: "after", subject: null, count: 2, limit: 2, until: null },
    ])
    await kiln.drain()
    expect(ran).toEqual(["a", "b", "c", "d"])
    expect(await kiln.get(d)).toMatchObject({ status: "done", attempts: 1, output: { after: ["c", "b"] } })
    expect(await kiln.get(b)).toMatchObject({ attempts: 1, output: { after: ["a"] } })
  })

  it("gets no jobs without any, and an empty list is none", async () => {
    const { kiln } = await open()
    await using _ = kiln
    const job = await kiln.submit("part", { name: "a" }, { after: [], onPrerequisiteFailure: "run" })
    await kiln.drain()
    expect(await kiln.get(job)).toMatchObject({ status: "done", output: { after: [] } })
  })

  it("is looked at once and woken once, however many there are", async () => {
    const { kiln, ran } = await open()
    await using _ = kiln
    const parts = []
    for (let n = 0; n < 20; n++) parts.push(await kiln.submit("part", { name: `${n}` }))
    const last = await kiln.submit("part", { name: "last" }, { after: parts, priority: "high" })
    const kinds: Array<string> = []
    kiln.on("active", ({ jobId }) => kinds.push(jobId === last.id ? "last" : "part"))
    await kiln.drain()
    expect(ran).toHaveLength(21)
    expect(ran.at(-1)).toBe("last")
    expect(kinds.filter((each) => each === "last")).toHaveLength(2)
  })

  it("fails by default once all have finished and one failed, also by cancellation, and says which", async () => {
    const broken = new Set(["b"])
    const { kiln, ran } = await open(broken)
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" }, { delayMs: 1_000 })
    const b = await kiln.submit("part", { name: "b" })
    const c = await kiln.submit("part", { name: "c" }, { after: [a, b] })
    const d = await kiln.submit("part", { name: "d" }, { after: [c] })
    await kiln.drain()
    expect(await kiln.get(c)).toMatchObject({ status: "processing" })
    await kiln.operator.cancel(a)
    await kiln.drain()
    expect(await kiln.get(c)).toMatchObject({
      status: "failed",
      errorCode: "prerequisite_failed",
      attempts: 1,
      errorMessage: `2 of 2 prerequisites failed: ${a.id} (canceled_by_operator), ${b.id} (content_rejected)`,
    })
    expect(await kiln.get(d)).toMatchObject({ status: "failed", errorCode: "prerequisite_failed" })
    expect(ran).toEqual(["b"])
  })

  it.each([
    [5, ""],
    [6, ", …"],
  ])("names up to five of %i that failed", async (count, more) => {
    const names = Array.from({ length: count }, (_, n) => `${n}`)
    const { kiln } = await open(new Set(names))
    await using _ = kiln
    const after = []
    for (const name of names) after.push(await kiln.submit("part", { name }))
    const last = await kiln.submit("part", { name: "last" }, { after })
    await kiln.drain()
    const named = after.slice(0, 5).map(({ id }) => `${id} (content_rejected)`)
    expect(await kiln.get(last)).toMatchObject({
      errorMessage: `${count} of ${count} prerequisites failed: ${named.join(", ")}${more}`,
    })
  })

  it("runs anyway where it is told to, and sees what failed", async () => {
    const { kiln } = await open(new Set(["b"]))
    await using _ = kiln
    const b = await kiln.submit("part", { name: "b" })
    const a = await kiln.submit("part", { name: "a" })
    const c = await kiln.submit("part", { name: "c" }, { after: [b, a], onPrerequisiteFailure: "run" })
    await kiln.drain()
    expect(await kiln.get(c)).toMatchObject({ status: "done", output: { after: ["content_rejected", "a"] } })
  })

  it("takes the retry of a failed one in its place, and its own retry goes on from there", async () => {
    const broken = new Set(["a"])
    const { kiln, ran } = await open(broken)
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" })
    const slow = await kiln.submit("part", { name: "slow" }, { delayMs: 60_000 })
    const b = await kiln.submit("part", { name: "b" }, { after: [a, slow], priority: "high" })
    await kiln.drain()
    const second = await kiln.operator.retry(a)
    await kiln.drain()
    broken.clear()
    await kiln.advance(60_000)
    await kiln.drain()
    // The retry failed too.
    expect(await kiln.get(b)).toMatchObject({ status: "failed", errorCode: "prerequisite_failed" })
    await kiln.operator.pause("part")
    const third = await kiln.operator.retry(second)
    const again = await kiln.operator.retry(b)
    await kiln.operator.resume("part")
    await kiln.runNext()
    expect(await kiln.operator.waitingFor(again)).toMatchObject([{ reason: "after", count: 1, limit: 2 }])
    expect((await kiln.operator.waitingFor(again))[0]?.until).not.toBeNull()
    await kiln.drain()
    await kiln.advance(1_000)
    await kiln.drain()
    expect(await kiln.get(third)).toMatchObject({ status: "done" })
    expect(await kiln.get(again)).toMatchObject({ status: "done", output: { after: ["a", "slow"] } })
    expect(ran).toEqual(["a", "a", "slow", "a", "b"])
  })

  it("is canceled while it waits, and its prerequisites go on", async () => {
    const { kiln, ran } = await open()
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" })
    const b = await kiln.submit("part", { name: "b" }, { after: [a], priority: "high" })
    await kiln.runNext()
    await kiln.operator.cancel(b)
    await kiln.drain()
    expect(await kiln.get(b)).toMatchObject({ errorCode: "canceled_by_operator" })
    expect(ran).toEqual(["a"])
  })

  it("sees no output of one whose data was erased", async () => {
    const { kiln } = await open()
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" })
    const b = await kiln.submit("part", { name: "b" }, { after: [a], delayMs: 10 })
    await kiln.drain()
    await kiln.eraseData(a)
    await kiln.advance(10)
    await kiln.drain()
    expect(await kiln.get(b)).toMatchObject({ status: "done", output: { after: ["erased"] } })
  })

  it("waits past its queue limit, which begins when the last one has finished", async () => {
    const { kiln } = await open()
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" }, { delayMs: 3 * 24 * 3_600_000 })
    const b = await kiln.submit("part", { name: "b" }, { after: [a] })
    await kiln.drain()
    await kiln.advance("3 days")
    await kiln.drain()
    expect(await kiln.get(b)).toMatchObject({ status: "done", attempts: 1 })
  })
})

describe("the submission of a job with prerequisites", () => {
  it("is refused if one does not exist, or belongs to another project or mode", async () => {
    const { kiln } = await open()
    await using _ = kiln
    const unknown = "job_01k9q3w5zr8x2v6m4n7p0t1c3d"
    const other = await kiln.submit("part", { name: "a" }, { project: "other" })
    const live = await kiln.submit("part", { name: "a" }, { mode: "live" })
    for (const id of [unknown, other.id, live.id])
      await expect(kiln.submit("part", { name: "b" }, { after: [id] })).rejects.toMatchObject({
        code: "prerequisite_not_found",
        jobId: id,
      })
    const outcomes = await kiln.submitMany("part", [
      { request: { name: "b" }, after: [unknown] },
      { request: { name: "c" } },
      { request: { name: "d" }, after: [live], mode: "live" },
    ])
    expect(outcomes.map(({ error, job }) => error?.code ?? job?.status)).toEqual([
      "prerequisite_not_found",
      "queued",
      "queued",
    ])
  })

  it("returns the job of an earlier call, whatever has become of the prerequisites", async () => {
    const { kiln } = await open()
    await using _ = kiln
    const a = await kiln.submit("part", { name: "a" })
    const unknown = "job_01k9q3w5zr8x2v6m4n7p0t1c3d"
    const repeated = { after: [unknown], idempotencyKey: "b" }
    await expect(kiln.submit("part", { name: "b" }, repeated)).rejects.toThrow(`there is no job ${unknown}`)
    const b = await kiln.submit("part", { name: "b" }, { ...repeated, after: [a] })
    expect((await kiln.submit("part", { name: "b" }, repeated)).id).toBe(b.id)
  })

  it("is one transaction with that of the prerequisites", async () => {
    const { kiln, ran } = await open()
    await using _ = kiln
    const transaction = kiln.beginTransaction()
    const a = await kiln.submit("part", { name: "a" }, { transaction })
    const b = await kiln.submit("part", { name: "b" }, { transaction, after: [a] })
    const c = kiln.submitSync("part", { name: "c" }, { transaction, after: [a, b], priority: "urgent" })
    await transaction.commit()
    await kiln.drain()
    expect(ran).toEqual(["a", "b", "c"])
    expect(await kiln.get(c)).toMatchObject({ status: "done", output: { after: ["a", "b"] } })
  })

  it("is checked at the attempt in a transaction: the job fails, whatever it does after failures", async () => {
    const { kiln, ran } = await open()
    await using _ = kiln
    const other = await kiln.submit("part", { name: "other" }, { project: "other" })
    await kiln.drain()
    const rolledBack = kiln.beginTransaction()
    const never = await kiln.submit("part", { name: "never" }, { transaction: rolledBack })
    await rolledBack.rollback()
    for (const id of [never.id, other.id]) {
      const transaction = kiln.beginTransaction()
      const job = await kiln.submit("part", { name: "b" }, { transaction, after: [id], onPrerequisiteFailure: "run" })
      await transaction.commit()
      await kiln.drain()
      expect(await kiln.get(job)).toMatchObject({
        errorCode: "prerequisite_failed",
        errorMessage: `1 of 1 prerequisites failed: ${id} (not found in this project and mode)`,
      })
    }
    expect(ran).toEqual(["other"])
  })

  it.each([
    [{ after: "job" }, "after must be a list of up to 100 jobs or ids of jobs"],
    [
      { after: Array.from({ length: 101 }, () => "job_01k9q3w5zr8x2v6m4n7p0t1c3d") },
      "after must be a list of up to 100",
    ],
    [
      { after: [Promise.resolve({ id: "job_01k9q3w5zr8x2v6m4n7p0t1c3d" })] },
      "after[0] must be a job or the id of a job",
    ],
    [{ after: ["upl_1"] }, "after[0] must be a job"],
    [{ after: [], onPrerequisiteFailure: "ignore" }, "onPrerequisiteFailure"],
    [{ onPrerequisiteFailure: "run" }, "onPrerequisiteFailure needs the option after"],
  ])("rejects invalid options (%#)", async (options, message) => {
    const { kiln } = await open()
    await using _ = kiln
    await expect(kiln.submit("part", { name: "a" }, options as never)).rejects.toThrow(message)
  })
})
