import { SecretStore } from "@kiln/core/ports"
import type { Database } from "./Database.ts"
import { getOrCreateSecret } from "./sql/getOrCreateSecret.ts"

export const makeSqliteSecretStore = (db: Database): SecretStore["Service"] =>
  SecretStore.of({
    getOrCreate: (name, candidate) =>
      db.write("SecretStore.getOrCreate", (tx) => getOrCreateSecret(tx, name, candidate)),
  })
