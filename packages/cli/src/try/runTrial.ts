import * as Effect from "effect/Effect"
import { type Billing, type Client, createClient, type JobType } from "@kiln/client"
import { causeMessage, type CommandFailed, failed } from "../CommandFailed.ts"
import { answer, Json, sizeOf } from "../Output.ts"
import { ProcessIo } from "../ProcessIo.ts"
import { explain, explainFailure } from "./explain.ts"
import { imageProtocol, inlineImage } from "./inlineImage.ts"
import { extensionOf, isMisnamed, type OutputPlace, writeOutput } from "./outputFile.ts"
import { bar, StatusLine } from "./StatusLine.ts"
import type { Service } from "./Service.ts"
import { openService } from "./target.ts"
import { watchedFetch } from "./watchedFetch.ts"

/** A job, as it was created or named by its id. */
export interface TriedJob {
  readonly id: string
  readonly type: JobType
}

/** What a command tries. */
export interface Trial {
  /** Creates or finds the job. */
  readonly job: (client: Client, signal: AbortSignal) => Promise<TriedJob>
  readonly output: OutputPlace
  /** False to show the job as it is, without waiting for its end. */
  readonly waits: boolean
  /** The type of the job that it creates. */
  readonly type?: JobType | undefined
  /** Path of the recording that it sends. */
  readonly recording?: string | undefined
}

interface State {
  readonly status: string
  readonly output?: {
    readonly transcript?: string
    readonly text?: string
    readonly audio_url?: string
    readonly image_url?: string
  }
  readonly billing?: Billing
  readonly warning_code?: string | null
  readonly error_code?: string | null
}

const drawMs = 100
/** Pauses before the first polls; later ones follow the service's `Retry-After`. */
const firstPollsMs = [50, 100, 200, 400, 700]
/** The longest delay of a timer. */
const longestWaitMs = 2 ** 31 - 1

const secondsOf = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** The times of a job as this program saw them. */
class Watch {
  #createdAt = performance.now()
  #startedAt: number | undefined
  #endedAt: number | undefined
  status = "queued"

  /** Begins once the job exists. */
  begin(): void {
    this.#createdAt = performance.now()
  }

  see(status: string): void {
    this.status = status
    const now = performance.now()
    if (status === "processing") this.#startedAt ??= now
    if (status === "done" || status === "failed") this.#endedAt ??= now
  }

  /** Milliseconds; `ran` is undefined if the job started and finished between two polls. */
  get times(): { readonly waited: number; readonly ran: number | undefined } {
    const now = this.#endedAt ?? performance.now()
    const waited = (this.#startedAt ?? now) - this.#createdAt
    return { waited, ran: this.#startedAt === undefined ? undefined : now - this.#startedAt }
  }

  get text(): string {
    const { ran, waited } = this.times
    if (ran !== undefined) return `waited ${secondsOf(waited)}, ran ${secondsOf(ran)}`
    return this.#endedAt === undefined ? `waited ${secondsOf(waited)}` : `after ${secondsOf(waited)}`
  }
}

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal.addEventListener("abort", end, { once: true })
  })

const waitFor = async (client: Client, job: TriedJob, signal: AbortSignal): Promise<State> => {
  for (const pauseMs of firstPollsMs) {
    const state: State = await client.jobs.get(job, { signal })
    if (state.status === "done" || state.status === "failed") return state
    await sleep(pauseMs, signal)
  }
  return client.jobs.wait(job, { signal, timeoutMs: longestWaitMs })
}

/** Formats what a job cost; undefined if the service does not say. */
const costOf = (billing: Billing | undefined): string | undefined => {
  if (billing === undefined || billing.status === "pending") return undefined
  if (billing.status === "not_charged") return "not charged"
  const items = billing.line_items.map(({ meter, quantity, unit_amount }) => `${quantity} ${meter} × ${unit_amount}`)
  return `cost ${billing.amount} ${billing.currency}${items.length === 0 ? "" : ` (${items.join(" + ")})`}`
}

const download = (url: string): Effect.Effect<{ bytes: Uint8Array; mediaType: string }, CommandFailed> =>
  Effect.tryPromise({
    try: async (signal) => {
      const response = await fetch(url, { signal })
      if (!response.ok) throw new Error(`status ${response.status}`)
      const [mediaType = ""] = (response.headers.get("content-type") ?? "").split(";")
      return { bytes: new Uint8Array(await response.arrayBuffer()), mediaType: mediaType.trim() }
    },
    catch: (cause) => failed(`the result cannot be downloaded: ${causeMessage(cause)}`),
  })

/** Writes the file of a result, or its text if there is no other place for it. */
const save = (job: TriedJob, { output = {} }: State, place: OutputPlace, status: StatusLine) =>
  Effect.gen(function* () {
    const url = output.audio_url ?? output.image_url
    const text = output.transcript ?? output.text
    if (url === undefined) {
      if (place.path === undefined || text === undefined) return []
      yield* writeOutput(place.path, `${text}\n`, place.force)
      return [{ path: place.path, bytes: Buffer.byteLength(text) + 1, media_type: "text/plain" }]
    }
    const { bytes, mediaType } = yield* download(url)
    const path = place.path ?? `${job.id}.${extensionOf(mediaType)}`
    yield* writeOutput(path, bytes, place.force).pipe(
      Effect.mapError(({ message }) => failed(`${message}; the result stays: kiln try job ${job.id} -o FILE`)),
    )
    const { environment, terminal, write } = yield* ProcessIo
    const protocol = terminal?.output === true && !(yield* Json) ? imageProtocol(environment) : undefined
    if (protocol !== undefined && mediaType === "image/png") write(inlineImage(protocol, bytes))
    if (isMisnamed(path, mediaType)) status.say(`note: ${path} contains ${mediaType}`)
    return [{ path, bytes: bytes.length, media_type: mediaType }]
  })

/** Runs the requests while the status line is redrawn. */
const follow = (trial: Trial, service: Service, status: StatusLine, found: (job: TriedJob) => void) =>
  Effect.tryPromise({
    try: async (signal) => {
      const sentAt = performance.now()
      const watch = new Watch()
      const client = createClient({
        baseUrl: service.url,
        apiKey: service.key,
        fetch: watchedFetch({
          onSent: (bytes, total) => {
            const perSecond = bytes / Math.max((performance.now() - sentAt) / 1_000, 0.001)
            status.show(`sending ${bar(bytes, total)}  ${sizeOf(bytes)} of ${sizeOf(total)}, ${sizeOf(perSecond)}/s`)
            if (bytes === total) status.say(`sent ${sizeOf(total)} in ${secondsOf(performance.now() - sentAt)}`)
          },
          onStatus: (seen) => {
            if (seen === watch.status) return
            watch.see(seen)
            if (!status.isLive && seen === "processing") status.say(`${seen}: ${watch.text}`)
          },
        }),
      })
      const job = await trial.job(client, signal)
      found(job)
      watch.begin()
      const timer = setInterval(() => status.show(`${job.id} ${watch.status}: ${watch.text}`), drawMs)
      try {
        if (!status.isLive) status.say(`${job.id} queued`)
        const state: State = trial.waits ? await waitFor(client, job, signal) : await client.jobs.get(job, { signal })
        watch.see(state.status)
        return { job, state, watch }
      } finally {
        clearInterval(timer)
      }
    },
    catch: (error) => explain(error, service.url),
  }).pipe(Effect.ensuring(Effect.sync(() => status.clear())))

/** Runs one trial to its end, and prints its result. `found` is called with the job once it exists. */
export const runTrial = (trial: Trial, given: Service | undefined, found: (job: TriedJob) => void) =>
  Effect.gen(function* () {
    const asJson = yield* Json
    const status = new StatusLine(yield* ProcessIo, asJson)
    if (given === undefined)
      status.say(
        "No --url: a temporary service with sandbox models runs this. Its results are samples, and cost nothing.",
      )
    const service = yield* openService(given)
    const { job, state, watch } = yield* follow(trial, service, status, found)
    const { ran, waited } = watch.times
    const cost = costOf(state.billing)
    const times = trial.waits ? [watch.text] : []
    status.say([`${job.id} ${state.status}`, ...times, ...(cost === undefined ? [] : [cost])].join(", "))
    if (state.warning_code) status.say(`warning: ${state.warning_code} (docs/errors.md)`)
    const files = yield* save(job, state, trial.output, status)
    for (const { bytes, path } of files) status.say(`wrote ${path} (${sizeOf(bytes)})`)
    const text = state.output?.transcript ?? state.output?.text
    const document = {
      job_id: job.id,
      type: job.type,
      status: state.status,
      ...(trial.waits && { waited_seconds: waited / 1_000, ran_seconds: ran === undefined ? null : ran / 1_000 }),
      text: text ?? null,
      files,
      billing: state.billing ?? null,
      warning_code: state.warning_code ?? null,
      error_code: state.error_code ?? null,
    }
    const isPrinted = text !== undefined && !files.some(({ media_type }) => media_type === "text/plain")
    if (asJson || isPrinted) yield* answer({ json: document, text: text ?? "" })
    if (state.status === "failed") return yield* failed(explainFailure(job.id, state.error_code ?? null))
  }).pipe(Effect.scoped)
