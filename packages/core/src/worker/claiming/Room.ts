import type { Job, JobMode, ProjectId, WorkerRoom } from "../../domain/index.ts"
import type { ClaimRef } from "../../ports/index.ts"
import type { Attempt } from "../attempt/Attempt.ts"

interface Share {
  readonly mode: JobMode
  readonly projectId: ProjectId
  count: number
}

/** Counts the jobs in a worker's slots. Live and sandbox jobs have `concurrency` slots each. */
export class Room {
  readonly #perProject: number
  readonly #free: Record<JobMode, number>
  readonly #held: Record<JobMode, Map<ProjectId, Share>> = { live: new Map(), sandbox: new Map() }

  constructor({ free, held, perProject }: WorkerRoom) {
    this.#perProject = perProject
    this.#free = { ...free }
    for (const share of held) this.#held[share.mode].set(share.projectId, { ...share })
  }

  /** All slots are free. `perProject`: slots of each mode that one project may hold; 0 means no limit. */
  static empty(concurrency: number, perProject: number): Room {
    return new Room({ free: { live: concurrency, sandbox: concurrency }, held: [], perProject })
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
      perProject: this.#perProject,
      held: [...this.#held.live.values(), ...this.#held.sandbox.values()].map((share) => ({ ...share })),
    }
  }
}

/** Returns whether a job that leaves its slot may make room for a job that could not be claimed before. */
export const isTight = ({ free, held, perProject }: WorkerRoom): boolean =>
  free.live <= 0 || free.sandbox <= 0 || (perProject > 0 && held.some(({ count }) => count >= perProject))

/** Returns the room that there is when the attempts of these claims have left their slots. */
export const roomWithout = (
  room: WorkerRoom,
  attempts: Iterable<Attempt>,
  ended: ReadonlyArray<ClaimRef>,
): WorkerRoom => {
  const tokens = new Map(ended.map(({ jobId, token }) => [jobId, token]))
  const left = new Room(room)
  for (const { claim, lease } of attempts) if (tokens.get(lease.jobId) === lease.token) left.free(claim.job)
  return left.now()
}

/** Returns the room that is left when these attempts have taken their slots, and no other has left its own. */
export const roomAfter = (room: WorkerRoom, attempts: ReadonlyArray<Attempt>): WorkerRoom => {
  const left = new Room(room)
  for (const { claim } of attempts) left.take(claim.job)
  return left.now()
}
