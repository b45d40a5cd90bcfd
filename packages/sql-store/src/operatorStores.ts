import type { JsonObject } from "@kiln/core/domain"
import {
  type AuditChange,
  type AuditEntry,
  AuditLog,
  keptMinutes,
  MinuteHistory,
  type NewOperatorToken,
  type OperatorRole,
  type OperatorToken,
  OperatorTokens,
  SecretStore,
} from "@kiln/core/ports"
import {
  type Given,
  type Program,
  query,
  type RowOf,
  type Sql,
  statement,
  storeTime,
  type Transactions,
  wholeAge,
} from "./Sql.ts"
import { assign, select, type Values } from "./columns.ts"
import { decodeObject, decodeStrings } from "./storedJob.ts"

type Name = Values<"secrets", "name">
type Secret = Values<"secrets", "name" | "value">

const secretByName = statement((given: Given<Name>) =>
  query.selectFrom("secrets").select(select("secrets", "value")).where("name", "=", given.name),
)

const insertSecret = statement((given: Given<Secret>) =>
  query
    .insertInto("secrets")
    .values(assign(given, "name", "value"))
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const replaceSecret = statement((given: Given<Secret & { readonly expected: Uint8Array }>) =>
  query
    .updateTable("secrets")
    .set(assign(given, "value"))
    .where("name", "=", given.name)
    .where("value", "=", given.expected),
)

const deleteSecret = statement((given: Given<Name>) => query.deleteFrom("secrets").where("name", "=", given.name))

/** Returns a copy: the driver returns Node buffers, and callers may change theirs later. */
export function* findSecret(tx: Sql, name: string): Program<Uint8Array | undefined> {
  const known = yield* tx.get(secretByName, { name })
  return known && Uint8Array.from(known.value)
}

/** Of concurrent callers, the first one's secret stays: the other insertions wait for it and then find it. */
function* getOrCreate(tx: Sql, name: string, candidate: Uint8Array): Program<Uint8Array> {
  const known = yield* findSecret(tx, name)
  if (known !== undefined) return known
  yield* tx.run(insertSecret, { name, value: candidate })
  const created = yield* findSecret(tx, name)
  if (created === undefined) throw new TypeError("the secret was neither inserted nor found")
  return created
}

/** One statement, which decides by the row as it is when it is locked. */
function* replace(tx: Sql, name: string, expected: Uint8Array | undefined, value: Uint8Array): Program<boolean> {
  const changed =
    expected === undefined ? tx.run(insertSecret, { name, value }) : tx.run(replaceSecret, { name, value, expected })
  return (yield* changed) === 1
}

export const makeSecretStore = (db: Transactions): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) => db.write("SecretStore.getOrCreate", (tx) => getOrCreate(tx, name, candidate)),
    find: (name) => db.read("SecretStore.find", (tx) => findSecret(tx, name)),
    replace: (name, expected, value) => db.write("SecretStore.replace", (tx) => replace(tx, name, expected, value)),
    remove: (name) =>
      db.write("SecretStore.remove", function* (tx) {
        return (yield* tx.run(deleteSecret, { name })) === 1
      }),
  })

type NewEntry = Values<"audit", "at" | "actor" | "origin" | "action" | "subject" | "details">

const insertEntry = statement((given: Given<NewEntry>) =>
  query.insertInto("audit").values(assign(given, "at", "actor", "origin", "action", "subject", "details")),
)

/** Records a change, in the transaction that makes it. */
export function* appendEntry(tx: Sql, { details, ...change }: AuditChange): Program<void> {
  yield* tx.run(insertEntry, { ...change, at: yield* tx.now(), details: JSON.stringify(details) })
}

/** Newest first. */
const entries = query
  .selectFrom("audit")
  .select(select("audit", "number", "at", "actor", "origin", "action", "subject", "details"))
  .orderBy("number", "desc")

const entriesBefore = statement(
  (given: Given<{ readonly from: number; readonly to: number; readonly before: number; readonly limit: number }>) =>
    entries
      .where("number", "<", given.before)
      .where("at", ">=", given.from)
      .where("at", "<", given.to)
      .limit(given.limit),
)

const lastEntry = statement((given: Given<{ readonly action: string }>) =>
  entries.where("action", "=", given.action).limit(1),
)

const entryOf = ({ details, ...entry }: RowOf<typeof entriesBefore>): AuditEntry => ({
  ...entry,
  details: decodeObject(details, `audit entry ${entry.number}`),
})

export function* findLastEntry(tx: Sql, action: string): Program<AuditEntry | undefined> {
  const row = yield* tx.get(lastEntry, { action })
  return row && entryOf(row)
}

const deleteEntries = statement((given: Given<{ readonly by: number }>) =>
  query.deleteFrom("audit").where("at", "<=", given.by),
)

export const makeAuditLog = (db: Transactions): AuditLog["Service"] =>
  AuditLog.of({
    append: (change) => db.write("AuditLog.append", (tx) => appendEntry(tx, change)),
    list: ({ after, from, limit, to }) =>
      db.read("AuditLog.list", function* (tx) {
        const given = { from, to, before: after ?? Number.MAX_SAFE_INTEGER, limit }
        return (yield* tx.all(entriesBefore, given)).map(entryOf)
      }),
    prune: (olderThanMs) =>
      db.write("AuditLog.prune", function* (tx) {
        return yield* tx.run(deleteEntries, { by: (yield* tx.now()) - wholeAge(olderThanMs) })
      }),
  })

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
