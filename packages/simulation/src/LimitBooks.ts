import type { Job } from "@kiln/core/domain"
import { isClaimable } from "@kiln/core/rules"
import type { EngineSettings } from "@kiln/core/effect"
import type { Kernel } from "./Kernel.ts"
import type { Coverage } from "./Coverage.ts"
import type { SimulatedProcess } from "./SimulatedProcess.ts"
import type { Watch } from "./Watch.ts"

/**
 * Checks concurrency limits: every claim had a free slot. It uses the store's clock in the step of the claim, because a lease
 * that is extended after its end may take a slot that was reassigned in the meantime.
 */
export class LimitBooks {
  readonly #kernel: Kernel
  readonly #store: SimulatedProcess
  readonly #watch: Watch
  readonly #coverage: Coverage

  constructor(
    kernel: Kernel,
    { perKind, perProject }: EngineSettings["limits"],
    store: SimulatedProcess,
    watch: Watch,
    coverage: Coverage,
  ) {
    this.#kernel = kernel
    this.#store = store
    this.#watch = watch
    this.#coverage = coverage
    watch.onMoved((event, _before, after) => {
      if (event !== "claimed" || after === undefined) return
      const { kind, mode, projectId } = after
      const ofKind = perKind[kind]
      if (ofKind !== undefined) this.#holds(`${mode} ${kind}`, ofKind, (job) => job.kind === kind && job.mode === mode)
      // A share is each worker's own: see ClaimBooks.
      if (perProject !== "share" && perProject > 0)
        this.#holds(`${mode} ${projectId}`, perProject, (job) => job.projectId === projectId && job.mode === mode)
    })
  }

  #holds(what: string, limit: number, counts: (job: Job) => boolean): void {
    const now = this.#store.wallTimeMs
    const counted = [...this.#watch.jobs.values()].filter(counts)
    const inProgress = counted.filter((job) => job.held && job.claimableAt !== null && job.claimableAt > now)
    if (inProgress.length > limit)
      this.#kernel.violate(
        "claims stay within the limits",
        `${what}: ${inProgress.map((job) => job.id).join(", ")}, and ${limit} is the limit`,
      )
    if (inProgress.length === limit && counted.some((job) => isClaimable(job, now)))
      this.#coverage.note("a limit delays a job")
  }
}
