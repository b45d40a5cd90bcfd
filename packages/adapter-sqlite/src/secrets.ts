import { SecretStore } from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

type Name = Values<"secrets", "name">

const secretByName = statement((given: Given<Name>) =>
  query.selectFrom("secrets").select(select("secrets", "value")).where("name", "=", given.name),
)

const insertSecret = statement((given: Given<Values<"secrets", "name" | "value">>) =>
  query.insertInto("secrets").values(assign(given, "name", "value")),
)

const deleteSecret = statement((given: Given<Name>) => query.deleteFrom("secrets").where("name", "=", given.name))

/** Returns a copy: the driver returns Node buffers, and callers may change theirs later. */
export const findSecret = (tx: Transaction, name: string): Uint8Array | undefined => {
  const known = tx.get(secretByName, { name })
  return known && Uint8Array.from(known.value)
}

/** The write lock is held from the lookup to the insertion, so if several callers race, the first one's value stays. */
const getOrCreate = (tx: Transaction, name: string, candidate: Uint8Array): Uint8Array => {
  const known = findSecret(tx, name)
  if (known !== undefined) return known
  tx.run(insertSecret, { name, value: candidate })
  return Uint8Array.from(candidate)
}

const updateSecret = statement((given: Given<Values<"secrets", "name" | "value">>) =>
  query.updateTable("secrets").set(assign(given, "value")).where("name", "=", given.name),
)

const replace = (tx: Transaction, name: string, expected: Uint8Array | undefined, value: Uint8Array): boolean => {
  const known = findSecret(tx, name)
  if (known === undefined || expected === undefined) {
    if (known !== expected) return false
    tx.run(insertSecret, { name, value })
    return true
  }
  return Buffer.compare(known, expected) === 0 && tx.run(updateSecret, { name, value }) === 1
}

export const makeSqliteSecretStore = (db: Pick<Database, "read" | "write">): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) => db.write("SecretStore.getOrCreate", (tx) => getOrCreate(tx, name, candidate)),
    find: (name) => db.read("SecretStore.find", (tx) => findSecret(tx, name)),
    replace: (name, expected, value) => db.write("SecretStore.replace", (tx) => replace(tx, name, expected, value)),
    remove: (name) => db.write("SecretStore.remove", (tx) => tx.run(deleteSecret, { name }) === 1),
  })
