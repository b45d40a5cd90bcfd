import { type Job, type JobMode, type ProjectId, projectShare } from "../../domain/index.ts"
import type { WorkerRoom } from "../../domain/JobsInProgress.ts"
import type { ClaimRef } from "../../ports/index.ts"
import type { Attempt } from "../attempt/Attempt.ts"

interface Share {
  readonly mode: JobMode
  readonly projectId: ProjectId
  count: number
}

/** Counts the jobs in a worker's slots. Live and sandbox jobs have `concurrency` slots each. */
export class Room {
  readonly #share: number
  readonly #free: Record<JobMode, number>
  readonly #held: Record<JobMode, Map<ProjectId, Share>>

  private constructor(share: number, free: Record<JobMode, number>, held: Record<JobMode, Map<ProjectId, Share>>) {
    this.#share = share
    this.#free = free
    this.#held = held
  }

  /**
   * All slots are free. With `"share"`, a project that is alone in the slots of a worker may hold all of them; beside others, it gets no more
   * than its share. The next project gets each slot that becomes free until the first one is down to its share.
   */
  static empty(concurrency: number, perProject: number | "share"): Room {
    const share = perProject === "share" ? projectShare(concurrency) : 0
    return new Room(share, { live: concurrency, sandbox: concurrency }, { live: new Map(), sandbox: new Map() })
  }

  copy(): Room {
    const copied = (mode: JobMode) =>
      new Map([...this.#held[mode].values()].map((share) => [share.projectId, { ...share }]))
    return new Room(this.#share, { ...this.#free }, { live: copied("live"), sandbox: copied("sandbox") })
  }

  take({ mode, projectId }: Job): void {
    this.#free[mode] -= 1
    const share = this.#held[mode].get(projectId)
    if (share === undefined) this.#held[mode].set(projectId, { mode, projectId, count: 1 })
    else share.count += 1
  }

  free({ mode, projectId }: Job): void {
    this.#free[mode] += 1
    const share = this.#held[mode].get(projectId)
    if (share === undefined) return
    share.count -= 1
    if (share.count === 0) this.#held[mode].delete(projectId)
  }

  now(): WorkerRoom {
    return {
      free: { ...this.#free },
      perProject: this.#held.live.size > 1 || this.#held.sandbox.size > 1 ? this.#share : 0,
      held: [...this.#held.live.values(), ...this.#held.sandbox.values()].map((share) => ({ ...share })),
    }
  }
}

/** Returns whether a job that leaves its slot may make room for a job that could not be claimed before. */
export const isTight = ({ free, held, perProject }: WorkerRoom): boolean =>
  free.live <= 0 || free.sandbox <= 0 || (perProject > 0 && held.some(({ count }) => count >= perProject))

/** Returns the room that there is when the attempts of these claims have left their slots. */
export const roomWithout = (room: Room, attempts: Iterable<Attempt>, ended: ReadonlyArray<ClaimRef>): WorkerRoom => {
  const tokens = new Map(ended.map(({ jobId, token }) => [jobId, token]))
  const left = room.copy()
  for (const { claim, lease } of attempts) if (tokens.get(lease.jobId) === lease.token) left.free(claim.job)
  return left.now()
}

/** Returns the room that is left when these attempts have taken their slots, and no other has left its own. */
export const roomAfter = (room: Room, attempts: ReadonlyArray<Attempt>): WorkerRoom => {
  const left = room.copy()
  for (const { claim } of attempts) left.take(claim.job)
  return left.now()
}
