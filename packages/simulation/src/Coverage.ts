/** Counts the situations that runs have reached, which proves that their faults had an effect. */
export class Coverage {
  readonly counts = new Map<string, number>()

  note(state: string): void {
    this.counts.set(state, (this.counts.get(state) ?? 0) + 1)
  }
}

/**
 * Situations that every set of several hundred runs must reach. A simulation without difficult situations
 * proves nothing.
 */
export const requiredCoverage: ReadonlyArray<string> = [
  ...["created", "claimed", "abandoned", "extended", "checkpointed", "completed"].map((event) => `event: ${event}`),
  ...["failed", "deferred", "released", "lost", "expired", "canceled", "erased", "removed"].map(
    (event) => `event: ${event}`,
  ),
  ...["extendLeases", "checkpointJobs", "completeJobs", "failJobs", "deferJobs", "releaseJobs"].map(
    (verb) => `LeaseLost: ${verb}`,
  ),
  ...["attempts_exhausted", "queue_timeout", "job_timeout", "provider_unavailable", "content_rejected"].map(
    (code) => `failed: ${code}`,
  ),
  "failed: result_invalid",
  "a lost worker's job is claimed again",
  "a job is claimed while its former worker still runs it",
  "a checkpoint spares a call",
  "killed in a provider's call",
  "killed between blob and commit",
  "killed in a transfer",
  "a creation claims for an idle worker",
  "a replay after a lost answer",
  "an idempotency key is used for something else",
  "an erased job's data is gone",
  "erasure of an unfinished job is refused",
  "an orphan of a job is collected",
  "an orphan of an upload is collected",
  "a transfer takes over from a lost one",
  "a second transfer is refused",
  "an upload feeds no second job",
  "a live job is charged",
  "a gate shuts under a live job",
  "a job is canceled",
  "a job is canceled in a worker's hands",
  "a finished job is not canceled",
  "the queue is full",
  "a paused provider is tried again",
  "a process stops and gives its jobs back",
  "the store's clock is put forward",
  "a limit holds a job back",
  "a project holds its share",
]
