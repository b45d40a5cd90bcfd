import type { KeyId, KeyLimits, ProjectId } from "@kiln/core/domain"
import {
  type ApiKeyRecord,
  KeyDirectory,
  type KeyRotation,
  type KeySecretRecord,
  type NewApiKey,
  type Project,
  type RotateOutcome,
} from "@kiln/core/ports"
import { decodeLimits, decodeStrings, encodeLimits } from "./storedJob.ts"
import { assign, select, type Values } from "./columns.ts"
import {
  each,
  type Given,
  type Program,
  query,
  type RowOf,
  type Sql,
  statement,
  storeTime,
  type Transactions,
} from "./Sql.ts"
type Id = Values<"api_keys", "id">
type ProjectKey = Values<"projects", "id">

/** Only a name conflict is an outcome; an id conflict is a defect. */
const insertProject = statement((given: Given<Values<"projects", "id" | "name" | "created_at">>) =>
  query
    .insertInto("projects")
    .values(assign(given, "id", "name", "created_at"))
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

function* createProject(
  tx: Sql,
  { id, name }: { readonly id: ProjectId; readonly name: string },
): Program<Project | undefined> {
  const project = { id, name, createdAt: yield* tx.now(), disabledAt: null }
  return (yield* tx.run(insertProject, project)) === 1 ? project : undefined
}

const selectProjects = query
  .selectFrom("projects")
  .select(select("projects", "id", "name", "created_at", "disabled_at"))

/** In order of creation. */
const allProjects = statement(() => selectProjects.orderBy("seq"))

const projectById = statement((given: Given<ProjectKey>) => selectProjects.where("id", "=", given.id))

/** Keeps the time of the first call. */
const disable = statement((given: Given<ProjectKey & { readonly now: number }>) =>
  query
    .updateTable("projects")
    .set({ disabled_at: given.now })
    .where("id", "=", given.id)
    .where("disabled_at", "is", null),
)

const enable = statement((given: Given<ProjectKey>) =>
  query.updateTable("projects").set({ disabled_at: null }).where("id", "=", given.id),
)

function* disableProject(tx: Sql, id: ProjectId, disabled: boolean): Program<Project | undefined> {
  if (disabled) yield* tx.run(disable, { id, now: yield* tx.now() })
  else yield* tx.run(enable, { id })
  return yield* tx.get(projectById, { id })
}

const newNames = ["id", "project_id", "mode", "scopes", "name", "limits", "created_at", "expires_at"] as const

const selectKeys = query.selectFrom("api_keys").select(select("api_keys", ...newNames, "revoked_at", "last_used_at"))

/** In order of creation. */
const allKeys = statement(() => selectKeys.orderBy("api_keys.seq"))

const keyById = statement((given: Given<Id>) => selectKeys.where("api_keys.id", "=", given.id))

const keyForUpdate = statement((given: Given<Id>) =>
  selectKeys.where("api_keys.id", "=", given.id).forNoKeyUpdate("api_keys"),
)

/** Also by a secret whose overlap with its successor has ended. */
const keyOfSecret = statement((given: Given<Values<"key_secrets", "secret_hash">>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .select("key_secrets.valid_until as validUntil")
    .where("key_secrets.secret_hash", "=", given.secretHash),
)

/** A secret whose overlap has ended is as unknown as one that never was. */
const keyBySecret = statement((given: Given<Values<"key_secrets", "secret_hash">>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .innerJoin("projects", "projects.id", "api_keys.project_id")
    .where("projects.disabled_at", "is", null)
    .where("key_secrets.secret_hash", "=", given.secretHash)
    .where((where) =>
      where.or([where("key_secrets.valid_until", "is", null), where("key_secrets.valid_until", ">", storeTime)]),
    ),
)

const keyOf = (row: RowOf<typeof allKeys>): ApiKeyRecord => ({
  ...row,
  scopes: decodeStrings(row.scopes, `the scopes of ${row.id}`),
  limits: decodeLimits(row.limits, `the limits of ${row.id}`),
})

function* findKeyById(tx: Sql, id: KeyId): Program<ApiKeyRecord | undefined> {
  const row = yield* tx.get(keyById, { id })
  return row && keyOf(row)
}

function* findKey(tx: Sql, secretHash: string): Program<ApiKeyRecord | undefined> {
  const row = yield* tx.get(keyBySecret, { secretHash })
  return row && keyOf(row)
}

function* identifyKey(tx: Sql, secretHash: string): Program<KeySecretRecord | undefined> {
  const row = yield* tx.get(keyOfSecret, { secretHash })
  if (row === undefined) return undefined
  const { validUntil, ...key } = row
  return { key: keyOf(key), validUntil }
}

export function* listKeys(tx: Sql): Program<ReadonlyArray<ApiKeyRecord>> {
  return (yield* tx.all(allKeys, {})).map(keyOf)
}

const insertKey = statement((given: Given<Values<"api_keys", (typeof newNames)[number]>>) =>
  query.insertInto("api_keys").values(assign(given, ...newNames)),
)

/** Only the hash of a secret is stored. */
const insertSecret = statement((given: Given<Values<"key_secrets", "secret_hash" | "key_id" | "created_at">>) =>
  query.insertInto("key_secrets").values(assign(given, "secret_hash", "key_id", "created_at")),
)

function* createKey(tx: Sql, { secretHash, ...key }: NewApiKey): Program<ApiKeyRecord | undefined> {
  const createdAt = yield* tx.now()
  if ((yield* tx.get(projectById, { id: key.projectId })) === undefined) return undefined
  const { expiresAt, id, limits = {}, mode, name, projectId, scopes } = key
  const texts = { scopes: JSON.stringify(scopes), limits: encodeLimits(limits) }
  yield* tx.run(insertKey, { id, projectId, mode, name, createdAt, expiresAt, ...texts })
  yield* tx.run(insertSecret, { secretHash, keyId: id, createdAt })
  const asked = { id, projectId, mode, scopes: [...scopes], name, limits: { ...limits }, createdAt, expiresAt }
  return { ...asked, revokedAt: null, lastUsedAt: null }
}

const anyKey = statement(() => query.selectFrom("api_keys").select("seq").limit(1))

/** If several processes start on an empty store, the first one to acquire the lock creates the key. */
function* createFirstKey(
  tx: Sql,
  project: { readonly id: ProjectId; readonly name: string },
  key: NewApiKey,
): Program<boolean> {
  yield* tx.lock("first key")
  if ((yield* tx.get(anyKey, {})) !== undefined || (yield* createProject(tx, project)) === undefined) return false
  if ((yield* createKey(tx, key)) === undefined)
    throw new TypeError("the first key must belong to the project created with it")
  return true
}

const updateLimits = statement((given: Given<Values<"api_keys", "id" | "limits">>) =>
  query.updateTable("api_keys").set(assign(given, "limits")).where("id", "=", given.id),
)

function* limitKey(tx: Sql, id: KeyId, limits: KeyLimits): Program<ApiKeyRecord | undefined> {
  yield* tx.run(updateLimits, { id, limits: encodeLimits(limits) })
  return yield* findKeyById(tx, id)
}

/** Keeps the time of the first revocation. */
const revoke = statement((given: Given<Id & { readonly now: number }>) =>
  query
    .updateTable("api_keys")
    .set({ revoked_at: given.now })
    .where("id", "=", given.id)
    .where("revoked_at", "is", null),
)

function* revokeKey(tx: Sql, id: KeyId): Program<ApiKeyRecord | undefined> {
  yield* tx.run(revoke, { id, now: yield* tx.now() })
  return yield* findKeyById(tx, id)
}

type Ended = Values<"api_keys", "project_id"> & { readonly by: number }

const endedKeys = (given: Given<Ended>) =>
  query
    .selectFrom("api_keys")
    .select("id")
    .where("project_id", "=", given.projectId)
    .where("expires_at", "<=", given.by)

const deleteEndedSecrets = statement((given: Given<Ended>) =>
  query.deleteFrom("key_secrets").where("key_id", "in", endedKeys(given)),
)

const deleteEnded = statement((given: Given<Ended>) =>
  query.deleteFrom("api_keys").where("project_id", "=", given.projectId).where("expires_at", "<=", given.by),
)

/** A key that has expired gets no more secrets, so none can come between. */
function* pruneKeys(tx: Sql, projectId: ProjectId, olderThanMs: number): Program<number> {
  const ended = { projectId, by: (yield* tx.now()) - olderThanMs }
  yield* tx.run(deleteEndedSecrets, ended)
  return yield* tx.run(deleteEnded, ended)
}

/** The end of a secret is never put off. */
const endSecrets = statement((given: Given<{ readonly keyId: KeyId; readonly endAt: number }>) =>
  query
    .updateTable("key_secrets")
    .set({ valid_until: given.endAt })
    .where("key_id", "=", given.keyId)
    .where((where) => where.or([where("valid_until", "is", null), where("valid_until", ">", given.endAt)])),
)

/** The row's lock lets one rotation at a time decide which secrets end. */
function* rotateKey(tx: Sql, { keyId, overlapMs, secretHash }: KeyRotation): Program<RotateOutcome> {
  const now = yield* tx.now()
  const row = yield* tx.get(keyForUpdate, { id: keyId })
  if (row === undefined) return { _tag: "NotFound" }
  const key = keyOf(row)
  if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt <= now)) return { _tag: "Ended", key }
  const oldSecretsEndAt = now + overlapMs
  yield* tx.run(endSecrets, { keyId, endAt: oldSecretsEndAt })
  yield* tx.run(insertSecret, { secretHash, keyId, createdAt: now })
  return { _tag: "Rotated", key, oldSecretsEndAt }
}

/** Uses are reported late and out of order; the time of the last use never decreases. */
const touch = statement((given: Given<Id & { readonly usedAt: number }>) =>
  query
    .updateTable("api_keys")
    .set({ last_used_at: given.usedAt })
    .where("id", "=", given.id)
    .where((where) => where.or([where("last_used_at", "is", null), where("last_used_at", "<", given.usedAt)])),
)

/** In the order of the ids, so that no two processes wait for each other. */
function* touchKeys(tx: Sql, uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>): Program<void> {
  const latest = new Map<KeyId, number>()
  for (const { keyId, usedAt } of uses) latest.set(keyId, Math.max(usedAt, latest.get(keyId) ?? usedAt))
  const inOrder = [...latest].sort(([one], [other]) => (one < other ? -1 : 1))
  yield* each(inOrder.map(([id, usedAt]) => tx.run(touch, { id, usedAt })))
}

export const makeKeyDirectory = (db: Transactions): KeyDirectory["Service"] =>
  KeyDirectory.of({
    createProject: (project) => db.write("KeyDirectory.createProject", (tx) => createProject(tx, project)),
    disableProject: (projectId, disabled) =>
      db.write("KeyDirectory.disableProject", (tx) => disableProject(tx, projectId, disabled)),
    listProjects: db.read("KeyDirectory.listProjects", function* (tx) {
      return yield* tx.all(allProjects, {})
    }),
    createKey: (key) => db.write("KeyDirectory.createKey", (tx) => createKey(tx, key)),
    createFirstKey: (project, key) => db.write("KeyDirectory.createFirstKey", (tx) => createFirstKey(tx, project, key)),
    listKeys: db.read("KeyDirectory.listKeys", listKeys),
    limitKey: (keyId, limits) => db.write("KeyDirectory.limitKey", (tx) => limitKey(tx, keyId, limits)),
    revokeKey: (keyId) => db.write("KeyDirectory.revokeKey", (tx) => revokeKey(tx, keyId)),
    pruneKeys: (projectId, olderThanMs) =>
      db.write("KeyDirectory.pruneKeys", (tx) => pruneKeys(tx, projectId, olderThanMs)),
    rotateKey: (rotation) => db.write("KeyDirectory.rotateKey", (tx) => rotateKey(tx, rotation)),
    identifyKey: (secretHash) => db.read("KeyDirectory.identifyKey", (tx) => identifyKey(tx, secretHash)),
    findKey: (secretHash) => db.read("KeyDirectory.findKey", (tx) => findKey(tx, secretHash)),
    touchKeys: (uses) => db.write("KeyDirectory.touchKeys", (tx) => touchKeys(tx, uses)),
  })
