import { createEngine, jobKind } from "@kiln/core"
import { memoryBlobs, memoryStore, testEngine } from "@kiln/testing"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const patient = { timeoutMs: 60_000 }

const makeMail = () => {
  const calls: Array<string> = []
  const mail = jobKind({
    name: "mail",
    request: z.object({ to: z.string().min(3) }),
    output: z.object({ to: z.string() }),
    metadata: ["to"],
    limits: { maxFailures: 1 },
    run: async ({ failure, request: { to }, step }) => {
      await step("draft", async () => {
        calls.push(`draft ${to}`)
        return null
      })
      if (!to.includes("@")) throw failure("content_rejected")
      return { output: { to } }
    },
  })
  return { calls, mail }
}

describe("a retry with a changed request", () => {
  it("is a new job, linked to the failed one, that runs everything with the new request", async () => {
    const { calls, mail } = makeMail()
    await using engine = await openWith([mail])
    const failed = await engine.submitAndWait("mail", { to: "ada" }, { ...patient, priority: "high", tags: ["news"] })
    expect(failed).toMatchObject({ status: "failed", errorCode: "content_rejected" })
    const again = await engine.operator.retry(failed, { request: { to: "ada@x" } })
    expect(await engine.wait(again, patient)).toMatchObject({ status: "done", output: { to: "ada@x" } })
    expect(again).toMatchObject({ priority: "high", tags: ["news"], metadata: { to: "ada@x" } })
    expect(await engine.operator.getRequest(again)).toEqual({ to: "ada@x" })
    expect(await engine.operator.getRequest(failed)).toEqual({ to: "ada" })
    expect(await engine.get(failed)).toMatchObject({ retriedAs: again.id })
    expect(calls).toEqual(["draft ada", "draft ada@x"])
  })

  it("is made once, and refused with another request than before", async () => {
    const { mail } = makeMail()
    await using engine = await openWith([mail])
    const { operator } = engine
    const failed = await engine.submitAndWait("mail", { to: "ada" }, patient)
    const tries = await Promise.allSettled(
      ["ada@x", "ada@x", "ada@y"].map((to) => operator.retry(failed, { request: { to } })),
    )
    const made = tries.flatMap((one) => (one.status === "fulfilled" ? [one.value.id] : []))
    expect(new Set(made).size).toBe(1)
    const [id] = made
    const refused: ReadonlyArray<unknown> = tries.flatMap((one) => (one.status === "rejected" ? [one.reason] : []))
    expect(refused.length).toBeGreaterThan(0)
    for (const error of refused) expect(error).toMatchObject({ code: "job_not_retryable", retriedAs: id })
    const request = (await operator.getRequest(id ?? "")) ?? {}
    expect((await operator.retry(failed, { request })).id).toBe(id)
    expect((await operator.retry(failed)).id).toBe(id)
    await expect(operator.retry(failed, { request: { to: "ada@z" } })).rejects.toThrow(`was retried as ${id}`)
  })

  it("is checked by its kind as a submission is", async () => {
    const { mail } = makeMail()
    await using engine = await openWith([mail])
    const { operator } = engine
    const failed = await engine.submitAndWait("mail", { to: "ada" }, patient)
    await expect(operator.retry(failed, { request: { to: "a" } })).rejects.toMatchObject({
      code: "invalid_request",
      errors: [{ field: "to" }],
    })
    await expect(operator.retry(failed, { request: { to: new Date() } })).rejects.toMatchObject({
      code: "invalid_request",
    })
    await expect(operator.retry(failed, { request: undefined } as never)).rejects.toThrow("request is undefined")
    expect((await operator.list({ kind: "mail" })).jobs).toHaveLength(1)
  })

  it("is refused by a process that does not know the kind, which retries the job only as it is", async () => {
    const { mail } = makeMail()
    const store = memoryStore()
    const blobs = memoryBlobs()
    await using engine = await createEngine({ store, blobs, kinds: [mail], log: false })
    const failed = await engine.submitAndWait("mail", { to: "ada" }, patient)
    await using other = await createEngine({ store, blobs, kinds: [], worker: false, log: false })
    const changed = other.operator.retry(failed.id, { request: { to: "ada@x" } })
    await expect(changed).rejects.toThrow('unknown job kind "mail"')
    const again = await engine.wait(await other.operator.retry(failed.id), patient)
    expect(await engine.operator.getRequest(again)).toEqual({ to: "ada" })
  })

  it("keeps what the changed one had finished, once it is retried itself", async () => {
    const { calls, mail } = makeMail()
    await using engine = await openWith([mail])
    const first = await engine.submitAndWait("mail", { to: "ada" }, patient)
    const second = await engine.wait(await engine.operator.retry(first, { request: { to: "bob" } }), patient)
    const third = await engine.wait(await engine.operator.retry(second), patient)
    expect([second.status, third.status]).toEqual(["failed", "failed"])
    expect(await engine.operator.getRequest(third)).toEqual({ to: "bob" })
    expect(calls).toEqual(["draft ada", "draft bob"])
  })

  it("repairs a child: its parent goes on with the result, and so does the parent's retry", async () => {
    const { calls, mail } = makeMail()
    let isBroken = true
    const letter = jobKind({
      name: "letter",
      request: z.object({}),
      limits: { maxFailures: 1 },
      run: async ({ children, failure }) => {
        const sendings = await children("mails", mail, [{ to: "ada@x" }, { to: "bob" }])
        if (isBroken || sendings.some(({ status }) => status === "failed")) throw failure("internal_error")
        return { output: { to: sendings.map((one) => (one.status === "done" ? (one.output?.to ?? null) : null)) } }
      },
    })
    await using kiln = await testEngine({ kinds: [letter, mail], mode: "manual" })
    const parent = await kiln.submit("letter", {})
    for (let n = 0; n < 3; n++) await kiln.runNext()
    const [child] = (await kiln.operator.list({ kind: "mail", status: "failed" })).jobs
    expect(child).toBeDefined()
    await kiln.operator.retry(child?.id ?? "", { request: { to: "bob@x" } })
    await kiln.drain()
    expect(await kiln.get(parent)).toMatchObject({ status: "failed", errorCode: "internal_error" })
    isBroken = false
    const again = await kiln.operator.retry(parent)
    await kiln.drain()
    expect(await kiln.get(again)).toMatchObject({ status: "done", output: { to: ["ada@x", "bob@x"] } })
    expect(calls.toSorted()).toEqual(["draft ada@x", "draft bob", "draft bob@x"])
  })

  it("takes the upload along, and must name it", async () => {
    const listen = jobKind({
      name: "listen",
      request: z.object({ uploadId: z.string().optional(), loud: z.boolean() }),
      output: z.object({ bytes: z.number() }),
      upload: "uploadId",
      limits: { maxFailures: 1 },
      run: async ({ audio, failure, request: { loud } }) => {
        if (!loud) throw failure("content_rejected")
        return { output: { bytes: (await audio()).bytes } }
      },
    })
    await using engine = await openWith([listen])
    const uploadOf = async () => {
      const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
      await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
      return upload.id
    }
    const [uploadId, other] = [await uploadOf(), await uploadOf()]
    const { operator } = engine
    const failed = await engine.submitAndWait("listen", { uploadId, loud: false }, patient)
    for (const request of [{ loud: true }, { loud: true, uploadId: other }])
      await expect(operator.retry(failed, { request })).rejects.toThrow(
        "must name the same upload as before in uploadId",
      )
    const request = { uploadId, loud: true }
    const again = await engine.wait(await operator.retry(failed, { request }), patient)
    expect(again).toMatchObject({ status: "done", output: { bytes: 16 } })
    expect((await operator.retry(failed, { request })).id).toBe(again.id)
  })
})
