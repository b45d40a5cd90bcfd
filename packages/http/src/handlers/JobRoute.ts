import { type OptionNames, requireOptions } from "@kiln/core/domain"

/** Where the jobs of a kind of one's own are created, polled and erased. Made by `jobRoute`. */
export interface JobRoute {
  /** The kind's name. */
  readonly kind: string
  readonly path: string
  readonly poll: string
  readonly names: Readonly<Record<string, string>>
}

export interface JobRouteOptions {
  /** Where jobs are created with POST, below the prefix: `/v1/summaries`. */
  readonly path: string
  /**
   * Where they are polled with GET, and with `/data` behind it erased with DELETE: the path with `/:id` behind it by default.
   * Kinds with one key scope may share it. `/v1/jobs/:id` makes the kind one of the audio jobs, for keys with `audio.create`.
   */
  readonly poll?: string
  /** Names on the wire, by those of the kind's fields, request and output: where `snake_case` is not the one that is wanted. */
  readonly names?: Readonly<Record<string, string>>
}

const optionNames: OptionNames<JobRouteOptions> = { path: true, poll: true, names: true }

/** Offers the jobs of a kind over HTTP. The engine must know the kind. */
export const jobRoute = (kind: { readonly name: string }, options: JobRouteOptions): JobRoute => {
  requireOptions("jobRoute()", options, optionNames)
  return {
    kind: kind.name,
    path: options.path,
    poll: options.poll ?? `${options.path}/:id`,
    names: options.names ?? {},
  }
}
