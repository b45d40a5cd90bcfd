import type * as Clock from "effect/Clock"
import type * as Effect from "effect/Effect"
import type { BodyBroken } from "./body.ts"
import type { Exchange, Refusal, Reply } from "./Exchange.ts"

/** Handles a request. `id` is the value of the path's placeholder; empty without one. The values of two are joined by a slash. */
export type Handler = (exchange: Exchange, id: string, clock: Clock.Clock) => Effect.Effect<Reply, Refusal | BodyBroken>

export interface Route {
  readonly method: string
  /** Path, in which segments that begin with a colon are placeholders: `/v1/jobs/:id/data`. */
  readonly path: string
  readonly handle: Handler
  /** Whether other origins may call it. */
  readonly cors?: boolean
  /** Whether it responds even during shutdown. */
  readonly whileStopping?: boolean
}

export type Match =
  | { readonly _tag: "Found"; readonly route: Route; readonly id: string; readonly cors: boolean }
  | { readonly _tag: "WrongMethod"; readonly allowed: ReadonlyArray<string>; readonly cors: boolean }
  | { readonly _tag: "NotFound" }

interface Node {
  readonly literals: Map<string, Node>
  placeholder: Node | undefined
  readonly routes: Map<string, Route>
}

const node = (): Node => ({ literals: new Map(), placeholder: undefined, routes: new Map() })

/**
 * Finds routes by exact comparison of path segments as sent: case-sensitive, without decoding or extra slashes. A
 * placeholder matches one non-empty segment.
 */
export class Router {
  readonly routes: ReadonlyArray<Route>
  readonly #root = node()

  constructor(routes: ReadonlyArray<Route>) {
    this.routes = routes
    for (const route of routes) {
      const end = route.path.split("/").reduce((at, segment) => {
        if (segment.startsWith(":")) return (at.placeholder ??= node())
        const next = at.literals.get(segment) ?? node()
        at.literals.set(segment, next)
        return next
      }, this.#root)
      if (end.routes.has(route.method)) throw new Error(`duplicate route: ${route.method} ${route.path}`)
      end.routes.set(route.method, route)
    }
  }

  match(method: string, path: string): Match {
    let at: Node | undefined = this.#root
    let id = ""
    for (const segment of path.split("/")) {
      const literal: Node | undefined = at.literals.get(segment)
      if (literal === undefined && segment !== "") id = id === "" ? segment : `${id}/${segment}`
      at = literal ?? (segment === "" ? undefined : at.placeholder)
      if (at === undefined) return { _tag: "NotFound" }
    }
    const route = at.routes.get(method)
    if (route !== undefined) return { _tag: "Found", route, id, cors: route.cors === true }
    if (at.routes.size === 0) return { _tag: "NotFound" }
    const routes = [...at.routes.values()]
    return {
      _tag: "WrongMethod",
      // OPTIONS exists only for preflights and is not a method of the resource.
      allowed: routes.map((known) => known.method).filter((known) => known !== "OPTIONS"),
      cors: routes.some((known) => known.cors === true),
    }
  }
}
