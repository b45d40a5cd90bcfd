import { idBody, idTime, isFinished, ownerOfBlob } from "@kiln/core/domain"
import { type Blobs, infoOf } from "./RemoteBlobs.ts"
import type { Kernel } from "./Kernel.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

/** Keeps the books on blobs: no committed row may name one that is missing, short or different. */
export class BlobBooks {
  readonly #kernel: Kernel
  readonly #blobs: Blobs
  readonly #watch: Watch
  readonly #coverage: Coverage
  /** The writer of each blob. */
  readonly #storedBy = new Map<string, SimulatedProcess>()
  /** No blob of a job or upload that was made until then is an orphan. */
  #keptUntil = -Infinity

  constructor(kernel: Kernel, blobs: Blobs, watch: Watch, coverage: Coverage) {
    this.#kernel = kernel
    this.#blobs = blobs
    this.#watch = watch
    this.#coverage = coverage
    watch.onMoved((event, _before, after) => {
      if (event === "completed") for (const file of after?.files ?? []) this.#mustBeThere(file)
    })
    watch.onFileArrived((file) => this.#mustBeThere(file))
    blobs.onRemoved.push((key) => this.#removed(key))
    blobs.onStored.push((key, process) => this.#storedBy.set(key, process))
  }

  /** Records the leftovers of a process that is killed now. */
  killed(process: SimulatedProcess): void {
    for (const [key, by] of this.#storedBy) {
      const owner = ownerOfBlob(key)
      if (by !== process || owner?._tag !== "Job" || !this.#blobs.stored.has(key)) continue
      const job = this.#watch.jobs.get(owner.jobId)
      if (job?.held === true && job.token === owner.token) this.#coverage.note("killed between blob and commit")
    }
  }

  /** These records were adopted as a copy at a store time. What an attempt left of an older job is kept from then on. */
  adopted(at: number, graceMs: number): void {
    this.#keptUntil = at + graceMs
  }

  /** When everything is over: whatever is stored is somebody's. */
  nothingIsLeftOver(): void {
    for (const key of this.#blobs.stored.keys())
      if (this.#isKnown(key) && !this.#isNamed(key) && !this.#mayStillCommit(key) && !this.#isKept(key))
        this.#kernel.violate("no orphan stays forever", `${key} is named by no row`)
  }

  /** Of an owner without a record nothing proves that it is gone for good: its blob may be kept. */
  #isKnown(key: string): boolean {
    const owner = ownerOfBlob(key)
    if (owner?._tag === "Job") return this.#watch.jobs.has(owner.jobId)
    return owner?._tag === "Upload" && this.#watch.uploads.has(owner.uploadId)
  }

  /** A transfer that was not taken over may commit while the upload waits for its file; after that, its blob is purged. */
  #mayStillCommit(key: string): boolean {
    const owner = ownerOfBlob(key)
    const upload = owner?._tag === "Upload" ? this.#watch.uploads.get(owner.uploadId) : undefined
    return upload !== undefined && !upload.erased && upload.claimedUntil !== null && upload.token === owner?.token
  }

  /** After an adoption, a token proves nothing about jobs and uploads from before: another copy may have used it too. */
  #isKept(key: string): boolean {
    const owner = ownerOfBlob(key)
    const madeAt = owner && idTime(idBody(owner._tag === "Job" ? owner.jobId : owner.uploadId))
    return madeAt !== undefined && madeAt <= this.#keptUntil
  }

  #isNamed(key: string): boolean {
    const owner = ownerOfBlob(key)
    if (owner?._tag === "Job")
      return this.#watch.jobs.get(owner.jobId)?.files.some((file) => file.blobKey === key) === true
    if (owner?._tag === "Upload") return this.#watch.uploads.get(owner.uploadId)?.file?.blobKey === key
    return false
  }

  #mustBeThere(file: { readonly blobKey: string; readonly bytes: number; readonly sha256: string }): void {
    const stored = this.#blobs.stored.get(file.blobKey)
    const info = stored === undefined ? undefined : infoOf(stored)
    if (info === undefined || info.bytes !== file.bytes || info.sha256 !== file.sha256)
      this.#kernel.violate(
        "blob first, row second",
        `${file.blobKey} is named and ${info === undefined ? "missing" : "different"}`,
      )
  }

  #removed(key: string): void {
    if (this.#isNamed(key)) {
      this.#kernel.violate("no committed row names a missing blob", `${key} was removed while a row names it`)
      return
    }
    const owner = ownerOfBlob(key)
    const job = owner?._tag === "Job" ? this.#watch.jobs.get(owner.jobId) : undefined
    if (job !== undefined && (!isFinished(job) || job.retained === "kept"))
      this.#coverage.note("an orphan of a job is collected")
    if (owner?._tag === "Upload" && this.#watch.uploads.get(owner.uploadId)?.erased === false)
      this.#coverage.note("an orphan of an upload is collected")
  }
}
