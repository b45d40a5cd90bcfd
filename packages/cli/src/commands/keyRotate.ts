import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import { isId } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { newSecret } from "@kiln/http"
import { failed, misused } from "../CommandFailed.ts"
import { answer, formatTime } from "../Output.ts"
import { hasTag, recordChange } from "../recordChange.ts"
import { duration } from "../settings/SettingType.ts"
import { withStores } from "../withStores.ts"

const flags = {
  id: Argument.String("KEY_ID").pipe(Argument.withDescription("The key's id, from `kiln key list`")),
  overlap: Flag.String("overlap").pipe(
    Flag.withDescription("How long the old secret stays valid, like 24h; 0 ends it immediately, for a key that leaked"),
    Flag.withDefault("24h"),
  ),
}

export const keyRotate = Command.make("rotate", flags, ({ id, overlap }) =>
  withStores(
    Effect.gen(function* () {
      const overlapMs = overlap === "0" ? { ok: true as const, value: 0 } : duration(overlap)
      if (!overlapMs.ok) return yield* misused(`--overlap ${overlapMs.rule}, or 0`)
      const directory = yield* KeyDirectory
      const record = isId("key", id) ? (yield* directory.listKeys).find((key) => key.id === id) : undefined
      if (record === undefined) return yield* failed(`there is no key ${id}: see kiln key list`)
      const { key, secretHash } = yield* newSecret(record.mode)
      const rotated = yield* directory
        .rotateKey({ keyId: record.id, secretHash, overlapMs: overlapMs.value })
        .pipe(
          recordChange(
            { action: "key.rotate", subject: record.id, details: { overlap_seconds: overlapMs.value / 1_000 } },
            hasTag("Rotated"),
          ),
        )
      if (rotated._tag === "NotFound") return yield* failed(`there is no key ${id}: see kiln key list`)
      if (rotated._tag === "Ended")
        return yield* failed(
          `${id} ${rotated.key.revokedAt === null ? "has expired" : "is revoked"}, so a new secret would not work: create a new key with kiln key create`,
        )
      const endsAt = formatTime(rotated.oldSecretsEndAt)
      yield* answer({
        json: { key, key_id: record.id, old_secret_expires_at: endsAt },
        text: [
          key,
          "",
          "The new secret is shown only once; it cannot be read from the store again.",
          overlapMs.value === 0
            ? `The old secret of ${id} is no longer valid; running servers reject it within 5 seconds.`
            : `The old secret of ${id} stays valid until ${endsAt}. Jobs stay reachable with both.`,
        ].join("\n"),
      })
    }),
  ),
).pipe(
  Command.withDescription("Give an API key a new secret; the old one stays valid for a while. The key keeps its jobs"),
  Command.withExamples([
    { command: "kiln key rotate KEY_ID", description: "The old secret works for another 24 hours" },
    { command: "kiln key rotate KEY_ID --overlap 0", description: "After a leak: only the new secret works" },
  ]),
)
