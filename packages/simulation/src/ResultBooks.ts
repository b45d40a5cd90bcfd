import { createHash } from "node:crypto"
import type { Job, JobId } from "@kiln/core/domain"
import type { GeneratedFile } from "@kiln/core/providers"
import type { Coverage } from "./Coverage.ts"
import type { Kernel } from "./Kernel.ts"
import type { ProviderCallRecord } from "./ProviderCallRecord.ts"
import type { SimulatedKinds } from "./SimulatedKinds.ts"
import type { Watch } from "./Watch.ts"

/** Keeps the books on results: a job ends with what providers gave for it, and for no other. */
export class ResultBooks {
  readonly #kernel: Kernel
  readonly #watch: Watch
  readonly #kinds: SimulatedKinds
  readonly #coverage: Coverage
  /** By job: provider and text, or the SHA-256 of the file. */
  readonly #given = new Map<JobId, Set<string>>()

  constructor(kernel: Kernel, watch: Watch, kinds: SimulatedKinds, coverage: Coverage) {
    this.#coverage = coverage
    this.#kernel = kernel
    this.#watch = watch
    this.#kinds = kinds
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
    const job = this.#watch.jobs.get(jobId)
    if (job !== undefined && !this.#kinds.of(job).providers.flat().includes("transcription")) return
    if (this.#given.get(jobId)?.has(`transcription ${text}`) !== true)
      this.#kernel.violate("a job gets only results that were made for it", `${jobId} replies to "${text}"`)
  }

  #completed(job: Job): void {
    const given = this.#given.get(job.id) ?? new Set()
    const { file, text } = this.#kinds.answersOf(job)
    const texts = Object.values(job.output ?? {}).filter((value) => typeof value === "string")
    if (text !== undefined && texts.length > 0 && !texts.some((shown) => given.has(`${text} ${shown}`)))
      this.#kernel.violate("a job gets only results that were made for it", `${job.id}: ${JSON.stringify(job.output)}`)
    for (const { blobKey, sha256 } of job.files)
      if (!given.has(`${file ?? ""} ${sha256}`))
        this.#kernel.violate("a job gets only results that were made for it", `${job.id}: ${blobKey}`)
    const { embedded, together } = job.output ?? {}
    if (Number(together) > 1) this.#coverage.note("jobs complete in a batch")
    if (embedded !== undefined && embedded !== job.request?.["text"])
      this.#kernel.violate("a job gets only results that were made for it", `${job.id}: ${JSON.stringify(job.output)}`)
    if (job.files.length !== this.#kinds.of(job).files.length)
      this.#kernel.violate("a job gets only results that were made for it", `${job.id} has ${job.files.length} files`)
  }
}

const contentOf = (answer: unknown): string => {
  const { data, text } = answer as { readonly text?: string } & Partial<GeneratedFile>
  return data === undefined ? (text ?? JSON.stringify(answer)) : digest(data)
}

const digest = (data: Uint8Array): string => createHash("sha256").update(data).digest("hex")
