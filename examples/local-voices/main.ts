// Speaks a sentence, transcribes the recording and uses it in a voice turn, all as charged live jobs:
// `node --conditions=@kiln/source examples/local-voices/main.ts [directory]`. Results are in `local-voices-output` otherwise.
import { mkdir, writeFile } from "node:fs/promises"
import { join, resolve } from "node:path"
import { fileBlobs } from "@kiln/adapter-blobs"
import { sqliteStore } from "@kiln/adapter-sqlite"
import {
  builtIn,
  createEngine,
  type DoneJob,
  type EmbeddedEngine,
  type FailedJob,
  type FileRef,
  type UnfinishedJob,
} from "@kiln/core"
import { audioProbe } from "@kiln/media-probe"
import config from "./kiln.config.ts"
import { chargesSoFar, openForBusiness } from "./operator.ts"

const sentence = "I think that she would like to go to the city in the morning."

const outputDirectory = resolve(process.argv[2] ?? "local-voices-output")
const dataDirectory = join(outputDirectory, "data")

const kinds = [builtIn.transcription, builtIn.speechSynthesis(config.voices), builtIn.voiceTurn(config.voices)]
type Engine = EmbeddedEngine<(typeof kinds)[number]>

/** Returns a job's output, or throws with the reason that it has none. */
const outputOf = <Output>(job: UnfinishedJob | DoneJob<string, Output> | FailedJob): Output => {
  if (job.status === "done" && job.output !== null) return job.output
  throw new Error(`${job.kind}: ${job.status === "failed" ? job.errorCode : job.status}`)
}

const save = async (engine: Engine, file: FileRef, name: string): Promise<Uint8Array> => {
  const data = await engine.readFile(file)
  await writeFile(join(outputDirectory, name), data)
  console.log(`  ${join(outputDirectory, name)}  (${data.length} bytes, ${file.mediaType})`)
  return data
}

const upload = async (engine: Engine, wav: Uint8Array): Promise<string> => {
  // 22,050 samples per second of two bytes each.
  const { id } = await engine.createUpload({ format: "wav", declaredSeconds: wav.length / 44_100 })
  await engine.receiveUpload(id, "audio/wav", wav)
  return id
}

const speak = async (engine: Engine): Promise<Uint8Array> => {
  const { audio } = outputOf(await engine.submitAndWait("speech_synthesis", { input: sentence }))
  console.log(`Spoken: ${sentence}`)
  return save(engine, audio, "spoken.wav")
}

const transcribe = async (engine: Engine, wav: Uint8Array): Promise<void> => {
  const { transcript } = outputOf(await engine.submitAndWait("transcription", { uploadId: await upload(engine, wav) }))
  console.log(`Transcribed: ${transcript}`)
}

const converse = async (engine: Engine, wav: Uint8Array): Promise<void> => {
  const turn = { uploadId: await upload(engine, wav), maxOutputTokens: 100, voice: "fable" }
  const { audio, text } = outputOf(await engine.submitAndWait("voice_turn", turn))
  console.log(`Answered: ${text}`)
  await save(engine, audio, "answer.wav")
}

await mkdir(outputDirectory, { recursive: true })
await using engine = await createEngine({
  store: sqliteStore({ path: join(dataDirectory, "kiln.db") }),
  blobs: fileBlobs({ directory: join(dataDirectory, "blobs") }),
  kinds,
  // With live providers only, jobs are live by default.
  providers: { live: config.providers },
  probe: audioProbe(),
})
await openForBusiness(engine)
const wav = await speak(engine)
await transcribe(engine, wav)
await converse(engine, wav)
for await (const { amount, currency, kind, lineItems } of chargesSoFar(engine)) {
  const items = lineItems.map(({ meter, quantity, unitAmount }) => `${quantity} ${meter} at ${unitAmount}`)
  console.log(`Charged for ${kind}: ${amount} ${currency}  (${items.join(", ")})`)
}
