// Speaks a sentence, transcribes what was spoken and makes a voice turn of it, all as live jobs that are charged:
// `node --conditions=@kiln/source examples/local-voices/main.ts [directory]`. Results are in `local-voices-output` otherwise.
import { mkdir, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { FileBlobStore } from "@kiln/adapter-blobs"
import { SqliteStores } from "@kiln/adapter-sqlite"
import {
  builtInKinds,
  createEngine,
  type EmbeddedEngine,
  type FileRef,
  type JobResult,
  type KindName,
} from "@kiln/core"
import { MediaProbeLive } from "@kiln/media-probe"
import config from "./kiln.config.ts"
import { openForBusiness, readLedger } from "./operator.ts"

const sentence = "I think that she would like to go to the city in the morning."
const live = { mode: "live" } as const

const outputDirectory = resolve(process.argv[2] ?? "local-voices-output")
const dataDirectory = join(outputDirectory, "data")
const store = SqliteStores.layer({ path: join(dataDirectory, "kiln.db") })
const blobs = FileBlobStore.layer({ directory: join(dataDirectory, "blobs") })

/** What a job brought, or an exception that says why it brought nothing. */
const outputOf = <Name extends KindName>(job: JobResult<Name>) => {
  if (job.status === "done" && job.output !== null) return job.output
  throw new Error(`${job.kind}: ${job.status === "failed" ? job.errorCode : job.status}`)
}

const save = async (engine: EmbeddedEngine, file: FileRef, name: string): Promise<Uint8Array> => {
  const data = await engine.readFile(file)
  await writeFile(join(outputDirectory, name), data)
  console.log(`  ${join(outputDirectory, name)}  (${data.length} bytes, ${file.mediaType})`)
  return data
}

const upload = async (engine: EmbeddedEngine, wav: Uint8Array): Promise<string> => {
  // 22,050 samples a second, of two bytes each.
  const { id } = await engine.createUpload({ format: "wav", declaredSeconds: wav.length / 44_100 }, live)
  await engine.receiveUpload(id, "audio/wav", wav)
  return id
}

const speak = async (engine: EmbeddedEngine): Promise<Uint8Array> => {
  const { audio } = outputOf(await engine.run("speech_synthesis", { input: sentence }, live))
  console.log(`Spoken: ${sentence}`)
  return save(engine, audio, "spoken.wav")
}

const transcribe = async (engine: EmbeddedEngine, wav: Uint8Array): Promise<void> => {
  const { transcript } = outputOf(await engine.run("transcription", { uploadId: await upload(engine, wav) }, live))
  console.log(`Transcribed: ${transcript}`)
}

const converse = async (engine: EmbeddedEngine, wav: Uint8Array): Promise<void> => {
  const turn = { uploadId: await upload(engine, wav), maxOutputTokens: 100, voice: "fable" }
  const { audio, text } = outputOf(await engine.run("voice_turn", turn, live))
  console.log(`Answered: ${text}`)
  await save(engine, audio, "answer.wav")
}

await mkdir(outputDirectory, { recursive: true })
await openForBusiness(store)
{
  const kinds = builtInKinds(config.voices)
  await using engine = await createEngine({
    store,
    blobs,
    kinds,
    providers: { live: config.providers },
    probe: MediaProbeLive.layer,
  })
  const wav = await speak(engine)
  await transcribe(engine, wav)
  await converse(engine, wav)
}
for (const { charge, kind } of await readLedger(store)) {
  const items = charge.lineItems.map(({ meter, quantity, unitAmount }) => `${quantity} ${meter} at ${unitAmount}`)
  console.log(`Charged for ${kind}: ${charge.amount} ${charge.currency}  (${items.join(", ")})`)
}
