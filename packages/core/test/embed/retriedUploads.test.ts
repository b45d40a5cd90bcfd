import { jobKind } from "@kiln/core"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { openWith } from "./support.ts"

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
      run: async ({ children, fail, request: { uploadIds } }) => {
        const heard = await children(
          "listen",
          listen,
          uploadIds.map((uploadId, n) => ({ name: "abc"[n] ?? "", uploadId })),
        )
        if (heard.some(({ status }) => status === "failed")) throw fail("internal_error")
        return { output: { bytes: heard.map((one) => (one.status === "done" ? (one.output?.bytes ?? null) : null)) } }
      },
    })
    await using engine = await openWith([album, listen])
    const uploadIds: Array<string> = []
    for (let n = 0; n < 3; n++) {
      const upload = await engine.createUpload({ format: "wav", declaredSeconds: 1 })
      await engine.receiveUpload(upload, "audio/wav", new TextEncoder().encode("RIFF0000WAVEfmt "))
      uploadIds.push(upload.id)
    }
    const first = await engine.submitAndWait("album", { uploadIds }, { timeoutMs: 60_000 })
    expect(first).toMatchObject({ status: "failed", errorCode: "internal_error" })
    isBroken = false
    const second = await engine.wait(await engine.operator.retry(first), { timeoutMs: 60_000 })
    expect(await engine.operator.listAttempts(second)).toEqual([])
    expect(second).toMatchObject({ status: "done", output: { bytes: [16, 16, 16] } })
    expect(ran.toSorted()).toEqual(["a", "b", "b", "c"])
  })
})
