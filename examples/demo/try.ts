// Sends three jobs to a running service and prints every request: `pnpm try <key> [url]`. Start the service with `pnpm start`,
// which prints a test key once. Results are written to the current directory.
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

const [key, url = "http://127.0.0.1:8787"] = process.argv.slice(2)

/** The fields of uploads and jobs that are read here. */
interface Answer {
  readonly id: string
  readonly status: string
  readonly upload_url: string
  readonly error_code: string | null
  readonly error?: { readonly message: string }
  readonly output: { readonly transcript: string; readonly audio_url: string; readonly image_url: string }
}

/** Sends one request with the key, and prints it and its response. Throws unless the status is 2xx. */
const call = async (method: string, path: string, body?: object): Promise<Answer> => {
  console.log(`${method} ${path}${body === undefined ? "" : ` ${JSON.stringify(body)}`}`)
  const headers: Record<string, string> = { Authorization: `Bearer ${key}` }
  if (body !== undefined) headers["Content-Type"] = "application/json"
  // A new key for each request makes a new job; the same key would return the same job.
  if (body !== undefined) headers["Idempotency-Key"] = crypto.randomUUID()
  const response = await fetch(url + path, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  const answer: Answer = await response.json()
  console.log(`  ${response.status} ${JSON.stringify(answer.error ?? { id: answer.id, status: answer.status })}`)
  if (!response.ok) throw new Error(answer.error?.message ?? `status ${response.status}`)
  return answer
}

/** Creates a job, polls it until it is finished, and returns its output. */
const run = async (path: string, jobs: string, body: object): Promise<Answer["output"]> => {
  let job = await call("POST", path, body)
  while (job.status === "queued" || job.status === "processing") {
    await sleep(500)
    job = await call("GET", `${jobs}/${job.id}`)
  }
  if (job.status !== "done") throw new Error(`${job.id} failed: ${job.error_code}`)
  return job.output
}

const download = async (signedUrl: string, file: string): Promise<void> => {
  const bytes = Buffer.from(await (await fetch(signedUrl)).arrayBuffer())
  await writeFile(file, bytes)
  console.log(`  wrote ${file} (${bytes.length} bytes)\n`)
}

const main = async (): Promise<void> => {
  if (key === undefined) throw new Error("pass an API key: npx -y pnpm@12 try kiln_test_…")

  console.log("A recording to its transcript:")
  const upload = await call("POST", "/v1/audio/uploads", { format: "wav", declared_seconds: 4.1 })
  const wav = await readFile(join(import.meta.dirname, "assets/hello.wav"))
  console.log(`PUT the file to upload_url`)
  const sent = await fetch(upload.upload_url, { method: "PUT", body: wav, headers: { "Content-Type": "audio/wav" } })
  if (!sent.ok) throw new Error(`the upload failed: ${sent.status} ${await sent.text()}`)
  const { transcript } = await run("/v1/audio/transcriptions", "/v1/jobs", { upload_id: upload.id })
  console.log(`  ${transcript}\n`)

  console.log("A text to speech:")
  const speech = await run("/v1/audio/speech", "/v1/jobs", { input: "Hello from kiln." })
  await download(speech.audio_url, "speech.mp3")

  console.log("A prompt to an image:")
  const image = await run("/v1/images/generations", "/v1/images/jobs", { prompt: "A red kiln" })
  await download(image.image_url, "image.png")
}

await main().catch((error: unknown) => {
  console.error(`\n${error instanceof Error ? error.message : String(error)}`)
  if (error instanceof TypeError)
    console.error(`Is the service running at ${url}? Start it with \`npx -y pnpm@12 start\`.`)
  process.exitCode = 1
})
