import type { JobId } from "../../domain/index.ts"

/** Jobs that are remembered. */
const maxKept = 10_000

/**
 * The newest jobs that others wait for. A worker that ends one looks for the waiting job at once, which need not be its own. A job that is
 * not remembered only costs the time until the next poll.
 */
export class AwaitedJobs {
  readonly #ids = new Set<JobId>()

  add(ids: ReadonlyArray<JobId>): void {
    for (const id of ids) {
      this.#ids.delete(id)
      this.#ids.add(id)
    }
    for (const id of this.#ids) {
      if (this.#ids.size <= maxKept) return
      this.#ids.delete(id)
    }
  }

  has(id: JobId): boolean {
    return this.#ids.has(id)
  }
}
