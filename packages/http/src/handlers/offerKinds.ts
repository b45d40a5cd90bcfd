import { Effect } from "effect"
import type { JobKind } from "@kiln/core/effect"
import { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import { fieldNames, type FieldNames } from "./fieldNames.ts"
import { audioFamily, imageFamily, type JobFamily, ownFamily } from "./JobFamily.ts"
import type { JobRoute } from "./JobRoute.ts"

/** A kind as it is offered over HTTP. */
export interface Offer {
  readonly kind: JobKind
  readonly family: JobFamily
  readonly names: FieldNames
  /** Where its jobs are created; `undefined` of a built-in kind, whose place is declared. */
  readonly path: string | undefined
}

/** Every kind that is offered, by its name. A job of any other is found nowhere. */
export type Offers = ReadonlyMap<string, Offer>

const builtIn: Readonly<Record<string, JobFamily>> = {
  transcription: audioFamily,
  speech_synthesis: audioFamily,
  voice_turn: audioFamily,
  image_generation: imageFamily,
}

/** The built-in kinds the engine knows, and those that have a route. */
export const offerKinds = (
  kinds: ReadonlyArray<JobKind>,
  routes: ReadonlyArray<JobRoute>,
): Effect.Effect<Offers, HttpSettingInvalid> =>
  Effect.gen(function* () {
    const offers = new Map<string, Offer>()
    const families = new Map([audioFamily, imageFamily].map((family) => [family.poll, family]))
    for (const kind of kinds) {
      const family = builtIn[kind.name]
      const names = fieldNames(kind.reader.fields)
      if (family !== undefined) offers.set(kind.name, { kind, family, names, path: undefined })
    }
    for (const route of routes) {
      const kind = kinds.find(({ name }) => name === route.kind)
      if (kind === undefined) return yield* invalid(route, "the engine has no such kind")
      if (offers.has(kind.name)) return yield* invalid(route, "the kind is offered already")
      const family = families.get(route.poll) ?? ownFamily(route.poll, kind.keyScope)
      const problem = problemOf(route, kind, family)
      if (problem !== undefined) return yield* invalid(route, problem)
      families.set(route.poll, family)
      offers.set(kind.name, { kind, family, names: fieldNames(kind.reader.fields, route.names), path: route.path })
    }
    return offers
  })

const invalid = ({ kind }: JobRoute, problem: string) =>
  Effect.fail(new HttpSettingInvalid({ setting: "routes", problem: `${kind}: ${problem}` }))

const PATH = /^(?:\/[A-Za-z0-9._~-]+)+$/
// RFC 6750: the challenge names the scope that is missing.
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/

const problemOf = ({ names, path, poll }: JobRoute, kind: JobKind, family: JobFamily): string | undefined => {
  if (!PATH.test(path)) return "its path must be segments of letters, digits, and ._~- such as /v1/summaries"
  if (!poll.endsWith("/:id") || !PATH.test(poll.slice(0, -4))) return "its poll must be such a path with /:id behind it"
  if (!SCOPE.test(kind.keyScope)) return "its key scope must be visible ASCII without spaces and quotes"
  if (family.keyScope !== kind.keyScope) return `jobs at ${poll} are for keys with ${family.keyScope}`
  const { toWire } = fieldNames(kind.reader.fields, names)
  const inner = new Set([...(kind.reader.fields ?? []), ...Object.keys(names)])
  const wire = new Set([...inner].map((name) => toWire(name)))
  return wire.size === inner.size ? undefined : "two of its fields have one name on the wire"
}
