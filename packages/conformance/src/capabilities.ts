import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { StoreCapabilities } from "@kiln/core/ports"

/**
 * Creates a new, empty place (a file, a schema, a directory), removed with the scope, and returns the layer that opens the store
 * in it. The layer is built several times: one after the other, and concurrently if `multiProcess` is declared.
 */
export type Place<R> = Effect.Effect<Layer.Layer<R, unknown>, unknown, Scope.Scope>

type Declaration<K extends keyof StoreCapabilities> =
  | { readonly capabilities: { readonly [P in K]: true }; readonly reasons?: { readonly [P in K]?: never } }
  | { readonly capabilities: { readonly [P in K]: false }; readonly reasons: { readonly [P in K]: string } }

/** The declared capabilities of a store. A missing capability needs a reason, which appears in the names of the skipped tests. */
export type Declared = Declaration<"durable"> & Declaration<"multiProcess">

/** A test of a suite: an effect to run, or why it is skipped. */
export type Planned =
  | { readonly name: string; readonly run: Effect.Effect<void, unknown> }
  | { readonly name: string; readonly skipped: string }

/** A requirement of a place. `session` reopens the store there, and closes it afterwards. */
export interface PlaceCheck<R> {
  readonly name: string
  readonly needs: keyof StoreCapabilities
  readonly run: (session: Session<R>) => Effect.Effect<void, unknown>
}
export type Session<R> = <A>(use: Effect.Effect<A, unknown, R>) => Effect.Effect<A, unknown>

/** Returns the reasons by capability. Throws if one is missing, because not every caller is type-checked. */
export const reasonsOf = (name: string, { capabilities, reasons }: Declared): Partial<Record<string, string>> => {
  const given: Partial<Record<string, string>> = reasons ?? {}
  for (const [capability, declared] of Object.entries(capabilities)) {
    const reason = given[capability]
    if (!declared && (reason === undefined || reason.trim() === ""))
      throw new TypeError(`${name}: capabilities.${capability} is false and reasons.${capability} does not say why`)
    if (declared && reason !== undefined)
      throw new TypeError(`${name}: reasons.${capability} explains a capability that is declared`)
  }
  return given
}
