import { checkedRun } from "./checkOptions.ts"
import type { Client } from "./Client.ts"
import type { CallOptions, CreateOptions, RunOptions, RunProgress, WaitOptions } from "./ClientOptions.ts"
import { ApiError, JobFailed } from "./errors.ts"
import type { ClientRoute } from "./Ask.ts"
import type { State } from "./jobOperations.ts"
import type { JobReference } from "./JobStates.ts"
import type { AboutFile, Source } from "./prepareFile.ts"
import { randomHex } from "./random.ts"
import { type FileBody, webBody } from "./sendUpload.ts"
import { type Deadline, deadlineAfter, within } from "./timers.ts"

type Reference = JobReference<string>
export type CreateJob = (fields: object, options: CreateOptions) => Promise<Reference>

interface Steps {
  readonly create: CreateJob
  readonly uploads: Client["uploads"]
  readonly jobs: {
    readonly wait: (
      job: Reference,
      options: WaitOptions,
      onState: (state: State) => void,
      limit?: Deadline,
    ) => Promise<State>
  }
}

/** Announces and sends a file. Returns the id of the upload. */
export const announceAndSend = async (
  uploads: Client["uploads"],
  { about, body }: Source,
  { signal }: CallOptions = {},
): Promise<string> => {
  const call = signal === undefined ? {} : { signal }
  const upload = await uploads.create(about, call)
  await uploads.send(upload, body, { ...call, format: about.format })
  return upload.id
}

/** An upload that no service has. */
const NO_UPLOAD = "upl_none"

/** Runs jobs of one kind, from request and file to the finished job. Rejects with `JobFailed` for a job without a result. */
export const makeRun =
  ({ create, jobs, uploads }: Steps, { kind, path, upload = "" }: ClientRoute) =>
  async (place: string, fields: object, options: RunOptions = {}, file?: FileBody): Promise<State> => {
    const { idempotencyKey, onProgress = () => {}, signal, timeoutMs } = checkedRun(place, options)
    const deadline = deadlineAfter(timeoutMs)

    const createFromFile = async (content: FileBody, call: { readonly signal: AbortSignal }): Promise<Reference> => {
      const body = webBody(content)
      const { prepareFile } = await import("./prepareFile.ts")
      const prepared = await prepareFile(body, fields as AboutFile, idempotencyKey !== undefined, call.signal)
      const { source } = prepared
      call.signal.throwIfAborted()
      const createWith = (id: string, key: string) =>
        create({ ...prepared.fields, [upload]: id }, { ...call, idempotencyKey: key })
      const send = (): Promise<string> => {
        onProgress({ step: "uploading" })
        return announceAndSend(uploads, source, call)
      }
      if (idempotencyKey === undefined || source.bytes === undefined) return createWith(await send(), randomHex(16))
      // Each call has another upload, so its requests differ. The file itself is therefore part of the key.
      const text = new TextEncoder().encode(JSON.stringify([path, prepared.fields]))
      const key = `${idempotencyKey}.${digest(source.bytes)}${digest(text)}`
      const find = (error: unknown): Reference => {
        const [, id] = (error instanceof ApiError && /\/([^/]+)$/.exec(error.headers.get("location") ?? "")) || []
        if (id === undefined || !(error instanceof ApiError) || error.code !== "idempotency_key_reused") throw error
        return { id, type: kind.name }
      }
      // Nothing is sent if an earlier call has created the job. The key is compared before the upload is looked up.
      const earlier = await createWith(NO_UPLOAD, key).catch((error: unknown) =>
        error instanceof ApiError && error.code === "upload_not_found" ? undefined : find(error),
      )
      return earlier ?? createWith(await send(), key).catch(find)
    }

    const createJob = (either: AbortSignal): Promise<Reference> => {
      const call = { signal: either }
      return place === "run"
        ? create(fields, { ...call, ...(idempotencyKey !== undefined && { idempotencyKey }) })
        : createFromFile(file as FileBody, call)
    }
    try {
      const job = await within(signal, deadline, createJob)
      const report = (state: object): void => onProgress({ step: "waiting", jobId: job.id, ...state })
      report({})
      const reference = { id: job.id, type: kind.name }
      const waited = { ...(signal && { signal }), ...(timeoutMs !== undefined && { timeoutMs }) }
      const onState = (state: State): void => {
        const { progress, status } = state as Partial<RunProgress>
        report({ status, ...(progress && { progress }) })
      }
      const end = await jobs.wait(reference, waited, onState, timeoutMs === undefined ? undefined : deadline)
      if (!("output" in end)) throw new JobFailed(end as never)
      return end
    } finally {
      // Also if `onProgress` throws.
      deadline.cancel()
    }
  }

/** Returns a digest of 53 bits: enough to notice that a key is reused for another file, and available on pages without TLS. */
const digest = (bytes: Uint8Array): string => {
  let [high, low] = [0xdead_beef, 0x41c6_ce57]
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] ?? 0
    high = Math.imul(high ^ byte, 0x9e37_79b1)
    low = Math.imul(low ^ byte, 0x5f35_6495)
  }
  high = Math.imul(high ^ (high >>> 16), 0x85eb_ca6b) ^ Math.imul(low ^ (low >>> 13), 0xc2b2_ae35)
  low = Math.imul(low ^ (low >>> 16), 0x85eb_ca6b) ^ Math.imul(high ^ (high >>> 13), 0xc2b2_ae35)
  return (2 ** 32 * (low & 0x1f_ffff) + (high >>> 0)).toString(36)
}
