import type { Refusal } from "../server/Refusal.ts"

/**
 * Translates the errors of an operation into refusals: one entry for each of them, so that an error the engine learns
 * later is one the compiler asks about here.
 */
export const refusing =
  <E extends { readonly _tag: string }>(table: {
    readonly [Tag in E["_tag"]]: (error: Extract<E, { readonly _tag: Tag }>) => Refusal
  }) =>
  (error: E): Refusal =>
    // The table is indexed by the very tag its entry takes; the compiler cannot follow that across a union.
    (table[error._tag as E["_tag"]] as (error: E) => Refusal)(error)
