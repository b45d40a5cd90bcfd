import { type Names, requireKnown } from "../knownOptions.ts"
import { type GivenNames, type PascalCase, toPascalCase, wireName } from "./fieldNames.ts"
import { type JobFamily, jobFamily } from "./JobFamily.ts"

/** The parts of a job kind that a route needs: its name, and its types for the compiler. */
export interface RoutedKind {
  readonly name: string
  /** The field that names the upload a job consumes. */
  readonly upload?: string | undefined
  /** Types only: there is no value. */
  readonly "~kind"?: unknown
}

/** The path and names under which jobs of a kind are created. Created by `jobRoute`. */
export interface JobRoute<
  K extends RoutedKind = RoutedKind,
  Noun extends string = string,
  Methods extends string = string,
  Given extends GivenNames = GivenNames,
  Family extends JobFamily = JobFamily,
> {
  readonly kind: K
  /** Path where POST creates jobs, below the prefix. */
  readonly path: string
  readonly family: Family
  /** Used in names: `Speech` gives `createSpeech` and `SpeechJob`. */
  readonly noun: Noun
  /** Name of its methods in the promise client: `speech` gives `client.speech.create`. */
  readonly methods: Methods
  /** Wire names that do not follow the rule, by inner name. */
  readonly names: Given
  /** The wire name of the field with the upload that a job consumes; `undefined` if the kind takes none. */
  readonly upload: string | undefined
}

export interface JobRouteOptions<
  Noun extends string = string,
  Methods extends string = string,
  Given extends GivenNames = GivenNames,
  Family extends JobFamily = JobFamily,
> {
  /** Path where POST creates jobs, below the prefix: `/v1/summaries`. */
  readonly path: string
  /** The family under which its jobs are polled and erased. By default, a separate family under `poll`. */
  readonly family?: Family
  /** Path for polling jobs without a family; by default `path` followed by `/:id`. */
  readonly poll?: string
  /** Wire names of request and output fields that should differ from `snake_case`, by inner name. */
  readonly names?: Given
  /** The noun in names such as `createSpeech`. Default: the kind's name, `TextSummary`. */
  readonly noun?: Noun
  /** The name of its methods in the promise client. Default: the kind's name, `textSummary`. */
  readonly methods?: Methods
}

const optionNames: Names<JobRouteOptions> = {
  path: true,
  family: true,
  poll: true,
  names: true,
  noun: true,
  methods: true,
}

type NoNames = { readonly [Name in never]: string }
type OwnMethods<K extends RoutedKind> = Uncapitalize<PascalCase<K["name"]>>

/**
 * Offers the jobs of a kind over HTTP. Routes, the OpenAPI document, both clients and the playground are derived from it. The
 * engine must have the kind.
 */
export const jobRoute = <
  const K extends RoutedKind,
  const Noun extends string = PascalCase<K["name"]>,
  const Methods extends string = OwnMethods<K>,
  const Given extends GivenNames = NoNames,
  const Family extends JobFamily = JobFamily<OwnMethods<K>, Noun, "full">,
>(
  kind: K,
  options: JobRouteOptions<Noun, Methods, Given, Family>,
  // Without `NoInfer`, the `routes` of a call of `createClient` around this one would widen the names to `string`.
): JobRoute<K, NoInfer<Noun>, NoInfer<Methods>, NoInfer<Given>, NoInfer<Family>> => {
  if (typeof options !== "object" || options === null)
    throw new TypeError("jobRoute() expects its options as an object")
  requireKnown("jobRoute()", options, optionNames)
  const name = toPascalCase(kind.name)
  const own = name.charAt(0).toLowerCase() + name.slice(1)
  const { methods = own, names = {}, noun = name, path, poll = `${path}/:id` } = options
  const family = options.family ?? jobFamily(own, { noun, poll, title: kind.name })
  const upload = kind.upload === undefined ? undefined : wireName(kind.upload, names)
  return { kind, path, family, noun, methods, names, upload } as never
}

/**
 * Names a kind whose code is elsewhere, so that a client gets only its types: `remoteKind<typeof summary>({ name: "text_summary"
 * })`.
 */
export const remoteKind = <K extends RoutedKind>(
  kind: Pick<K, "name"> & (UploadOf<K> extends never ? unknown : { readonly upload: UploadOf<K> }),
): K => kind as K

type TypesOf<K> = K extends { readonly "~kind": infer Types } ? Types : never
/** The field of a kind's requests that names an upload; `never` without one. */
export type UploadOf<K> = TypesOf<K> extends { readonly upload: infer Upload extends string } ? Upload : never
