import { likelyName } from "@kiln/core/domain"

/** Longer paths are not compared. */
const MAX_LENGTH = 100

const OPENAI = "openai"

const segmentsOf = (path: string): ReadonlyArray<string> => path.split("/").filter((segment) => segment !== "")

type Compare = (segment: string, written: string) => boolean

const isSame: Compare = (segment, written) => segment === written.toLowerCase()
const isLike: Compare = (segment, written) => likelyName(written, [segment]) !== undefined

/** Compares a path with a route, in which a placeholder matches any segment. */
const matches = (route: string, written: ReadonlyArray<string>, compare: Compare): boolean => {
  const segments = segmentsOf(route)
  return (
    segments.length === written.length &&
    segments.every((segment, index) => segment.startsWith(":") || compare(segment, written[index] ?? ""))
  )
}

/**
 * Returns the route that a path without one probably means, as a template such as `/v1/jobs/{id}`. The `/v1` may be missing, doubled or
 * after a prefix, and the path may have other slashes or capitals, or misspelled words.
 */
const nearestPath = (path: string, routes: ReadonlyArray<string>): string | undefined => {
  if (path.length > MAX_LENGTH) return undefined
  const segments = segmentsOf(path)
  const version = segments.findLastIndex((segment) => isSame("v1", segment))
  const isOpenAi = segments.some((segment) => isSame(OPENAI, segment))
  const rest = segments.slice(version + 1).filter((segment) => !isSame(OPENAI, segment))
  if (rest.length === 0) return undefined
  const plain = ["v1", ...rest]
  const openAi = [OPENAI, ...plain]
  const candidates = isOpenAi ? [openAi, plain] : [plain, openAi]
  const known = routes.filter((route) => route.includes("/v1/"))
  for (const compare of [isSame, isLike])
    for (const written of candidates) {
      const found = known.find((route) => matches(route, written, compare))
      if (found !== undefined) return found.replace(/:(\w+)/g, "{$1}")
    }
  return undefined
}

/** The messages for a path without a route, and for one whose routes have other methods. */
export interface PathMessages {
  readonly notFound: (path: string) => string
  readonly wrongMethod: (allowed: ReadonlyArray<string>) => string
}

/** @param prefix of request paths in front of the routes; may be empty */
export const describePaths = (routes: ReadonlyArray<string>, prefix: string): PathMessages => {
  const list = ["/docs", "/openapi.json"].find((path) => routes.includes(path))
  const listed = list === undefined ? "" : ` See ${prefix}${list} for all endpoints.`
  const base = `/${OPENAI}/v1`
  const openAi = routes.filter((route) => route.startsWith(`${base}/`) && !route.includes(":"))
  const servesOpenAi = openAi.length > 0
  const openAiOnly = `Of OpenAI's API, this service has ${openAi.map((route) => prefix + route).join(", ")}.`
  return {
    notFound: (path) => {
      if (!servesOpenAi && isSame(OPENAI, segmentsOf(path)[0] ?? ""))
        return "This service does not serve OpenAI's API. The operator can turn it on with KILN_OPENAI_API=on, or with openai: true for a mounted service."
      const nearest = nearestPath(path, routes)
      if (nearest === undefined) {
        const isOpenAi = servesOpenAi && isSame(OPENAI, segmentsOf(path)[0] ?? "")
        return `This path does not exist. ${isOpenAi ? openAiOnly : "Paths are case-sensitive and have no trailing slash."}${listed}`
      }
      // The same request to `/v1` would be refused for other reasons.
      const both = openAi.includes(`/${OPENAI}${nearest}`)
      const hint = both ? ` Clients of OpenAI's API need the base URL ${prefix}${base}.` : ""
      return `This path does not exist. Did you mean ${prefix}${nearest}?${hint}${listed}`
    },
    wrongMethod: (allowed) => `This path supports only ${allowed.join(", ")}.${listed}`,
  }
}
