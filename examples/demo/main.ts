// Starts its own service, runs all four kinds of job and writes the results to `demo-output`: `pnpm demo`.
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { constants } from "node:os"
import { join, resolve } from "node:path"
import { Client, type Job } from "./client.ts"
import { Progress } from "./progress.ts"
import { startService } from "./service.ts"

const recordingSeconds = 4.1
const outputDirectory = resolve("demo-output")

interface Demonstration {
  readonly name: string
  /** Creates the job and returns the path to poll. */
  readonly start: (client: Client, wav: Uint8Array) => Promise<string>
  /** The files of the finished job, by name. */
  readonly results: (client: Client, job: Job) => Promise<Readonly<Record<string, string | Uint8Array>>>
}

const text = (value: string | undefined): string => `${value ?? ""}\n`

const demonstrations: ReadonlyArray<Demonstration> = [
  {
    name: "transcription",
    start: async (client, wav) => {
      const upload_id = await client.upload(wav, recordingSeconds)
      return `/v1/jobs/${await client.create("/v1/audio/transcriptions", { upload_id })}`
    },
    results: async (_, job) => ({ "transcript.txt": text(job.output?.transcript) }),
  },
  {
    name: "speech synthesis",
    start: async (client) => {
      const input = "Hello. This text was spoken by a job."
      return `/v1/jobs/${await client.create("/v1/audio/speech", { input, voice: "nova" })}`
    },
    results: async (client, job) => ({ "speech.mp3": await client.download(job.output?.audio_url) }),
  },
  {
    name: "voice turn",
    start: async (client, wav) => {
      const upload_id = await client.upload(wav, recordingSeconds)
      const turn = { upload_id, max_output_tokens: 200, instructions: "Answer in one sentence." }
      return `/v1/jobs/${await client.create("/v1/voice/turns", turn)}`
    },
    results: async (client, job) => ({
      "reply.txt": text(job.output?.text),
      "reply.mp3": await client.download(job.output?.audio_url),
    }),
  },
  {
    name: "image generation",
    start: async (client) => {
      const prompt = "A kiln at night, glowing"
      return `/v1/images/jobs/${await client.create("/v1/images/generations", { prompt })}`
    },
    results: async (client, job) => ({ "image.png": await client.download(job.output?.image_url) }),
  },
]

/** Runs one job and writes its results. Returns one line for each file. */
const demonstrate = async (one: Demonstration, client: Client, wav: Uint8Array, progress: Progress) => {
  try {
    const path = await one.start(client, wav)
    progress.show(one.name, "queued")
    const job = await client.finish(path, (status) => progress.show(one.name, status))
    const written: Array<string> = []
    for (const [name, content] of Object.entries(await one.results(client, job))) {
      const file = join(outputDirectory, name)
      await writeFile(file, content)
      written.push(`${file}  (${Buffer.byteLength(content)} bytes)`)
    }
    return written
  } catch (cause) {
    throw new Error(`${one.name}: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

const run = async (client: Client): Promise<void> => {
  const wav = await readFile(join(import.meta.dirname, "assets/hello.wav"))
  await mkdir(outputDirectory, { recursive: true })
  const progress = new Progress(
    demonstrations.map(({ name }) => name),
    process.stdout,
  )
  const written = await Promise.all(demonstrations.map((one) => demonstrate(one, client, wav, progress)))
  console.log(`\nResults:\n${written.flat().join("\n")}`)
}

const abort = new AbortController()
const service = startService()

// Neither a Ctrl-C nor a closed terminal leaves anything behind.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
  process.once(signal, () => {
    process.exitCode = 128 + constants.signals[signal]
    abort.abort()
    void service.stop().finally(() => process.exit())
  })

try {
  console.log("Starting a service with an empty data directory…")
  const running = await service.ready
  console.log(`It listens at ${running.url}. Four jobs:\n`)
  await run(new Client(running, abort.signal))
} catch (error) {
  if (!abort.signal.aborted) {
    console.error(`\nThe demo failed: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = 1
  }
} finally {
  abort.abort()
  await service.stop()
}
