import type { KeyId, ProjectId } from "./Ids.ts"

/** Test keys make sandbox jobs, live keys make live jobs. */
export type KeyMode = "test" | "live"
/** What a job costs and who serves it: `sandbox` never reaches a provider and never costs. */
export type JobMode = "sandbox" | "live"

export const jobModeOf = (mode: KeyMode): JobMode => (mode === "test" ? "sandbox" : "live")

/** A permission a key carries. Each job kind names the one that creates, reads and erases its jobs. */
export type KeyScope = string

/** Who calls: one key record of one project. "The same key" means the same record, whatever secret was presented. */
export interface Principal {
  readonly keyId: KeyId
  readonly projectId: ProjectId
  readonly mode: JobMode
  readonly scopes: ReadonlyArray<KeyScope>
}

declare const granted: unique symbol
/** Proof that a principal holds a scope. Only `authorize` makes one, so an operation that takes a grant cannot be reached unchecked. */
export interface Grant<S extends KeyScope = KeyScope> extends Principal {
  readonly [granted]: S
}

/** The one place where a principal becomes a grant; `undefined` when the scope is missing. */
export const authorize = <S extends KeyScope>(principal: Principal, scope: S): Grant<S> | undefined =>
  principal.scopes.includes(scope) ? (principal as Grant<S>) : undefined

/** Returns whether `principal` may see a record: same project, same key record, same mode. */
export const owns = (
  principal: Pick<Principal, "projectId" | "keyId" | "mode">,
  record: { readonly projectId: ProjectId; readonly keyId: KeyId; readonly mode: JobMode },
): boolean =>
  record.projectId === principal.projectId && record.keyId === principal.keyId && record.mode === principal.mode
