import { randomUUID } from "node:crypto"
import * as Effect from "effect/Effect"
import { type Client, createClient } from "@kiln/client"
import { answer } from "../Output.ts"
import { quoted } from "../programCommand.ts"
import { explain } from "./explain.ts"
import { extensionOf } from "./outputFile.ts"
import type { Trial, TriedJob } from "./runTrial.ts"

/** The address of `kiln serve` with its default settings. */
const defaultUrl = "http://127.0.0.1:8787"

/** A request as the client sends it. */
interface Sent {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | undefined
}

/** Identifiers that a shell fills in from responses. */
const makePlaces = () => ({ upload: `upl_${randomUUID()}`, url: `/${randomUUID()}`, job: `job_${randomUUID()}` })

/**
 * Runs a trial's requests against nothing, and returns them in order: what is printed is what the client sends. Jobs that are
 * looked up by their id alone are looked for in every place.
 */
const record = async (trial: Trial, places: ReturnType<typeof makePlaces>, signal: AbortSignal) => {
  const root = "http://kiln.invalid"
  const sent: Array<Sent> = []
  const created = { id: places.job, type: trial.type, status: "queued" }
  const answers: Readonly<Record<string, object>> = {
    "/v1/audio/uploads": { id: places.upload, upload_url: root + places.url },
    [places.url]: {},
  }
  let isMissed = true
  const client: Client = createClient({
    baseUrl: root,
    apiKey: "none",
    fetch: async (input, init = {}) => {
      const path = String(input instanceof Request ? input.url : input).slice(root.length)
      const { body, method = "GET" } = init
      const headers = Object.fromEntries(new Headers(init.headers))
      sent.push({ method, path, headers, body: typeof body === "string" ? body : undefined })
      if (method !== "GET") return Response.json(answers[path] ?? created, { status: 202 })
      if (sent.length > 1 || !isMissed) return Response.json({ ...created, status: "done" })
      isMissed = false
      return Response.json({ error: { code: "job_not_found", type: "not_found_error", message: "" } }, { status: 404 })
    },
  })
  const job = await trial.job(client, signal)
  const lookups = sent.length
  await (trial.waits ? client.jobs.wait(job, { signal }) : client.jobs.get(job, { signal }))
  return { job, made: sent.slice(0, lookups), polls: sent.slice(lookups) }
}

/** A text within double quotes that a shell fills in, in the middle of one in single quotes. */
const splice = (text: string): string => `'"${text}"'`

const join = (lines: ReadonlyArray<string>): string => lines.join(" \\\n  ")

/** The random bytes of an idempotency key: each paste creates a new job. No system lacks these programs. */
const random = `$(od -An -N16 -tx1 /dev/urandom | tr -d ' \\n')`

const fieldOf = (variable: string, name: string): string => `$(printf '%s' "$${variable}" | field ${name})`

const header = (name: string, value: string): string => {
  switch (name) {
    case "authorization":
      return `-H "Authorization: Bearer $KILN_API_KEY"`
    case "idempotency-key":
      return `-H "Idempotency-Key: ${random}"`
    default:
      return `-H '${name.replaceAll(/(^|-)[a-z]/g, (part) => part.toUpperCase())}: ${value}'`
  }
}

/** A text in single quotes, with the identifiers of earlier responses. */
const data = (body: string, places: ReturnType<typeof makePlaces>): string =>
  `'${body.replaceAll("'", `'\\''`)}'`.replace(places.upload, () => splice(fieldOf("upload", "id")))

const curl = (request: Sent, target: string, more: ReadonlyArray<string> = []): string =>
  join([`curl -sS ${target}`, ...Object.entries(request.headers).map(([name, value]) => header(name, value)), ...more])

const creation = (request: Sent, trial: Trial, places: ReturnType<typeof makePlaces>): string => {
  if (request.path === places.url)
    return curl(request, `-T ${quoted(trial.recording ?? "")} "${fieldOf("upload", "upload_url")}"`)
  const variable = request.path === "/v1/audio/uploads" ? "upload" : "job"
  return `${variable}=$(${curl(request, `"$kiln${request.path}"`, [`-d ${data(request.body ?? "", places)}`])})`
}

/** Finds a job whose type is unknown: its path is the first that does not answer `job_not_found`. */
const lookup = ([first, second]: ReadonlyArray<Sent>): ReadonlyArray<string> =>
  first === undefined || second === undefined
    ? []
    : [`at=${first.path}`, `case $(${curl(first, '"$kiln$at"')}) in *'"job_not_found"'*) at=${second.path} ;; esac`]

const loop = (poll: string): string =>
  [
    "while :; do",
    `  job=$(${poll.replaceAll("\n", "\n  ")})`,
    `  case $job in *'"status":"queued"'* | *'"status":"processing"'*) sleep 1 ;; *) break ;; esac`,
    "done",
  ].join("\n")

/** The files of results whose type is known before they exist, as sandbox models and providers make them by default. */
const usualType: Readonly<Record<string, string>> = {
  speech_synthesis: "audio/mpeg",
  voice_turn: "audio/mpeg",
  image_generation: "image/png",
}

const saving = ({ output, waits }: Trial, job: TriedJob, isFound: boolean): ReadonlyArray<string> => {
  const usual = isFound ? undefined : usualType[job.type]
  if (!waits || (usual === undefined && output.path === undefined)) return []
  const file = output.path === undefined ? `"$id.${extensionOf(usual ?? "")}"` : quoted(output.path)
  return [
    `url=${fieldOf("job", "'[a-z]*_url'")}`,
    // A transcription has no file.
    `if [ -n "$url" ]; then curl -sS -o ${file} "$url"; fi`,
  ]
}

const shown = `printf '%s\\n' "$job"`

/** Writes the requests of a trial as commands for a POSIX shell with curl. The key stays a variable. */
const commandsOf = async (trial: Trial, url: string, signal: AbortSignal): Promise<string> => {
  const places = makePlaces()
  const { job, made, polls } = await record(trial, places, signal)
  const isFound = made.every(({ method }) => method === "GET")
  const [poll] = polls
  const path = poll?.path.replace(places.job, "$id") ?? ""
  const read = poll === undefined ? "" : curl(poll, `"$kiln${isFound ? "$at" : path}"`)
  return [
    `: "\${KILN_API_KEY:?set it to an API key of the service}"`,
    `kiln=${quoted(url)}`,
    `field() { sed -n "s/.*\\"$1\\":\\"\\([^\\"]*\\)\\".*/\\1/p"; }`,
    ...(isFound ? lookup(made) : made.map((request) => creation(request, trial, places))),
    ...(isFound ? [] : [shown, `id=${fieldOf("job", "id")}`]),
    trial.waits ? loop(read) : `job=$(${read})`,
    shown,
    ...saving(trial, job, isFound),
  ].join("\n")
}

/** Prints the requests of a trial instead of sending them. */
export const printCurl = (trial: Trial, url: string = defaultUrl) =>
  Effect.flatMap(
    Effect.tryPromise({ try: (signal) => commandsOf(trial, url, signal), catch: (error) => explain(error, url) }),
    (text) => answer({ json: { commands: text }, text }),
  )
