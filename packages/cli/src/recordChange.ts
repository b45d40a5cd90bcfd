import { hostname, userInfo } from "node:os"
import * as Effect from "effect/Effect"
import type { JsonObject } from "@kiln/core/domain"
import { type AuditChange, audited, type AuditedVerb, AuditLog } from "@kiln/core/ports"
import { ProcessIo } from "./ProcessIo.ts"

/** Names may come from the environment, and appear in tables. */
const printable = (text: string): string => text.replaceAll(/[^\x20-\x7e]/g, "?").slice(0, 100)

/** The system's user. In a container, the user id may have no name. */
const userName = (): string => {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? "unknown"}`
  }
}

/** The user of this command and its host: `user root (sudo by alice)`, `host db-1, ssh from 10.0.0.7`. */
export const changedBy = Effect.map(ProcessIo, ({ environment }) => {
  const { SSH_CONNECTION: ssh = "", SUDO_USER: sudo = "" } = environment
  const [address = ""] = ssh.split(" ")
  return {
    actor: printable(`user ${userName()}${sudo === "" ? "" : ` (sudo by ${sudo})`}`),
    origin: printable(`host ${hostname()}${address === "" ? "" : `, ssh from ${address}`}`),
  }
})

const changeOf = (action: string, subject: string | null, details: JsonObject) =>
  Effect.map(changedBy, (by): AuditChange => ({ ...by, action, subject, details }))

/**
 * Records a change in the transaction that makes it. `changed` judges the answer of the store's verb; by default, every answer
 * but `undefined` and `false` is a change. `detailsOf` adds details from the answer. Details must contain no secret.
 */
export const recordChange =
  (
    {
      action,
      details = {},
      subject,
    }: { readonly action: string; readonly subject: string | null; readonly details?: JsonObject },
    changed?: AuditedVerb["changed"],
    detailsOf?: AuditedVerb["detailsOf"],
  ) =>
  <A, E, R>(operation: Effect.Effect<A, E, R>) =>
    Effect.flatMap(changeOf(action, subject, details), (change) => audited(change, operation, changed, detailsOf))

/** Records a change that takes several steps, before the first. It can be repeated if it is interrupted. */
export const appendChange = (action: string, subject: string | null, details: JsonObject = {}) =>
  Effect.gen(function* () {
    yield* (yield* AuditLog).append(yield* changeOf(action, subject, details))
  })

/** Whether an answer, or the answer for the first item of a batch, has this tag. */
export const hasTag =
  (tag: string): AuditedVerb["changed"] =>
  (answer) => {
    const first: unknown = Array.isArray(answer) ? answer[0] : answer
    return first === tag || (typeof first === "object" && first !== null && Reflect.get(first, "_tag") === tag)
  }

/** For verbs without an answer. */
export const always: AuditedVerb["changed"] = () => true
