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
  "a job is claimed while its previous worker still runs it",
  "a checkpoint saves a provider call",
  "killed during a provider call",
  "killed between blob and commit",
  "killed during a transfer",
  "a creation claims for an idle worker",
  "a replay after a lost response",
  "an idempotency key is reused for a different request",
  "an erased job's data is gone",
  "erasure of an unfinished job is refused",
  "an orphan of a job is collected",
  "an orphan of an upload is collected",
  "a transfer takes over from a lost one",
  "a second transfer is refused",
  "a second job for an upload is refused",
  "a live job is charged",
  "a gate closes during a live job",
  "a job is canceled",
  "a claimed job is canceled",
  "a finished job is not canceled",
  "the queue is full",
  "a paused provider is tried again",
  "a process stops and releases its jobs",
  "the store's clock jumps forward",
  "a limit delays a job",
  "a project has all slots of its share",
  "a project alone has more than its share",
  "event: parked",
  "event: woken",
  "LeaseLost: appendChunks",
  "a stream is read to its end",
  "a stream goes on in a later attempt",
  "a stream begins again in a later attempt",
  "a reader goes on after a break",
  "chunks are written again after a lost answer",
  "a job gets its signal",
  "a wait times out",
  "a second signal has no effect",
  "jobs complete in a batch",
]
