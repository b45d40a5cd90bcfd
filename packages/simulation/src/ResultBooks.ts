import { createHash } from "node:crypto"
import type { Job, JobId } from "@kiln/core/domain"
import type { GeneratedFile, ProviderName } from "@kiln/core/ports"
import type { Kernel } from "./Kernel.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { Watch } from "./Watch.ts"

/** Where a job's output shows the text of which provider. */
const textsOf: Readonly<Record<string, { readonly field: string; readonly provider: ProviderName }>> = {
  transcription: { field: "transcript", provider: "transcription" },
  voice_turn: { field: "text", provider: "reply" },
}

/** Keeps the books on results: a job ends with what providers gave for it, and for no other. */
export class ResultBooks {
  readonly #kernel: Kernel
  /** By job: provider and text, or the SHA-256 of the file. */
  readonly #given = new Map<JobId, Set<string>>()

  constructor(kernel: Kernel, watch: Watch) {
    this.#kernel = kernel
    watch.onMoved((event, _before, after) => {
      if (event === "completed" && after !== undefined) this.#completed(after)
    })
  }

  given(call: ProviderCallRecord, answer: unknown): void {
    const ofJob = this.#given.get(call.jobId) ?? new Set()
    this.#given.set(call.jobId, ofJob.add(`${call.provider} ${contentOf(answer)}`))
  }

  /** A voice turn replies to what was transcribed for it. */
  askedToReply(jobId: JobId, text: string): void {
    if (this.#given.get(jobId)?.has(`transcription ${text}`) !== true)
      this.#kernel.violate("a job ends with what was made for it", `${jobId} replies to "${text}"`)
  }

  #completed(job: Job): void {
    const given = this.#given.get(job.id) ?? new Set()
    const expected = textsOf[job.kind]
    const output = JSON.stringify(job.output)
    const text = expected === undefined ? undefined : job.output?.[expected.field]
    if (expected !== undefined && (typeof text !== "string" || !given.has(`${expected.provider} ${text}`)))
      this.#kernel.violate("a job ends with what was made for it", `${job.id}: ${output}`)
    const provider: ProviderName = job.kind === "image_generation" ? "image" : "speech"
    for (const file of job.files)
      if (!given.has(`${provider} ${file.sha256}`))
        this.#kernel.violate("a job ends with what was made for it", `${job.id}: ${file.blobKey}`)
    if (job.kind !== "transcription" && job.files.length !== 1)
      this.#kernel.violate("a job ends with what was made for it", `${job.id} has ${job.files.length} files`)
  }
}

const contentOf = (answer: unknown): string => {
  const { data, text } = answer as { readonly text?: string } & Partial<GeneratedFile>
  return data === undefined ? (text ?? JSON.stringify(answer)) : digest(data)
}

const digest = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex")
