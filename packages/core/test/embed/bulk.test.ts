import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { everyStore } from "../support/everyStore.ts"

const kindOf = <const Name extends string>(name: Name) =>
  jobKind({
    name,
    request: z.object({ n: z.number() }),
    run: async ({ fail }) => {
      throw fail("internal_error")
    },
  })

const nothing = { changed: 0, skipped: 0, refused: [], complete: true, next: undefined }

describe.each(everyStore)("bulk operations on %s", (_, open) => {
  it("cancel and retry what a filter selects, in batches, and nothing else", async () => {
    await using opened = await open()
    await using engine = await createEngine({
      store: opened.store,
      blobs: memoryBlobs(),
      kinds: [kindOf("mail"), kindOf("page")],
      autoStart: false,
      log: false,
    })
    const { operator } = engine
    for (let n = 0; n < 5; n++) await engine.submit("mail", { n }, { tags: n < 3 ? ["nightly"] : [] })
    const page = await engine.submit("page", { n: 9 })
    const statuses = async () =>
      (await operator.list({})).jobs.map(({ kind, status }) => `${kind} ${status}`).toSorted()

    expect(await operator.cancelMany({ tags: ["nightly"] }, { dryRun: true })).toEqual({ ...nothing, matched: 3 })
    expect(await statuses()).toEqual([...Array(5).fill("mail queued"), "page queued"])

    const first = await operator.cancelMany({ kind: "mail" }, { limit: 2 })
    expect(first).toMatchObject({ matched: 2, changed: 2, skipped: 0, complete: false, next: expect.any(String) })
    const rest = await operator.cancelMany({ kind: "mail" }, { after: first.next ?? "" })
    expect(rest).toEqual({ ...nothing, matched: 3, changed: 3 })
    expect(await statuses()).toEqual([...Array(5).fill("mail failed"), "page queued"])
    expect(await operator.cancelMany({ kind: "mail" })).toEqual({ ...nothing, matched: 0 })

    const failed = { kind: "mail", errorCode: "canceled_by_operator" }
    const [one] = (await operator.list({ ...failed, limit: 1 })).jobs
    await operator.retry(one?.id ?? "")
    const gone = (await operator.list({ ...failed })).jobs[2]
    await engine.eraseData(gone?.id ?? "")
    expect(await operator.retryMany(failed, { dryRun: true })).toEqual({ ...nothing, matched: 5 })
    expect(await operator.retryMany(failed)).toEqual({
      ...nothing,
      matched: 5,
      changed: 3,
      skipped: 1,
      refused: [{ message: expect.stringContaining("still has its data"), count: 1 }],
    })
    expect((await statuses()).filter((status) => status === "mail queued")).toHaveLength(4)
    // Repeated, it creates no other jobs.
    expect(await operator.retryMany(failed)).toMatchObject({ changed: 0, skipped: 4 })
    expect(await engine.get(page)).toMatchObject({ status: "queued" })
  })
})

describe("a filter", () => {
  it("must have a condition, of a kind that exists", async () => {
    await using kiln = await testEngine({ kinds: [kindOf("mail")], mode: "manual" })
    const { cancelMany, retryMany } = kiln.operator
    const job = await kiln.submit("mail", { n: 1 })
    for (const empty of [{}, { kind: undefined }, { status: "queued" }, { tags: [] }] as ReadonlyArray<object>)
      for (const change of [cancelMany, retryMany])
        await expect(change(empty)).rejects.toThrow(/needs a condition besides status/)
    await expect(cancelMany({ kind: "male" })).rejects.toMatchObject({ code: "kind_unknown", known: ["mail"] })
    await expect(cancelMany({ kinds: "mail" } as never)).rejects.toThrow(/kinds/)
    await expect(cancelMany({ kind: "mail" }, { limit: 0 })).rejects.toThrow(/limit/)
    await expect(cancelMany({ kind: "mail" }, { after: "nonsense" })).rejects.toThrow(/invalid cursor/)
    expect((await kiln.get(job)).status).toBe("queued")
  })

  it("selects by age", async () => {
    await using kiln = await testEngine({ kinds: [kindOf("mail")], mode: "manual" })
    const old = await kiln.submit("mail", { n: 1 }, { delayMs: 3_600_000 })
    await kiln.advance(600_000)
    const young = await kiln.submit("mail", { n: 2 }, { delayMs: 3_600_000 })
    const olderThan = async (olderThanMs: number) =>
      (await kiln.operator.list({ olderThanMs })).jobs.map(({ id }) => id)
    expect(await olderThan(600_000)).toEqual([old.id])
    expect(await olderThan(600_001)).toEqual([])
    expect(await olderThan(0)).toEqual([young.id, old.id])
    expect(await kiln.operator.cancelMany({ olderThanMs: 300_000 })).toMatchObject({ matched: 1, changed: 1 })
    expect([(await kiln.get(old)).status, (await kiln.get(young)).status]).toEqual(["failed", "queued"])
  })
})
