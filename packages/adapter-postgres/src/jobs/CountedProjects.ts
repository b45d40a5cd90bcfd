import type { Counted } from "./insertJobs.ts"

/** Maximum number of remembered projects; when it is exceeded, all are forgotten. */
const mostRemembered = 10_000
/** After this time, a project is counted again, because a database that was restored gives numbers a second time. */
const rememberedForNanos = 300_000_000_000n

/** What this process has counted of projects that have a queue cap. Wrong only in one direction: there may be fewer jobs. */
export class CountedProjects {
  readonly #counts = new Map<string, Counted & { readonly at: bigint }>()

  of(projectId: string, now: bigint): Counted | undefined {
    const known = this.#counts.get(projectId)
    return known !== undefined && now - known.at < rememberedForNanos ? known : undefined
  }

  remember(counts: ReadonlyArray<Counted>, now: bigint): void {
    if (this.#counts.size + counts.length > mostRemembered) this.#counts.clear()
    for (const counted of counts) this.#counts.set(counted.project_id, { ...counted, at: now })
  }
}
