// Runs all operations of a service in one process that can be killed at any system call: `driver.ts DIRECTORY SEED`. Prints
// acknowledgements immediately; see `Ack`.
import { writevSync } from "node:fs"
import type { BuiltInKind, EmbeddedEngine, InputOf, JobResult, UploadId } from "@kiln/core"
import type { Ack, AckFile, Mode } from "./Ack.ts"
import { openEngine } from "./embedded.ts"
import { noise, sha256Of } from "./speech.ts"

const [directory = "", seedText = "1"] = process.argv.slice(2)
const seed = Number(seedText)
const newline = Buffer.from("\n")

/** Two buffers make it a `writev`, which the kill sweep does not count. */
const say = (ack: Ack): void => void writevSync(1, [Buffer.from(JSON.stringify(ack)), newline])

type Engine = EmbeddedEngine<BuiltInKind>

const sell = async ({ operator }: Engine): Promise<void> => {
  for (const name of ["ai", "audio", "images"] as const) await operator.setSwitch(name, true)
  await operator.setPrice({ name: "svc-audio", currency: "usd", unitAmounts: { input_characters: "0.001" } })
}

const filesOf = (job: JobResult<BuiltInKind>): ReadonlyArray<AckFile> =>
  job.status === "done" && job.output !== null
    ? Object.values(job.output).flatMap((value: unknown) =>
        typeof value === "object" && value !== null ? [value as AckFile] : [],
      )
    : []

/** Submits a job twice, as a client does whose first answer was lost, waits for its end and perhaps erases it. */
const order = async (
  engine: Engine,
  kind: BuiltInKind["name"],
  request: InputOf<BuiltInKind>,
  { erase = false, key, mode = "sandbox" }: { key: string; mode?: Mode; erase?: boolean },
): Promise<void> => {
  say({ say: "asked", key, kind, mode, request: { ...request } })
  for (let time = 1; time <= 2; time++) {
    const { id } = await engine.submit(kind, request, { idempotencyKey: key, mode })
    say({ say: "accepted", key, id })
    if (time < 2) continue
    const job = await engine.wait(id)
    say({ say: "finished", id, status: job.status, files: filesOf(job) })
    if (!erase) continue
    await engine.eraseData(id)
    say({ say: "erased", id })
  }
}

const upload = async (engine: Engine, n: number): Promise<UploadId> => {
  const file = noise(seed * 100 + n, 1 + (n % 3))
  const { id } = await engine.createUpload({ format: "wav", declaredSeconds: 1 + (n % 3) })
  say({ say: "announced", upload: id })
  await engine.receiveUpload(id, "audio/wav", slices(file))
  say({ say: "received", upload: id, sha256: sha256Of(file), bytes: file.length })
  return id
}

async function* slices(file: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < file.length; at += 16_384) {
    yield file.subarray(at, at + 16_384)
    await new Promise((resolve) => setImmediate(resolve))
  }
}

const speaker = async (engine: Engine) => {
  for (const n of [1, 2, 3, 4]) {
    const key = `speech-${seed}-${n}`
    await order(engine, "speech_synthesis", { input: `canary ${key}` }, { key, erase: n % 2 === 1 })
  }
}
const buyer = async (engine: Engine) => {
  for (const n of [1, 2, 3]) {
    const key = `live-${seed}-${n}`
    await order(engine, "speech_synthesis", { input: `canary ${key}` }, { key, mode: "live", erase: n === 2 })
  }
}
const painter = async (engine: Engine) => {
  const key = `image-${seed}`
  await order(engine, "image_generation", { prompt: `canary ${key}` }, { key, erase: true })
  const failing = `fail-${seed}`
  await order(engine, "speech_synthesis", { input: "sandbox:fail:content_rejected" }, { key: failing })
}
const caller = async (engine: Engine) => {
  const uploadId = await upload(engine, 1)
  const key = `voice-${seed}`
  const request = { uploadId, maxOutputTokens: 64, instructions: `canary ${key}` }
  await order(engine, "voice_turn", request, { key, erase: true })
  await upload(engine, 2)
}
const transcriber = async (engine: Engine) => {
  for (const n of [3, 4])
    await order(
      engine,
      "transcription",
      { uploadId: await upload(engine, n) },
      { key: `text-${seed}-${n}`, erase: n === 4 },
    )
}

const engine = await openEngine(directory)
await sell(engine)
await Promise.all([speaker, buyer, painter, caller, transcriber].map((client) => client(engine)))
await engine.stop()
say({ say: "ended" })
