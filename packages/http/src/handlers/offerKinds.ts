import * as Effect from "effect/Effect"
import type { JobFamily, JobRoute } from "@kiln/client"
import { builtInRoutes } from "@kiln/client/api"
import type { JobKind } from "@kiln/core/kinds"
import { HttpSettingInvalid } from "../server/HttpSettingInvalid.ts"
import { fieldNames, type FieldNames } from "./fieldNames.ts"

/** A kind as it is offered over HTTP. */
export interface OfferedKind {
  readonly kind: JobKind
  readonly route: JobRoute<JobKind>
  readonly family: JobFamily
  readonly names: FieldNames
  /**
   * Fields of an output that are on the wire: of a built-in kind, those that it declares. `undefined` means all, because a custom kind
   * need not declare any.
   */
  readonly outputs: ReadonlySet<string> | undefined
}

/** Every kind that is offered, by its name. A job of any other is found nowhere. */
export type OfferedKinds = ReadonlyMap<string, OfferedKind>

/** The built-in kinds that the engine knows, and those that have a route. */
export const offerKinds = (
  kinds: ReadonlyArray<JobKind>,
  routes: ReadonlyArray<JobRoute>,
): Effect.Effect<OfferedKinds, HttpSettingInvalid> =>
  Effect.gen(function* () {
    const known = new Map(kinds.map((kind) => [kind.name, kind]))
    const offered = new Map<string, OfferedKind>()
    const offeredBuiltIn: ReadonlyArray<JobRoute> = builtInRoutes.filter(({ kind }) => known.has(kind.name))
    for (const route of [...offeredBuiltIn, ...routes]) {
      const kind = known.get(route.kind.name)
      if (kind === undefined) return yield* invalid(route, "the engine does not have this kind; add it to its kinds")
      if (offered.has(kind.name)) return yield* invalid(route, "the kind already has a route")
      const problem = problemOf(route, kind, [...offered.values()])
      if (problem !== undefined) return yield* invalid(route, problem)
      const names = fieldNames(kind.reader.fields, route.names)
      const upload = kind.upload === undefined ? undefined : names.toWire(kind.upload)
      const outputs = offeredBuiltIn.includes(route) ? declaredOutputs(kind) : undefined
      offered.set(kind.name, { kind, route: { ...route, kind, upload }, family: route.family, names, outputs })
    }
    return offered
  })

const declaredOutputs = ({ output }: JobKind): ReadonlySet<string> =>
  new Set(output !== undefined && "fields" in output ? Object.keys(output.fields as object) : [])

const invalid = ({ kind }: JobRoute, problem: string) =>
  Effect.fail(new HttpSettingInvalid({ setting: "routes", problem: `${kind.name}: ${problem}` }))

const PATH = /^(?:\/[A-Za-z0-9._~-]+)+$/
// RFC 6750: the challenge names the scope that is missing.
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/
const WORD = /^[A-Za-z][A-Za-z0-9]*$/

const problemOf = (
  { family, methods, names, noun, path }: JobRoute,
  kind: JobKind,
  offered: ReadonlyArray<OfferedKind>,
): string | undefined => {
  const { group, poll } = family
  if (!PATH.test(path)) return "its path must be segments of letters, digits, and ._~- such as /v1/summaries"
  if (!poll.endsWith("/:id") || !PATH.test(poll.slice(0, -4)))
    return "the poll path of its family must be such a path followed by /:id"
  if (!SCOPE.test(kind.keyScope)) return "its key scope must be visible ASCII without spaces and quotes"
  const wrong = [noun, methods, group, family.noun].find((word) => !WORD.test(word))
  if (wrong !== undefined)
    return `"${wrong}" cannot be used in names of types and methods; set noun and methods to letters and digits`
  if (offered.some(({ route }) => route.noun === noun)) return `another kind has the noun ${noun}`
  const relatives = offered.map((other) => ({ ...other.family, keyScope: other.kind.keyScope }))
  const relative = relatives.find((other) => other.poll === poll || other.group === group || other.noun === family.noun)
  if (relative !== undefined && relative.keyScope !== kind.keyScope)
    return `jobs at ${relative.poll} already require the key scope ${relative.keyScope}; use the same scope`
  if (relative !== undefined && (relative.poll !== poll || relative.group !== group || relative.noun !== family.noun))
    return `${relative.poll} already belongs to the family "${relative.group}"; give both routes the same family`
  const { toWire } = fieldNames(kind.reader.fields, names)
  const inner = new Set([...(kind.reader.fields ?? []), ...Object.keys(names)])
  const wire = new Set([...inner].map((name) => toWire(name)))
  return wire.size === inner.size ? undefined : "two of its fields have the same name on the wire"
}
