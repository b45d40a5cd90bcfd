import type { Job, Upload } from "@kiln/core/domain"
import type { EngineSettings } from "@kiln/core/effect"
import type { Kernel } from "./Kernel.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

/** Keeps the books on age: nothing is deleted before its retention has passed, and nothing stays long after it. */
export class RetentionBooks {
  readonly #kernel: Kernel
  readonly #settings: EngineSettings
  readonly #store: SimulatedProcess
  readonly #watch: Watch

  constructor(kernel: Kernel, settings: EngineSettings, store: SimulatedProcess, watch: Watch) {
    this.#kernel = kernel
    this.#settings = settings
    this.#store = store
    this.#watch = watch
    watch.onMoved((event, before, after) => {
      if (before === undefined) return
      if (event === "erased" && after?.retained === "expired") this.#wentBy(before, settings.dataRetentionMs)
      if (event === "removed") this.#wentBy(before, settings.jobRetentionMs)
    })
    watch.onUploadMoved((verb, before, after) => {
      const goes = !before.erased && after?.erased === true
      if (goes && verb === "expireUploads" && before.usableUntil > this.#now)
        kernel.violate(
          "nothing is deleted before its retention has passed",
          `${before.id} was usable until ${before.usableUntil}`,
        )
    })
  }

  get #now(): number {
    return this.#store.wallTimeMs
  }

  #wentBy(job: Job, retentionMs: number): void {
    if (retentionMs === 0 || (job.finishedAt ?? this.#now) + retentionMs > this.#now)
      this.#kernel.violate(
        "nothing is deleted before its retention has passed",
        `${job.id} finished at ${job.finishedAt ?? 0}`,
      )
  }

  /** After a period without faults, everything that was due before it is gone. */
  nothingIsOverdue(forMs: number): void {
    const { dataRetentionMs, jobRetentionMs } = this.#settings
    const isLate = (dueAt: number) => dueAt <= this.#now - forMs
    const lateJob = (job: Job) =>
      (dataRetentionMs > 0 && job.retained === "kept" && isLate((job.finishedAt ?? this.#now) + dataRetentionMs)) ||
      (jobRetentionMs > 0 && isLate((job.finishedAt ?? this.#now) + jobRetentionMs))
    const lateUpload = (upload: Upload) => upload.jobId === null && !upload.erased && isLate(upload.usableUntil)
    const late = [
      ...[...this.#watch.jobs.values()].filter(lateJob),
      ...[...this.#watch.uploads.values()].filter(lateUpload),
    ]
    if (late.length > 0)
      this.#kernel.violate("nothing stays long after its retention has passed", late.map(({ id }) => id).join(", "))
  }
}
