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
import { formatActivity, keyActivity } from "./keyActivity.ts"
import { keyFields, keyStatus } from "./keyFields.ts"

/** Returns whether the secret works now; `rotated` if the key has another one since and the overlap has ended. */
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

/** Characters of standard input that are searched at most. */
const longestText = 16 * 1024 * 1024
/** At most so many keys are reported. */
const mostKeys = 100

/** Finds API keys in any text: a log, a file of settings, a message. A match without the right checksum is not a key. */
const keysIn = (text: string): ReadonlyArray<string> => [
  ...new Set((text.match(/kiln_(?:test|live)_[0-9A-Za-z]{49}/g) ?? []).filter((key) => parseApiKey(key) !== undefined)),
]

const identified = Effect.fnUntraced(function* (secret: string, now: number) {
  const directory = yield* KeyDirectory
  const found = yield* directory.identifyKey(createHash("sha256").update(secret).digest("hex"))
  if (found === undefined) return undefined
  const project = (yield* directory.listProjects).find(({ id }) => id === found.key.projectId)
  const activity = yield* keyActivity(found.key, now)
  return {
    json: {
      ...keyFields(found.key, now),
      project_name: project?.name ?? null,
      secret_status: secretStatus(found, now),
      secret_expires_at: formatTime(found.validUntil),
      ...activity,
    },
    text: [
      describe(found.key, project?.name ?? found.key.projectId),
      formatActivity(activity),
      advice(found, now),
    ].join("\n"),
  }
})

export const keyIdentify = Command.make("identify", {}, () =>
  withStores(
    Effect.gen(function* () {
      const secrets = keysIn(yield* readSecretInput("text with API keys", longestText))
      if (secrets.length === 0)
        return yield* misused(
          "standard input has no API key: kiln_test_… or kiln_live_… with 49 more characters, all of them right",
        )
      if (secrets.length > mostKeys)
        return yield* misused(`standard input has ${secrets.length} API keys: pass at most ${mostKeys} at once`)
      const now = yield* Clock.currentTimeMillis
      const answers = yield* Effect.forEach(secrets, (secret) => identified(secret, now))
      const found = answers.filter((one) => one !== undefined)
      const unknown = answers.length - found.length
      if (found.length === 0)
        return yield* failed(
          answers.length === 1
            ? "no key of this installation has or had this secret"
            : `no key of this installation has or had one of these ${answers.length} secrets`,
        )
      const others = `${unknown} more in this text ${unknown === 1 ? "is no key" : "are no keys"} of this installation.`
      const [first] = found
      yield* answer({
        // The fields of a text with one key are at the top too, where scripts read them.
        json: { ...(answers.length === 1 && first?.json), keys: found.map(({ json }) => json), unknown },
        text: [...found.map(({ text }) => text), ...(unknown > 0 ? [others] : [])].join("\n\n"),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Find API keys in a text on standard input, and say whose they are, whether they work and what they were used for",
  ),
  Command.withExamples([{ command: "kiln key identify < leaked.txt" }]),
)
