import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Base64Url from "effect/encoding/Base64Url"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import {
  addSigningKey,
  dropSigningKey,
  generatedKid,
  listSigningKeys,
  parseKeyring,
  type StoredKey,
  useSigningKey,
} from "@kiln/http"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTable } from "../Output.ts"
import { readSecretInput } from "../readSecretInput.ts"
import { recordChange } from "../recordChange.ts"
import { listenProblem } from "../startProblems.ts"
import { withSettings, withStores } from "../withStores.ts"

const kidArgument = Argument.String("KID").pipe(Argument.withDescription("The key's name in URLs, such as 2027-01"))

const list = Command.make("list", {}, () =>
  withSettings(({ http }) =>
    Effect.gen(function* () {
      const keys = yield* Effect.catchTag(listSigningKeys(http.signingKeys), "HttpSettingInvalid", (error) =>
        Effect.fail(listenProblem(error)),
      )
      yield* answer({
        json: { keys },
        text: formatTable(
          ["KID", "FINGERPRINT", "FROM", ""],
          keys.map(({ fingerprint, kid, signs, source }) => [
            kid,
            fingerprint,
            source === "setting" ? "KILN_SIGNING_KEYS" : "store",
            signs ? "signs" : "verifies",
          ]),
          "no keys yet; the first kiln serve generates one",
        ),
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "List the keys that sign and verify URLs in a process with these settings; equal fingerprints mean equal keys",
  ),
)

const keyBytes = 32

/** Returns the new entry, with a generated key or the one in standard input. Error messages never contain it. */
const newEntry = Effect.fnUntraced(function* (kid: string, generate: boolean) {
  const random = yield* SecureRandom.SecureRandom
  const secret = generate
    ? Base64Url.encode(yield* random.randomBytes(keyBytes))
    : yield* readSecretInput("signing key in base64")
  const parsed = parseKeyring(`${kid}:${secret}`)
  if (!parsed.ok || secret.includes(","))
    return yield* misused(parsed.ok ? "standard input must be one key" : parsed.problem.replace(/^entry 1: /, ""))
  const entry: StoredKey = `${kid}:${secret}`
  return { entry, fingerprint: parsed.keyring.keys[0].fingerprint }
})

const add = Command.make(
  "add",
  {
    kid: kidArgument,
    generate: Flag.Boolean("generate").pipe(
      Flag.withDescription("Generate the key instead of reading it from standard input"),
      Flag.withDefault(false),
    ),
  },
  ({ generate, kid }) =>
    withStores(
      Effect.gen(function* () {
        const { entry, fingerprint } = yield* newEntry(kid, generate)
        const outcome = yield* addSigningKey(entry).pipe(
          recordChange({ action: "signing-key.add", subject: kid, details: { fingerprint } }),
        )
        if (outcome === "Taken")
          return yield* failed(`the store already has another key named ${kid}: choose another KID`)
        const steps =
          `1. Restart every process, so that all of them accept URLs signed with it.\n` +
          `2. Run kiln signing-key use ${kid}, or put it first in KILN_SIGNING_KEYS, and restart every process again.\n` +
          `3. After 15 minutes, remove the old key with kiln signing-key drop.`
        yield* answer({
          json: { kid, fingerprint, added: outcome === "Added" },
          text:
            outcome === "Added"
              ? `the key ${kid} (${fingerprint}) was added, and verifies URLs but does not sign them\n\n${steps}`
              : `the store already has the key ${kid} (${fingerprint})`,
        })
      }),
    ),
).pipe(
  Command.withDescription("Add a key to the store that verifies URLs; reads it from standard input, in base64"),
  Command.withExamples([
    { command: "kiln signing-key add 2027-01 --generate" },
    { command: "kiln signing-key add own < key.base64", description: "Before KILN_SIGNING_KEYS is set to this key" },
  ]),
)

const use = Command.make("use", { kid: kidArgument }, ({ kid }) =>
  withSettings(({ http }) =>
    Effect.gen(function* () {
      if (!(yield* useSigningKey(kid).pipe(recordChange({ action: "signing-key.use", subject: kid }))))
        return yield* failed(`the store has no key named ${kid}: see kiln signing-key list`)
      yield* answer({
        json: { kid, signs: http.signingKeys === undefined },
        text:
          http.signingKeys === undefined
            ? `each process signs new URLs with ${kid} after its next start`
            : `${kid} is now the first key in the store, but KILN_SIGNING_KEYS is set and its first key signs`,
      })
    }),
  ),
).pipe(Command.withDescription("Sign new URLs with a key in the store; every process must know it already"))

const drop = Command.make("drop", { kid: Argument.optional(kidArgument) }, (given) =>
  withSettings(({ http }) =>
    Effect.gen(function* () {
      const isConfigured = http.signingKeys !== undefined
      if (Option.isNone(given.kid) && !isConfigured)
        return yield* misused(
          "KILN_SIGNING_KEYS is not set, so the key in the store may be the signing key: set it to the same value as in the service, or name the key to drop",
        )
      const kid = Option.getOrElse(given.kid, () => generatedKid)
      const outcome = yield* dropSigningKey(kid, { mayDropSigning: isConfigured }).pipe(
        recordChange({ action: "signing-key.drop", subject: kid }),
      )
      if (outcome === "Signs")
        return yield* failed(
          `${kid} signs new URLs: run kiln signing-key use with another key first, restart every process, and drop it 15 minutes later`,
        )
      if (outcome === "NotFound" && Option.isSome(given.kid))
        return yield* failed(`the store has no key named ${kid}: see kiln signing-key list`)
      const dropped = outcome === "Dropped"
      yield* answer({
        json: { dropped },
        text: dropped
          ? "The key was removed from the store. Running processes accept its URLs until they are restarted."
          : "The store holds no signing key.",
      })
    }),
  ),
).pipe(
  Command.withDescription(
    "Remove a key from the store, by default the generated one; URLs that it signed become invalid",
  ),
)

export const signingKeyCommand = Command.make("signing-key").pipe(
  Command.withDescription("Manage the keys in the store that sign URLs"),
  Command.withSubcommands([list, add, use, drop]),
)
