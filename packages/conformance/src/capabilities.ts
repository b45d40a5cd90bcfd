import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type { StoreCapabilities } from "@kiln/core/ports"

/**
 * Makes an empty place of its own (a file, a schema, a directory), removed with the scope, and says how to open the
 * store in it. The layer is built several times: one after the other, and at once where `multiProcess` is declared.
 */
export type Place<R> = Effect.Effect<Layer.Layer<R, unknown>, unknown, Scope.Scope>

type Declaration<K extends keyof StoreCapabilities> =
  | { readonly capabilities: { readonly [P in K]: true }; readonly reasons?: { readonly [P in K]?: never } }
  | { readonly capabilities: { readonly [P in K]: false }; readonly reasons: { readonly [P in K]: string } }

/** What a store declares of itself. A capability it lacks needs a reason, which the tests skipped for it carry. */
export type Declared = Declaration<"durable"> & Declaration<"multiProcess">

/** A test of a suite: an effect to run, or why it is skipped. */
export type Planned =
  | { readonly name: string; readonly run: Effect.Effect<void, unknown> }
  | { readonly name: string; readonly skipped: string }

/** Something asked of a place: `session` reopens the store there, and closes it afterwards. */
export interface PlaceCheck<R> {
  readonly name: string
  readonly needs: keyof StoreCapabilities
  readonly run: (session: Session<R>) => Effect.Effect<void, unknown>
}
export type Session<R> = <A>(use: Effect.Effect<A, unknown, R>) => Effect.Effect<A, unknown>

/** The reasons by capability. Throws where one is missing: not every caller is type-checked. */
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
