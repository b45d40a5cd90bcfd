import { type EmbeddedEngine, jobKind } from "@kiln/core"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

const uploadTo = async (engine: Pick<EmbeddedEngine, "createUpload" | "receiveUpload">) => {
  const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
  await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
  return upload.id
}

describe("the retry of a parent with uploads", () => {
  it("counts the children that were done, and runs those that failed", async () => {
    const ran: Array<string> = []
    let isBroken = true
    const listen = jobKind({
      name: "listen",
      request: z.object({ name: z.string(), uploadId: z.string() }),
      output: z.object({ bytes: z.number() }),
      upload: "uploadId",
      limits: { maxFailures: 1 },
      run: async ({ audio, request }) => {
        ran.push(request.name)
        if (isBroken && request.name === "b") throw new Error("not yet")
        return { output: { bytes: (await audio()).bytes } }
      },
    })
    const album = jobKind({
      name: "album",
      request: z.object({ uploadIds: z.array(z.string()) }),
      limits: { maxFailures: 1 },
      run: async ({ children, failure, request: { uploadIds } }) => {
        const heard = await children(
          "listen",
          listen,
          uploadIds.map((uploadId, n) => ({ name: "abc"[n] ?? "", uploadId })),
        )
        if (heard.some(({ status }) => status === "failed")) throw failure("internal_error")
        return { output: { bytes: heard.map((one) => (one.status === "done" ? (one.output?.bytes ?? null) : null)) } }
      },
    })
    await using engine = await openWith([album, listen])
    const uploadIds: Array<string> = []
    for (let n = 0; n < 3; n++) uploadIds.push(await uploadTo(engine))
    const first = await engine.submitAndWait("album", { uploadIds }, { timeoutMs: 60_000 })
    expect(first).toMatchObject({ status: "failed", errorCode: "internal_error" })
    isBroken = false
    const second = await engine.wait(await engine.operator.retry(first), { timeoutMs: 60_000 })
    expect(await engine.operator.listAttempts(second)).toEqual([])
    expect(second).toMatchObject({ status: "done", output: { bytes: [16, 16, 16] } })
    expect(ran.toSorted()).toEqual(["a", "b", "b", "c"])
  })

  it("has a child as it failed if its upload was erased, because nobody can read it", async () => {
    const ran: Array<string> = []
    let isDown = true
    const listen = jobKind({
      name: "listen",
      request: z.object({ name: z.string(), uploadId: z.string() }),
      upload: "uploadId",
      limits: { maxFailures: 1 },
      run: async ({ failure, request }) => {
        ran.push(request.name)
        if (request.name === "noise") throw failure("audio_unreadable")
        return { output: {} }
      },
    })
    const album = jobKind({
      name: "album",
      request: z.object({ uploadIds: z.array(z.string()) }),
      limits: { maxFailures: 1 },
      run: async ({ children, request: { uploadIds }, step }) => {
        const heard = await children(
          "listen",
          listen,
          uploadIds.map((uploadId, n) => ({ name: n === 0 ? "noise" : "song", uploadId })),
        )
        await step("mail", async () => {
          if (isDown) throw new Error("no connection")
          return null
        })
        return { output: { heard: heard.map((one) => (one.status === "failed" ? one.errorCode : one.status)) } }
      },
    })
    await using engine = await openWith([album, listen])
    const uploadIds = [await uploadTo(engine), await uploadTo(engine)]
    const first = await engine.submitAndWait("album", { uploadIds }, { timeoutMs: 60_000 })
    expect(first).toMatchObject({ status: "failed" })
    isDown = false
    const second = await engine.wait(await engine.operator.retry(first), { timeoutMs: 60_000 })
    expect(await engine.operator.listAttempts(second)).toEqual([])
    expect(second).toMatchObject({ status: "done", output: { heard: ["audio_unreadable", "done"] } })
    expect(ran.toSorted()).toEqual(["noise", "song"])
  })

  it("has the result of a child that an operator has retried before", async () => {
    let runs = 0
    const listen = jobKind({
      name: "listen",
      request: z.object({ uploadId: z.string() }),
      upload: "uploadId",
      limits: { maxFailures: 1 },
      run: async () => {
        runs += 1
        if (runs === 1) throw new Error("not yet")
        return { output: {} }
      },
    })
    const album = jobKind({
      name: "album",
      request: z.object({ uploadId: z.string() }),
      run: async ({ children, failure, request }) => {
        const [heard] = await children("listen", listen, [request])
        if (heard?.status !== "done") throw failure("internal_error")
        return { output: {} }
      },
    })
    await using engine = await openWith([album, listen])
    const first = await engine.submitAndWait("album", { uploadId: await uploadTo(engine) }, { timeoutMs: 60_000 })
    const [child] = (await engine.operator.list({ kind: "listen" })).jobs
    const again = await engine.wait(await engine.operator.retry(child?.id ?? ""), { timeoutMs: 60_000 })
    expect([first.status, child?.status, again.status]).toEqual(["failed", "failed", "done"])
    const second = await engine.wait(await engine.operator.retry(first), { timeoutMs: 60_000 })
    expect(await engine.operator.listAttempts(second)).toEqual([])
    expect(second.status).toBe("done")
    expect(runs).toBe(2)
  })
})
