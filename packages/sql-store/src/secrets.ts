import { SecretStore } from "@kiln/core/ports"
import { assign } from "./column.ts"
import { select, type Values } from "./columns.ts"
import type { Program, Sql, Transactions } from "./Sql.ts"
import { type Given, query, statement } from "./Statement.ts"

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
