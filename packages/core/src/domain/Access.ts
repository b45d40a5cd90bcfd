import type { KeyId, ProjectId } from "./Ids.ts"

/** Test keys make sandbox jobs, live keys make live jobs. */
export type KeyMode = "test" | "live"
/** The mode of a job: a `sandbox` job never reaches a provider and is never charged. */
export type JobMode = "sandbox" | "live"

export const jobModeOf = (mode: KeyMode): JobMode => (mode === "test" ? "sandbox" : "live")

/** A permission of a key. Each job kind names the scope that may create, read and erase its jobs. */
export type KeyScope = string

/** The caller: one key record of one project. "The same key" means the same record, whichever of its secrets was presented. */
export interface Principal {
  readonly keyId: KeyId
  readonly projectId: ProjectId
  readonly mode: JobMode
  readonly scopes: ReadonlyArray<KeyScope>
}

declare const granted: unique symbol
/**
 * Proof that a principal holds a scope. Only `authorize` creates one, so an operation that takes a grant cannot be called
 * unchecked.
 */
export interface Grant<S extends KeyScope = KeyScope> extends Principal {
  readonly [granted]: S
}

/** Returns a grant if the principal holds the scope, otherwise `undefined`. Nothing else creates grants. */
export const authorize = <S extends KeyScope>(principal: Principal, scope: S): Grant<S> | undefined =>
  principal.scopes.includes(scope) ? (principal as Grant<S>) : undefined

/** Returns whether `principal` may see a record: same project, same key record, same mode. */
export const owns = (
  principal: Pick<Principal, "projectId" | "keyId" | "mode">,
  record: { readonly projectId: ProjectId; readonly keyId: KeyId; readonly mode: JobMode },
): boolean =>
  record.projectId === principal.projectId && record.keyId === principal.keyId && record.mode === principal.mode
