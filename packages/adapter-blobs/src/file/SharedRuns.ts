/**
 * Runs a call for a path, at most one at a time, and lets callers share a run. Each caller gets the result of a run that began after it
 * asked, never of one that was already in progress: a sync makes durable only what was written before it began.
 */
export class SharedRuns<A> {
  readonly #run: (path: string) => Promise<A>
  /** Runs that have not begun. */
  readonly #next = new Map<string, Promise<A>>()
  /** The ends of the runs in progress. */
  readonly #inProgress = new Map<string, Promise<unknown>>()

  constructor(run: (path: string) => Promise<A>) {
    this.#run = run
  }

  of(path: string): Promise<A> {
    const joined = this.#next.get(path)
    if (joined !== undefined) return joined
    const next = (this.#inProgress.get(path) ?? Promise.resolve()).then(() => this.#begin(path))
    this.#next.set(path, next)
    return next
  }

  #begin(path: string): Promise<A> {
    this.#next.delete(path)
    const run = this.#run(path)
    const end = (): void => {
      if (!this.#next.has(path)) this.#inProgress.delete(path)
    }
    this.#inProgress.set(path, run.then(end, end))
    return run
  }
}
