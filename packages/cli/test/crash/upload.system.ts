import { createHash } from "node:crypto"
import { statSync, utimesSync } from "node:fs"
import { expect, it } from "vitest"
import { until } from "@kiln/service-lab"
import { audit } from "./support/audit.ts"
import { type Client, type Upload, wav } from "./support/Client.ts"
import { Lab, leaseMs, patience } from "./support/Lab.ts"

const engine = { upload: { leaseDurationMs: leaseMs } }

/** Sends the first bytes of a file, more than a store gathers before it writes, and then nothing more. Fails, as it must, when its receiver goes away. */
const beginPut = (client: Client, upload: Upload, body: Uint8Array<ArrayBuffer>): Promise<string> =>
  client.put(upload, new ReadableStream({ start: (controller) => controller.enqueue(body.subarray(0, 200_000)) })).then(
    ({ status }) => `answered with ${status}`,
    () => "cut off",
  )

const codeOf = async (response: Response): Promise<string> =>
  ((await response.json()) as { readonly error: { readonly code: string } }).error.code

const hours = (count: number) => count * 3_600_000

it(
  "a server killed while it receives a file frees the upload within its lease, and leaves nothing of it",
  patience,
  async () => {
    await using lab = await Lab.open()
    const killed = await lab.start({ engine })
    const other = await lab.start({ engine })
    const upload = await killed.client.announce()
    const first = beginPut(killed.client, upload, new Uint8Array(Buffer.concat([wav(1), Buffer.alloc(200_000)])))
    const [temporary = ""] = await until(() => {
      const files = lab.temporaries()
      return files.length === 1 && statSync(files[0] ?? "").size >= 64_000 ? files : undefined
    })
    const during = await other.client.put(upload, wav(2))
    expect([during.status, await codeOf(during)]).toEqual([409, "upload_in_progress"])
    await killed.crash()
    const killedAt = performance.now()
    expect(await first).toBe("cut off")
    expect(lab.blobs(), "nothing readable").toEqual([])
    const unready = await other.client.post("/v1/audio/transcriptions", { upload_id: upload.id })
    expect([unready.status, await codeOf(unready)]).toEqual([409, "upload_not_ready"])

    const second = wav(3)
    const accepted = await until(async () => {
      const { status } = await other.client.put(upload, second)
      expect([204, 409]).toContain(status)
      return status === 204 ? performance.now() : undefined
    })
    expect(accepted - killedAt).toBeLessThan(leaseMs + 1_000)
    const jobId = await other.client.create("/v1/audio/transcriptions", { upload_id: upload.id })
    const { output } = await other.client.finished(jobId)
    expect(output?.transcript, "exactly the second body").toBe(createHash("sha256").update(second).digest("hex"))
    const third = await other.client.put(upload, wav(4))
    expect([third.status, await codeOf(third)]).toEqual([409, "upload_already_completed"])
    expect(await audit(lab)).toMatchObject({ damaged: [], unnamed: [] })

    // The partial file is useless; it is deleted after an hour without writes.
    expect(lab.temporaries()).toEqual([temporary])
    const longAgo = (Date.now() - hours(2)) / 1_000
    utimesSync(temporary, longAgo, longAgo)
    await lab.start({ engine })
    expect(lab.temporaries()).toEqual([])
  },
)
