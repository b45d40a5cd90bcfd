import {
  keptMinutes,
  MinuteHistory,
  type NewOperatorToken,
  type OperatorRole,
  type OperatorToken,
  OperatorTokens,
} from "@kiln/core/ports"
import type { JsonObject } from "@kiln/core/domain"
import { assign } from "./column.ts"
import { select, type Values } from "./columns.ts"
import { type Program, type Sql, type Transactions, wholeAge } from "./Sql.ts"
import { type Given, query, type RowOf, statement, storeTime } from "./Statement.ts"
import { decodeObject, decodeStrings } from "./storedJson.ts"

const minuteMs = 60_000

type NewToken = "id" | "name" | "roles" | "secret_hash" | "created_at" | "expires_at"

const insertToken = statement((given: Given<Values<"operator_tokens", NewToken>>) =>
  query
    .insertInto("operator_tokens")
    .values(assign(given, "id", "name", "roles", "secret_hash", "created_at", "expires_at")),
)

const selectTokens = query
  .selectFrom("operator_tokens")
  .select(select("operator_tokens", "id", "name", "roles", "created_at", "expires_at", "revoked_at"))

const allTokens = statement(() => selectTokens.orderBy("seq"))

const tokenById = statement((given: Given<Values<"operator_tokens", "id">>) => selectTokens.where("id", "=", given.id))

const validToken = statement((given: Given<Values<"operator_tokens", "secret_hash">>) =>
  selectTokens
    .where("secret_hash", "=", given.secretHash)
    .where("revoked_at", "is", null)
    .where((where) => where.or([where("expires_at", "is", null), where("expires_at", ">", storeTime)])),
)

/** Keeps the time of the first call. */
const revoke = statement((given: Given<Values<"operator_tokens", "id"> & { readonly now: number }>) =>
  query
    .updateTable("operator_tokens")
    .set({ revoked_at: given.now })
    .where("id", "=", given.id)
    .where("revoked_at", "is", null),
)

const tokenOf = ({ roles, ...row }: RowOf<typeof allTokens>): OperatorToken => ({
  ...row,
  roles: decodeStrings(roles, `the roles of ${row.id}`) as ReadonlyArray<OperatorRole>,
})

function* createToken(tx: Sql, { expiresAt, id, name, roles, secretHash }: NewOperatorToken): Program<OperatorToken> {
  const createdAt = yield* tx.now()
  yield* tx.run(insertToken, { id, name, roles: JSON.stringify(roles), secretHash, createdAt, expiresAt })
  return { id, name, roles, createdAt, expiresAt, revokedAt: null }
}

function* revokeToken(tx: Sql, id: OperatorToken["id"]): Program<OperatorToken | undefined> {
  yield* tx.run(revoke, { id, now: yield* tx.now() })
  const row = yield* tx.get(tokenById, { id })
  return row && tokenOf(row)
}

export const makeOperatorTokens = (db: Transactions): OperatorTokens["Service"] =>
  OperatorTokens.of({
    createToken: (token) => db.write("OperatorTokens.createToken", (tx) => createToken(tx, token)),
    listTokens: db.read("OperatorTokens.listTokens", function* (tx) {
      return (yield* tx.all(allTokens, {})).map(tokenOf)
    }),
    revokeToken: (id) => db.write("OperatorTokens.revokeToken", (tx) => revokeToken(tx, id)),
    findToken: (secretHash) =>
      db.read("OperatorTokens.findToken", function* (tx) {
        const row = yield* tx.get(validToken, { secretHash })
        return row && tokenOf(row)
      }),
  })

/** Of several processes, the first records the minute. */
const insertMinute = statement((given: Given<Values<"minutes", "at" | "figures">>) =>
  query
    .insertInto("minutes")
    .values(assign(given, "at", "figures"))
    .onConflict((conflict) => conflict.column("at").doNothing()),
)

const deleteMinutes = statement((given: Given<{ readonly by: number }>) =>
  query.deleteFrom("minutes").where("at", "<=", given.by),
)

const minutesAfter = statement((given: Given<{ readonly after: number }>) =>
  query
    .selectFrom("minutes")
    .select(select("minutes", "at", "figures"))
    .where("at", ">", given.after)
    .orderBy("at"),
)

function* writeMinute(tx: Sql, figures: JsonObject): Program<boolean> {
  const now = yield* tx.now()
  const at = now - (now % minuteMs)
  if ((yield* tx.run(insertMinute, { at, figures: JSON.stringify(figures) })) === 0) return false
  yield* tx.run(deleteMinutes, { by: at - keptMinutes * minuteMs })
  return true
}

export const makeMinuteHistory = (db: Transactions): MinuteHistory["Service"] =>
  MinuteHistory.of({
    writeMinute: (figures) => db.write("MinuteHistory.writeMinute", (tx) => writeMinute(tx, figures)),
    listMinutes: (withinMs) =>
      db.read("MinuteHistory.listMinutes", function* (tx) {
        const after = (yield* tx.now()) - wholeAge(withinMs)
        const rows = yield* tx.all(minutesAfter, { after })
        return rows.map(({ at, figures }) => ({ at, figures: decodeObject(figures, `the figures of minute ${at}`) }))
      }),
  })
