import type { KeyId, KeyLimits, ProjectId } from "@kiln/core/domain"
import {
  type ApiKeyRecord,
  decodeLimits,
  decodeStrings,
  encodeLimits,
  KeyDirectory,
  type KeyRotation,
  type KeySecretRecord,
  type NewApiKey,
  type Project,
  type RotateOutcome,
} from "@kiln/core/ports"
import { assign, select, type Values } from "./columns.ts"
import type { Database } from "./Database.ts"
import { type Given, query, type RowOf, statement } from "./Statement.ts"
import type { Transaction } from "./Transaction.ts"

/** Only a name conflict is an outcome; an id conflict is a defect. */
const insertProject = statement((given: Given<Values<"projects", "id" | "name" | "created_at">>) =>
  query
    .insertInto("projects")
    .values(assign(given, "id", "name", "created_at"))
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const createProject = (
  tx: Transaction,
  { id, name }: { readonly id: ProjectId; readonly name: string },
): Project | undefined => {
  const project = { id, name, createdAt: tx.now, disabledAt: null }
  return tx.run(insertProject, project) === 1 ? project : undefined
}

/** In order of creation. */
const allProjects = statement(() =>
  query
    .selectFrom("projects")
    .select(select("projects", "id", "name", "created_at", "disabled_at"))
    .orderBy("seq"),
)

const projectById = statement((given: Given<Values<"projects", "id">>) =>
  query
    .selectFrom("projects")
    .select(select("projects", "id", "name", "created_at", "disabled_at"))
    .where("id", "=", given.id),
)

/** Keeps the time of the first call. */
const disable = statement((given: Given<Values<"projects", "id"> & { readonly now: number }>) =>
  query
    .updateTable("projects")
    .set({ disabled_at: given.now })
    .where("id", "=", given.id)
    .where("disabled_at", "is", null),
)

const enable = statement((given: Given<Values<"projects", "id">>) =>
  query.updateTable("projects").set({ disabled_at: null }).where("id", "=", given.id),
)

const disableProject = (tx: Transaction, id: ProjectId, disabled: boolean): Project | undefined => {
  if (disabled) tx.run(disable, { id, now: tx.now })
  else tx.run(enable, { id })
  return tx.get(projectById, { id })
}

const selectKeys = query
  .selectFrom("api_keys")
  .select(
    select(
      "api_keys",
      "id",
      "project_id",
      "mode",
      "scopes",
      "name",
      "limits",
      "created_at",
      "expires_at",
      "revoked_at",
      "last_used_at",
    ),
  )

/** In order of creation. */
const allKeys = statement(() => selectKeys.orderBy("api_keys.seq"))

const keyById = statement((given: Given<Values<"api_keys", "id">>) => selectKeys.where("api_keys.id", "=", given.id))

/** An expired secret, whose overlap with its successor has ended, counts as unknown. */
const keyBySecret = statement((given: Given<Values<"key_secrets", "secret_hash"> & { readonly now: number }>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .innerJoin("projects", "projects.id", "api_keys.project_id")
    .where("projects.disabled_at", "is", null)
    .where("key_secrets.secret_hash", "=", given.secretHash)
    .where((where) =>
      where.or([where("key_secrets.valid_until", "is", null), where("key_secrets.valid_until", ">", given.now)]),
    ),
)

/** Also a secret whose overlap has ended. */
const secretByHash = statement((given: Given<Values<"key_secrets", "secret_hash">>) =>
  query
    .selectFrom("key_secrets")
    .select(select("key_secrets", "key_id", "valid_until"))
    .where("secret_hash", "=", given.secretHash),
)

const keyOf = (row: RowOf<typeof allKeys>): ApiKeyRecord => ({
  ...row,
  scopes: decodeStrings(row.scopes, `the scopes of ${row.id}`),
  limits: decodeLimits(row.limits, `the limits of ${row.id}`),
})

type NewKey = "id" | "project_id" | "mode" | "scopes" | "name" | "limits" | "created_at" | "expires_at"

const insertKey = statement((given: Given<Values<"api_keys", NewKey>>) =>
  query
    .insertInto("api_keys")
    .values(assign(given, "id", "project_id", "mode", "scopes", "name", "limits", "created_at", "expires_at")),
)

/** Only the hash of a secret is stored. */
const insertSecret = statement((given: Given<Values<"key_secrets", "secret_hash" | "key_id" | "created_at">>) =>
  query.insertInto("key_secrets").values(assign(given, "secret_hash", "key_id", "created_at")),
)

const createKey = (tx: Transaction, { secretHash, ...key }: NewApiKey): ApiKeyRecord | undefined => {
  const { now: createdAt } = tx
  if (tx.get(projectById, { id: key.projectId }) === undefined) return undefined
  const { expiresAt, id, limits = {}, mode, name, projectId, scopes } = key
  const texts = { scopes: JSON.stringify(scopes), limits: encodeLimits(limits) }
  tx.run(insertKey, { id, projectId, mode, name, createdAt, expiresAt, ...texts })
  tx.run(insertSecret, { secretHash, keyId: id, createdAt })
  const asked = { id, projectId, mode, scopes: [...scopes], name, limits: { ...limits }, createdAt, expiresAt }
  return { ...asked, revokedAt: null, lastUsedAt: null }
}

const anyKey = statement(() => query.selectFrom("api_keys").select("seq").limit(1))

/** If several processes start on an empty store, the first one to acquire the lock creates the key. */
const createFirstKey = (
  tx: Transaction,
  project: { readonly id: ProjectId; readonly name: string },
  key: NewApiKey,
): boolean => {
  if (tx.get(anyKey, {}) !== undefined || createProject(tx, project) === undefined) return false
  if (createKey(tx, key) === undefined) throw new TypeError("the first key must belong to the project created with it")
  return true
}

const updateLimits = statement((given: Given<Values<"api_keys", "id" | "limits">>) =>
  query.updateTable("api_keys").set(assign(given, "limits")).where("id", "=", given.id),
)

const limitKey = (tx: Transaction, id: KeyId, limits: KeyLimits): ApiKeyRecord | undefined => {
  tx.run(updateLimits, { id, limits: encodeLimits(limits) })
  const row = tx.get(keyById, { id })
  return row && keyOf(row)
}

/** Keeps the time of the first revocation. */
const revoke = statement((given: Given<Values<"api_keys", "id"> & { readonly now: number }>) =>
  query
    .updateTable("api_keys")
    .set({ revoked_at: given.now })
    .where("id", "=", given.id)
    .where("revoked_at", "is", null),
)

const revokeKey = (tx: Transaction, id: KeyId): ApiKeyRecord | undefined => {
  tx.run(revoke, { id, now: tx.now })
  const row = tx.get(keyById, { id })
  return row && keyOf(row)
}

/** The end of a secret is never put off. */
const endSecrets = statement((given: Given<{ readonly keyId: KeyId; readonly endAt: number }>) =>
  query
    .updateTable("key_secrets")
    .set({ valid_until: given.endAt })
    .where("key_id", "=", given.keyId)
    .where((where) => where.or([where("valid_until", "is", null), where("valid_until", ">", given.endAt)])),
)

const rotateKey = (tx: Transaction, { keyId, overlapMs, secretHash }: KeyRotation): RotateOutcome => {
  const { now } = tx
  const row = tx.get(keyById, { id: keyId })
  if (row === undefined) return { _tag: "NotFound" }
  const key = keyOf(row)
  if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt <= now)) return { _tag: "Ended", key }
  const oldSecretsEndAt = now + overlapMs
  tx.run(endSecrets, { keyId, endAt: oldSecretsEndAt })
  tx.run(insertSecret, { secretHash, keyId, createdAt: now })
  return { _tag: "Rotated", key, oldSecretsEndAt }
}

const identifyKey = (tx: Transaction, secretHash: string): KeySecretRecord | undefined => {
  const secret = tx.get(secretByHash, { secretHash })
  const row = secret && tx.get(keyById, { id: secret.keyId })
  return row && secret && { key: keyOf(row), validUntil: secret.validUntil }
}

/** Uses are reported late and out of order; the time of the last use never decreases. */
const touch = statement((given: Given<Values<"api_keys", "id"> & { readonly usedAt: number }>) =>
  query
    .updateTable("api_keys")
    .set({ last_used_at: given.usedAt })
    .where("id", "=", given.id)
    .where((where) => where.or([where("last_used_at", "is", null), where("last_used_at", "<", given.usedAt)])),
)

export const listKeys = (tx: Transaction): ReadonlyArray<ApiKeyRecord> => tx.all(allKeys, {}).map(keyOf)

export const makeSqliteKeyDirectory = (db: Pick<Database, "read" | "write">): KeyDirectory["Service"] =>
  KeyDirectory.of({
    createProject: (project) => db.write("KeyDirectory.createProject", (tx) => createProject(tx, project)),
    disableProject: (projectId, disabled) =>
      db.write("KeyDirectory.disableProject", (tx) => disableProject(tx, projectId, disabled)),
    listProjects: db.read("KeyDirectory.listProjects", (tx) => tx.all(allProjects, {})),
    createKey: (key) => db.write("KeyDirectory.createKey", (tx) => createKey(tx, key)),
    createFirstKey: (project, key) => db.write("KeyDirectory.createFirstKey", (tx) => createFirstKey(tx, project, key)),
    listKeys: db.read("KeyDirectory.listKeys", listKeys),
    limitKey: (keyId, limits) => db.write("KeyDirectory.limitKey", (tx) => limitKey(tx, keyId, limits)),
    revokeKey: (keyId) => db.write("KeyDirectory.revokeKey", (tx) => revokeKey(tx, keyId)),
    rotateKey: (rotation) => db.write("KeyDirectory.rotateKey", (tx) => rotateKey(tx, rotation)),
    identifyKey: (secretHash) => db.read("KeyDirectory.identifyKey", (tx) => identifyKey(tx, secretHash)),
    findKey: (secretHash) =>
      db.read("KeyDirectory.findKey", (tx) => {
        const row = tx.get(keyBySecret, { secretHash, now: tx.now })
        return row && keyOf(row)
      }),
    touchKeys: (uses) =>
      db.write("KeyDirectory.touchKeys", (tx) => {
        for (const { keyId, usedAt } of uses) tx.run(touch, { id: keyId, usedAt })
      }),
  })
