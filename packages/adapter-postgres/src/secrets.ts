import { SecretStore } from "@kiln/core/ports"
import type { Session, Transaction } from "./Session.ts"
import { type Given, query, statement } from "./Statement.ts"
import type { Database } from "./Database.ts"

const secretByName = statement((given: Given<{ name: string }>) =>
  query.selectFrom("secrets").select("value").where("name", "=", given.name),
)

const insertSecret = statement((given: Given<{ name: string; value: Uint8Array }>) =>
  query
    .insertInto("secrets")
    .values({ name: given.name, value: given.value })
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const deleteSecret = statement((given: Given<{ name: string }>) =>
  query.deleteFrom("secrets").where("name", "=", given.name),
)

/** Of concurrent callers, the first one's secret stays: the other insertions wait for it and then find it. */
const getOrCreateSecret = async (tx: Transaction, name: string, candidate: Uint8Array): Promise<Uint8Array> => {
  const known = (await tx.get(secretByName, { name })) ?? (await createSecret(tx, name, candidate))
  if (known === undefined) throw new TypeError("the secret was neither inserted nor found")
  // Copies the driver's Node buffer, so that the caller may change it.
  return Uint8Array.from(known.value)
}

const createSecret = async (tx: Transaction, name: string, value: Uint8Array) => {
  await tx.run(insertSecret, { name, value: Buffer.from(value) })
  return tx.get(secretByName, { name })
}

export const findSecret = async (session: Session, name: string): Promise<Uint8Array | undefined> => {
  const known = await session.get(secretByName, { name })
  return known && Uint8Array.from(known.value)
}

const replaceSecret = statement((given: Given<{ name: string; expected: Uint8Array; value: Uint8Array }>) =>
  query
    .updateTable("secrets")
    .set({ value: given.value })
    .where("name", "=", given.name)
    .where("value", "=", given.expected),
)

/** One statement, which decides by the row as it is when it is locked. */
const replace = async (
  tx: Transaction,
  name: string,
  expected: Uint8Array | undefined,
  value: Uint8Array,
): Promise<boolean> => {
  const given = { name, value: Buffer.from(value) }
  return expected === undefined
    ? (await tx.run(insertSecret, given)) === 1
    : (await tx.run(replaceSecret, { ...given, expected: Buffer.from(expected) })) === 1
}

/** Returns whether it existed. */
const removeSecret = async (tx: Transaction, name: string): Promise<boolean> =>
  (await tx.run(deleteSecret, { name })) === 1

export const makePostgresSecretStore = (db: Pick<Database, "read" | "write">): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) =>
      db.write("SecretStore.getOrCreate", (tx) => getOrCreateSecret(tx, name, candidate)),
    find: (name) => db.read("SecretStore.find", (session) => findSecret(session, name)),
    replace: (name, expected, value) => db.write("SecretStore.replace", (tx) => replace(tx, name, expected, value)),
    remove: (name) => db.write("SecretStore.remove", (tx) => removeSecret(tx, name)),
  })
