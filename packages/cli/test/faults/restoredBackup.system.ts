import { copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { expect, it } from "vitest"
import { temporaryDirectory, until } from "@kiln/service-lab"
import { blobFile } from "../support/blobFiles.ts"
import { blobKeys } from "./support/Records.ts"
import { put, type Service, startService } from "./support/Service.ts"
import { noise } from "./support/speech.ts"

const audioOf = (jobId: string): string => `jobs/${jobId.slice(4)}/1/audio`

const transcribe = async (service: Service, uploadId: string): Promise<string> => {
  const response = await service.request(
    "POST",
    "/v1/audio/transcriptions",
    { upload_id: uploadId },
    crypto.randomUUID(),
  )
  expect(response.status).toBe(202)
  return (await response.json()).id
}

it("a restored backup: rows without blobs are errors and never bytes, blobs without rows stay", async () => {
  using data = temporaryDirectory()
  let key = ""
  const uploads: Array<string> = []
  let kept: { id: string; blob: string; bytes: Uint8Array } = { id: "", blob: "", bytes: new Uint8Array() }
  let lost = { id: "", blob: "" }
  {
    await using service = await startService(data.path)
    key = service.key
    const [one = "", other = ""] = await Promise.all(["Kept.", "Lost."].map((text) => service.api.createSpeech(text)))
    kept = { id: one, blob: audioOf(one), bytes: await service.audio(await service.api.finished(one)) }
    lost = { id: (await service.api.finished(other)).id, blob: audioOf(other) }
    for (const n of [1, 2]) {
      const { id, upload_url } = await service.announce(1)
      expect((await put(upload_url, noise(n, 1))).status).toBe(204)
      uploads.push(id)
    }
    service.kiln.kill("SIGTERM")
    expect((await service.kiln.ended()).exit).toBe(0)
  }
  const [usable = "", gone = ""] = uploads
  rmSync(blobFile(data.path, lost.blob))
  rmSync(blobFile(data.path, `uploads/${gone.slice(4)}/1`))
  // Of a job and an upload that the restored database does not know, and of an attempt it has not heard of.
  const unknown = "0".repeat(26)
  const newer = [`jobs/${unknown}/1/audio`, `uploads/${unknown}/1`, kept.blob.replace("/1/", "/9/")]
  // And one that the database knows to belong to nothing.
  const leftover = kept.blob.replace("/audio", "/leftover")
  for (const orphan of [...newer, leftover]) {
    mkdirSync(dirname(blobFile(data.path, orphan)), { recursive: true })
    copyFileSync(blobFile(data.path, kept.blob), blobFile(data.path, orphan))
  }

  const config = join(data.path, "kiln.config.mjs")
  writeFileSync(config, "export default { engine: { orphanIntervalMs: 1000 } }\n")
  await using service = await startService(data.path, { KILN_CONFIG: config, KILN_ORPHAN_GRACE: "1s" }, key)
  const { api } = service
  await until(() => (blobKeys(data.path).includes(leftover) ? undefined : true))
  expect(blobKeys(data.path)).toEqual([kept.blob, `uploads/${usable.slice(4)}/1`, ...newer].toSorted())
  expect(await service.audio(await api.job(kept.id))).toEqual(kept.bytes)
  const ofLost = (await api.job(lost.id)).output?.audio_url ?? ""
  for (const range of [undefined, "bytes=0-9"]) {
    const response = await fetch(ofLost, range === undefined ? {} : { headers: { range } })
    expect(response.status).toBe(500)
    expect(await response.json()).toMatchObject({ error: { type: "api_error", code: "internal_error" } })
  }
  await service.kiln.says(/BlobNotFound/, "stderr")
  expect((await api.finished(await transcribe(service, usable))).status).toBe("done")
  expect(await api.finished(await transcribe(service, gone))).toMatchObject({
    status: "failed",
    error_code: "internal_error",
  })
  // The remaining data can be erased.
  for (const { id } of [kept, lost]) expect((await service.erase(id)).status).toBe(204)
})
