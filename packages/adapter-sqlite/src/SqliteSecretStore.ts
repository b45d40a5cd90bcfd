import { SecretStore } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { findSecret, getOrCreateSecret, removeSecret } from "./sql/secrets.ts"

export const makeSqliteSecretStore = (db: Database): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) =>
      db.write("SecretStore.getOrCreate", (tx) => getOrCreateSecret(tx, name, candidate)),
    find: (name) => db.read("SecretStore.find", (tx) => findSecret(tx, name)),
    remove: (name) => db.write("SecretStore.remove", (tx) => removeSecret(tx, name)),
  })
