import { createHash } from "node:crypto"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Command from "effect/cli/Command"
import { parseApiKey } from "@kiln/core/domain"
import { type ApiKeyRecord, KeyDirectory, type KeySecretRecord } from "@kiln/core/ports"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTime } from "../Output.ts"
import { readSecretInput } from "../readSecretInput.ts"
import { withStores } from "../withStores.ts"
import { keyFields, keyStatus } from "./keyFields.ts"

/** Whether the secret works now: `rotated` if the key has another one since and the overlap has ended. */
const secretStatus = ({ key, validUntil }: KeySecretRecord, now: number) => {
  const status = keyStatus(key, now)
  return status === "active" && validUntil !== null && validUntil <= now ? "rotated" : status
}

const advice = ({ key, validUntil }: KeySecretRecord, now: number): string => {
  switch (secretStatus({ key, validUntil }, now)) {
    case "revoked":
      return `It was revoked at ${formatTime(key.revokedAt)} and no longer works.`
    case "expired":
      return `It expired at ${formatTime(key.expiresAt)} and no longer works.`
    case "rotated":
      return `This secret was rotated and ended at ${formatTime(validUntil)}; the key has a newer one.`
    case "active":
      return validUntil === null
        ? `IT WORKS. If it leaked, end it now: kiln key rotate ${key.id} --overlap 0, or kiln key revoke ${key.id}`
        : `IT WORKS until ${formatTime(validUntil)}, because the key was rotated. To end it now: kiln key rotate ${key.id} --overlap 0`
  }
}

const describe = (key: ApiKeyRecord, project: string): string =>
  `This is the ${key.mode} key ${key.id}${key.name === null ? "" : ` (${key.name})`} of project ${project}, ` +
  `with ${key.scopes.join(" and ")}, created ${formatTime(key.createdAt)}, ${key.lastUsedAt === null ? "never used" : `last used ${formatTime(key.lastUsedAt)}`}.`

export const keyIdentify = Command.make("identify", {}, () =>
  withStores(
    Effect.gen(function* () {
      const text = yield* readSecretInput("API key")
      if (parseApiKey(text) === undefined)
        return yield* misused(
          "standard input must be one API key, kiln_test_… or kiln_live_… with 49 more characters; this text is not one, or a character is wrong",
        )
      const directory = yield* KeyDirectory
      const now = yield* Clock.currentTimeMillis
      const found = yield* directory.identifyKey(createHash("sha256").update(text).digest("hex"))
      if (found === undefined) return yield* failed("no key of this installation has or had this secret")
      const project = (yield* directory.listProjects).find(({ id }) => id === found.key.projectId)
      yield* answer({
        json: {
          ...keyFields(found.key, now),
          project_name: project?.name ?? null,
          secret_status: secretStatus(found, now),
          secret_expires_at: formatTime(found.validUntil),
        },
        text: `${describe(found.key, project?.name ?? found.key.projectId)}\n${advice(found, now)}`,
      })
    }),
  ),
).pipe(
  Command.withDescription("Say whose API key this is and whether it works; reads the key from standard input"),
  Command.withExamples([{ command: "kiln key identify < leaked.txt" }]),
)
