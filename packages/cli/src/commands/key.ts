import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { isId } from "@kiln/core/domain"
import { KeyDirectory } from "@kiln/core/ports"
import { failed } from "../CommandFailed.ts"
import { answer, formatTable, formatTime } from "../Output.ts"
import { recordChange } from "../recordChange.ts"
import { withStores } from "../withStores.ts"
import { keyCap } from "./spendCap.ts"
import { keyCreate } from "./keyCreate.ts"
import { keyFields } from "./keyFields.ts"
import { keyIdentify } from "./keyIdentify.ts"
import { keyLimit } from "./keyLimit.ts"
import { limitsText } from "./keyLimitFlag.ts"
import { keyRotate } from "./keyRotate.ts"

const list = Command.make("list", {}, () =>
  withStores(
    Effect.gen(function* () {
      const directory = yield* KeyDirectory
      const now = yield* Clock.currentTimeMillis
      const records = yield* directory.listKeys
      const keys = records.map((key) => keyFields(key, now))
      const names = new Map((yield* directory.listProjects).map((project) => [project.id, project.name]))
      const rows = keys.map((key, index) => [
        key.key_id,
        names.get(key.project_id) ?? key.project_id,
        key.mode,
        key.status,
        key.scopes.join(" "),
        limitsText(records[index]?.limits ?? {}) || null,
        key.name,
        key.created_at,
        key.expires_at,
        key.last_used_at,
      ])
      const headings = [
        "KEY",
        "PROJECT",
        "MODE",
        "STATUS",
        "SCOPES",
        "LIMITS",
        "NAME",
        "CREATED",
        "EXPIRES",
        "LAST USED",
      ]
      yield* answer({
        json: { keys },
        text: formatTable(headings, rows, "no keys yet; create one with kiln key create (see --help)"),
      })
    }),
  ),
).pipe(Command.withDescription("List all API keys, without their secrets"))

const revoke = Command.make(
  "revoke",
  { id: Argument.String("KEY_ID").pipe(Argument.withDescription("The key's id, from `kiln key list`")) },
  ({ id }) =>
    withStores(
      Effect.gen(function* () {
        const key = isId("key", id)
          ? yield* (yield* KeyDirectory).revokeKey(id).pipe(recordChange({ action: "key.revoke", subject: id }))
          : undefined
        if (key === undefined) return yield* failed(`there is no key ${id}: see \`kiln key list\``)
        const revokedAt = formatTime(key.revokedAt)
        yield* answer({
          json: { key_id: key.id, revoked_at: revokedAt },
          text: `${key.id} was revoked at ${revokedAt}; running servers reject it within 5 seconds`,
        })
      }),
    ),
).pipe(Command.withDescription("Revoke an API key permanently"))

export const keyCommand = Command.make("key").pipe(
  Command.withDescription("Create, list, limit, cap, rotate, revoke and identify API keys"),
  Command.withSubcommands([keyCreate, list, keyLimit, keyCap, keyRotate, revoke, keyIdentify]),
)
