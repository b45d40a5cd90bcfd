import type {
  AttemptRecord,
  Charge,
  ConcurrencyLimits,
  FileId,
  Job,
  JobId,
  KeyId,
  OutputFile,
  Principal,
  ProjectId,
  UploadId,
  Upload,
} from "@kiln/core/domain"
import { jobBlobKey, uploadBlobKey } from "@kiln/core/domain"
import type { Claim, Completion, NewApiKey, NewJob, NewUpload, ProviderStanding } from "@kiln/core/ports"

const body = (n: number): string => n.toString().padStart(26, "0")

/** Well-formed identifiers that sort by their number. */
export const jobId = (n: number): JobId => `job_${body(n)}`
export const uploadId = (n: number): UploadId => `upl_${body(n)}`
export const fileId = (n: number): FileId => `fil_${body(n)}`
export const keyId = (n: number): KeyId => `key_${body(n)}`
export const projectId = (n: number): ProjectId => `prj_${body(n)}`
/** 64 hexadecimal digits, as a SHA-256 has. */
export const digest = (n: number): string => n.toString(16).padStart(64, "0")

export const leaseDurationMs = 30_000
export const queueLimitMs = 86_400_000
export const runLimitMs = 1_800_000
export const transferWindowMs = 900_000
export const usableForMs = 86_400_000
export const maxTransfers = 5
export const noLimits: ConcurrencyLimits = { perKind: {}, perProject: 0 }

/** A sandbox job of project 1 and key 1 that needs nothing. Numbers give distinct ids and idempotency keys. */
export const newJob = (n: number, overrides: Partial<NewJob> = {}): NewJob => ({
  id: jobId(n),
  projectId: projectId(1),
  keyId: keyId(1),
  mode: "sandbox",
  kind: "speech_synthesis",
  kindVersion: 1,
  request: { input: `text ${n}` },
  priority: "normal",
  delayMs: 0,
  metadata: {},
  retryOf: null,
  uploadId: null,
  maxTransfers,
  idempotencyKey: `idempotency-${n}`,
  fingerprint: digest(n),
  gate: null,
  maxUsage: null,
  forcedOff: [],
  limits: { queueLimitMs, runLimitMs },
  queueCap: 0,
  ...overrides,
})

export const audioGate: NonNullable<NewJob["gate"]> & { readonly price: string } = {
  price: "svc-audio",
  meters: ["input_characters"],
  switches: ["ai", "audio"],
  liveWorker: { kind: "speech_synthesis", withinMs: 60_000 },
}

/** A live job behind `audioGate` that uses at most 10 characters. */
export const newLiveJob = (n: number, overrides: Partial<NewJob> = {}): NewJob =>
  newJob(n, { mode: "live", gate: audioGate, maxUsage: { input_characters: 10 }, ...overrides })

/** An upload of project 1 and key 1. */
export const newUpload = (n: number, overrides: Partial<NewUpload> = {}): NewUpload => ({
  id: uploadId(n),
  projectId: projectId(1),
  keyId: keyId(1),
  mode: "sandbox",
  format: "wav",
  declaredSeconds: 1.5,
  transferWindowMs,
  usableForMs,
  ...overrides,
})

/** A job that consumes upload `n`. */
export const newUploadJob = (n: number, overrides: Partial<NewJob> = {}): NewJob =>
  newJob(n, { kind: "transcription", uploadId: uploadId(n), ...overrides })

export const uploadedFile = (id: UploadId, token: number): NonNullable<Upload["file"]> => ({
  blobKey: uploadBlobKey(id, token),
  bytes: 1_000 + token,
  sha256: digest(token),
})

/** The owner of a record. */
export const ownerOf = (record: Pick<Job, "projectId" | "keyId" | "mode">): Principal => ({
  projectId: record.projectId,
  keyId: record.keyId,
  mode: record.mode,
  scopes: [],
})

export const outputFile = (
  claim: { readonly job: Pick<Job, "id">; readonly token: number },
  n: number,
): OutputFile => ({
  id: fileId(n),
  name: "audio",
  blobKey: jobBlobKey(claim.job.id, claim.token, "audio"),
  mediaType: "audio/mpeg",
  bytes: 4_096,
  sha256: digest(n),
})

export const charge: Charge = {
  currency: "usd",
  amount: "0.00015",
  lineItems: [{ meter: "input_characters", quantity: 10, unitAmount: "0.000015", amount: "0.00015" }],
}

/** The possible standings of a worker's providers: ready, and paused for each reason. */
export const standings: ReadonlyArray<ProviderStanding> = [
  { provider: "transcription", status: "ready", reason: null, since: 1_000 },
  { provider: "speech", status: "paused", reason: "quota", since: 2_000 },
  { provider: "reply", status: "paused", reason: "configuration", since: 3_000 },
  { provider: "image", status: "paused", reason: "failing", since: 4_000 },
]

/** Returns the completion of this claim, with a charge if and only if the job is live. */
export const completionOf = (claim: Pick<Claim, "job" | "token">, overrides: Partial<Completion> = {}): Completion => ({
  jobId: claim.job.id,
  token: claim.token,
  output: { text: "done" },
  files: [],
  warningCode: null,
  charge: claim.job.mode === "live" ? charge : null,
  ...overrides,
})

export const newApiKey = (n: number, overrides: Partial<NewApiKey> = {}): NewApiKey => ({
  id: keyId(n),
  projectId: projectId(1),
  mode: "test",
  scopes: ["audio.create", "images.create"],
  name: `key ${n}`,
  expiresAt: null,
  secretHash: digest(n),
  ...overrides,
})

/** The record of a failed attempt. */
export const record: AttemptRecord = {
  errorCode: "provider_unavailable",
  message: "503 from the provider",
  stack: "Error: 503 from the provider\n    at call (provider.ts:1:1)",
  durationMs: 5,
  worker: "host:1",
}
