import { type BuiltInKind, builtInKinds, createEngine, type EmbeddedEngine } from "@kiln/core"
import { sniffContainer } from "@kiln/core/domain"
import { audioProbe } from "@kiln/media-probe"
import { makeFakeProviders, memoryBlobs, memoryStore } from "@kiln/testing"
import { assert, describe, it } from "vitest"
import { corpus } from "./corpus/corpus.ts"
import { DECLARED_SECONDS, type HostileFile } from "./corpus/HostileFile.ts"
import { fixture } from "./support/files.ts"

const mediaTypes = {
  mp3: "audio/mpeg",
  mp4: "audio/mp4",
  m4a: "audio/mp4",
  wav: "audio/wav",
  webm: "audio/webm",
} as const

const open = async () => {
  const fakes = makeFakeProviders()
  const engine = await createEngine({
    store: memoryStore(),
    blobs: memoryBlobs(),
    kinds: builtInKinds(),
    probe: audioProbe(),
    providers: { sandbox: fakes.providers },
  })
  return { engine, fakes }
}

const upload = async (
  engine: EmbeddedEngine<BuiltInKind>,
  format: HostileFile["format"],
  file: Uint8Array,
  declaredSeconds = DECLARED_SECONDS,
) => {
  const { id } = await engine.createUpload({ format, declaredSeconds })
  await engine.receiveUpload(id, mediaTypes[format], file)
  return engine.submit("transcription", { uploadId: id })
}

/** Returns the warnings of a job that measured this many seconds. */
const warningOf = (seconds: number) => (seconds - DECLARED_SECONDS > 2 ? "duration_mismatch" : null)

/** Storing a file of the largest size takes seconds, so the concurrent test uses one of each format. */
const isLarge = ({ name }: HostileFile): boolean => name.includes("25 MiB")

const accepted = corpus.filter(({ outcome }) => outcome !== "refused")

describe("a worker", () => {
  it.each(corpus.filter(({ outcome }) => outcome === "refused"))(
    "rejects $name before there is a job",
    async ({ file, format }) => {
      const { engine } = await open()
      await using _ = engine
      const bytes = file()
      assert.isTrue(bytes.length < 64 || sniffContainer(bytes) !== format)
      const error: unknown = await upload(engine, format, bytes).catch((cause: unknown) => cause)
      assert.propertyVal(error, "code", "audio_format_mismatch")
    },
  )

  it.each(accepted)("ends the job with $name", async ({ file, format, outcome }) => {
    const { engine, fakes } = await open()
    await using _ = engine
    const job = await engine.wait<"transcription">((await upload(engine, format, file())).id)
    const calls = fakes.callsOf("transcription")
    if (typeof outcome === "string") {
      assert.strictEqual(job.status === "failed" ? job.errorCode : job.status, outcome)
      assert.lengthOf(calls, 0)
      return
    }
    assert.strictEqual(job.status, "done")
    assert.lengthOf(calls, 1)
    const seconds = calls[0]?.request.audio.seconds ?? NaN
    assert.strictEqual(Math.ceil(seconds), outcome)
    assert.strictEqual(job.warningCode, warningOf(seconds))
  })

  it("runs an honest job while it measures all of them", async () => {
    const heaviest = Object.keys(mediaTypes).flatMap((format) =>
      accepted.filter((one) => isLarge(one) && one.format === format).slice(0, 1),
    )
    const files = [...heaviest, ...accepted.filter((one) => !isLarge(one))]
    const { engine, fakes } = await open()
    await using _ = engine
    const jobs: Array<{ readonly id: string; readonly outcome: HostileFile["outcome"] }> = []
    for (const { file, format, outcome } of files) jobs.push({ id: (await upload(engine, format, file())).id, outcome })
    const honest = await upload(engine, "wav", fixture("pcm16.wav"))
    const began = performance.now()
    const done = await engine.wait<"transcription">(honest.id)
    assert.strictEqual(done.status, "done")
    assert.isBelow(performance.now() - began, 60_000)
    for (const { id, outcome } of jobs) {
      const job = await engine.wait<"transcription">(id)
      assert.strictEqual(
        job.status === "failed" ? job.errorCode : job.status,
        typeof outcome === "string" ? outcome : "done",
      )
    }
    const billable = files.filter(({ outcome }) => typeof outcome === "number")
    assert.lengthOf(fakes.callsOf("transcription"), billable.length + 1)
  })
})
