import { sql } from "kysely"
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
import type { KeyId, KeyLimits, KeyMode, ProjectId } from "@kiln/core/domain"
import { batchStatement, type Given, query, type RowOf, statement, storeTime } from "./Statement.ts"
import type { Session, Transaction } from "./Session.ts"
import type { Database } from "./Database.ts"

const selectKeys = query
  .selectFrom("api_keys")
  .select([
    "api_keys.id",
    "api_keys.project_id as projectId",
    "api_keys.mode",
    "api_keys.scopes",
    "api_keys.name",
    "api_keys.limits",
    "api_keys.created_at as createdAt",
    "api_keys.expires_at as expiresAt",
    "api_keys.revoked_at as revokedAt",
    "api_keys.last_used_at as lastUsedAt",
  ])

/** In the order of their creation. */
export const allKeys = statement(() => selectKeys.orderBy("api_keys.seq"))

const keyOf = (row: RowOf<typeof allKeys>): ApiKeyRecord => ({
  ...row,
  scopes: decodeStrings(row.scopes, `the scopes of ${row.id}`),
  limits: decodeLimits(row.limits, `the limits of ${row.id}`),
})

/** Names are unique. A taken name is an outcome; a taken id is a defect. */
const insertProject = statement((given: Given<{ id: ProjectId; name: string; now: number }>) =>
  query
    .insertInto("projects")
    .values({ id: given.id, name: given.name, created_at: given.now })
    .onConflict((conflict) => conflict.column("name").doNothing()),
)

const createProject = async (
  tx: Transaction,
  { id, name }: { readonly id: ProjectId; readonly name: string },
): Promise<Project | undefined> =>
  (await tx.run(insertProject, { id, name, now: tx.now })) === 1
    ? { id, name, createdAt: tx.now, disabledAt: null }
    : undefined

/** In the order of their creation. */
const allProjects = statement(() =>
  query
    .selectFrom("projects")
    .select(["id", "name", "created_at as createdAt", "disabled_at as disabledAt"])
    .orderBy("seq"),
)

const listProjects = (session: Session): Promise<ReadonlyArray<Project>> => session.all(allProjects, {})

const projectById = statement((given: Given<{ id: ProjectId }>) =>
  query
    .selectFrom("projects")
    .select(["id", "name", "created_at as createdAt", "disabled_at as disabledAt"])
    .where("id", "=", given.id),
)

/** Keeps the time of the first call. */
const disable = statement((given: Given<{ id: ProjectId; now: number }>) =>
  query
    .updateTable("projects")
    .set({ disabled_at: given.now })
    .where("id", "=", given.id)
    .where("disabled_at", "is", null),
)

const enable = statement((given: Given<{ id: ProjectId }>) =>
  query.updateTable("projects").set({ disabled_at: null }).where("id", "=", given.id),
)

const disableProject = async (tx: Transaction, id: ProjectId, disabled: boolean): Promise<Project | undefined> => {
  await (disabled ? tx.run(disable, { id, now: tx.now }) : tx.run(enable, { id }))
  return tx.get(projectById, { id })
}

const insertKey = statement(
  (
    given: Given<{
      id: KeyId
      projectId: ProjectId
      mode: KeyMode
      scopes: string
      name: string | null
      limits: string | null
      now: number
      expiresAt: number | null
    }>,
  ) =>
    query.insertInto("api_keys").values({
      id: given.id,
      project_id: given.projectId,
      mode: given.mode,
      scopes: given.scopes,
      name: given.name,
      limits: given.limits,
      created_at: given.now,
      expires_at: given.expiresAt,
    }),
)

/** Only the hash is stored. */
const insertSecret = statement((given: Given<{ secretHash: string; keyId: KeyId; now: number }>) =>
  query.insertInto("key_secrets").values({ secret_hash: given.secretHash, key_id: given.keyId, created_at: given.now }),
)

const createKey = async (tx: Transaction, { secretHash, ...key }: NewApiKey): Promise<ApiKeyRecord | undefined> => {
  const { now } = tx
  if ((await tx.get(projectById, { id: key.projectId })) === undefined) return undefined
  const { expiresAt, id, limits = {}, mode, name, projectId, scopes } = key
  const texts = { scopes: JSON.stringify(scopes), limits: encodeLimits(limits) }
  await tx.run(insertKey, { id, projectId, mode, name, now, expiresAt, ...texts })
  await tx.run(insertSecret, { secretHash, keyId: id, now })
  const asked = { id, projectId, mode, scopes: [...scopes], name, limits: { ...limits }, createdAt: now, expiresAt }
  return { ...asked, revokedAt: null, lastUsedAt: null }
}

/** Ends with the transaction. */
const oneAtATime = statement(() =>
  query.selectNoFrom(
    sql`pg_advisory_xact_lock(hashtextextended(current_database() || ' "kiln".first key', 0))`.as("lock"),
  ),
)

const anyKey = statement(() => query.selectFrom("api_keys").select("seq").limit(1))

/** If several processes start on an empty store, the first one to get the lock creates the key. */
const createFirstKey = async (
  tx: Transaction,
  project: { readonly id: ProjectId; readonly name: string },
  key: NewApiKey,
): Promise<boolean> => {
  await tx.all(oneAtATime, {})
  if ((await tx.get(anyKey, {})) !== undefined || (await createProject(tx, project)) === undefined) return false
  if ((await createKey(tx, key)) === undefined)
    throw new TypeError("the first key must belong to the project created with it")
  return true
}

export const listKeys = async (session: Session): Promise<ReadonlyArray<ApiKeyRecord>> =>
  (await session.all(allKeys, {})).map(keyOf)

/** Keeps the time of the first revocation. */
const revoke = statement((given: Given<{ id: KeyId; now: number }>) =>
  query
    .updateTable("api_keys")
    .set({ revoked_at: given.now })
    .where("id", "=", given.id)
    .where("revoked_at", "is", null),
)

const keyById = statement((given: Given<{ id: KeyId }>) => selectKeys.where("api_keys.id", "=", given.id))

const revokeKey = async (tx: Transaction, id: KeyId): Promise<ApiKeyRecord | undefined> => {
  await tx.run(revoke, { id, now: tx.now })
  const row = await tx.get(keyById, { id })
  return row && keyOf(row)
}

const updateLimits = statement((given: Given<{ id: KeyId; limits: string | null }>) =>
  query.updateTable("api_keys").set({ limits: given.limits }).where("id", "=", given.id),
)

const limitKey = async (tx: Transaction, id: KeyId, limits: KeyLimits): Promise<ApiKeyRecord | undefined> => {
  await tx.run(updateLimits, { id, limits: encodeLimits(limits) })
  const row = await tx.get(keyById, { id })
  return row && keyOf(row)
}

const keyForUpdate = statement((given: Given<{ id: KeyId }>) =>
  selectKeys.where("api_keys.id", "=", given.id).forNoKeyUpdate("api_keys"),
)

/** The end of a secret is never put off. */
const endSecrets = statement((given: Given<{ keyId: KeyId; endAt: number }>) =>
  query
    .updateTable("key_secrets")
    .set({ valid_until: given.endAt })
    .where("key_id", "=", given.keyId)
    .where((where) => where.or([where("valid_until", "is", null), where("valid_until", ">", given.endAt)])),
)

/** The row's lock lets one rotation at a time decide which secrets end. */
const rotateKey = async (tx: Transaction, { keyId, overlapMs, secretHash }: KeyRotation): Promise<RotateOutcome> => {
  const row = await tx.get(keyForUpdate, { id: keyId })
  if (row === undefined) return { _tag: "NotFound" }
  const key = keyOf(row)
  if (key.revokedAt !== null || (key.expiresAt !== null && key.expiresAt <= tx.now)) return { _tag: "Ended", key }
  const oldSecretsEndAt = tx.now + overlapMs
  await tx.run(endSecrets, { keyId, endAt: oldSecretsEndAt })
  await tx.run(insertSecret, { secretHash, keyId, now: tx.now })
  return { _tag: "Rotated", key, oldSecretsEndAt }
}

/** Also a secret whose overlap has ended. */
const ownerOfSecret = statement((given: Given<{ secretHash: string }>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .select("key_secrets.valid_until as validUntil")
    .where("key_secrets.secret_hash", "=", given.secretHash),
)

const identifyKey = async (session: Session, secretHash: string): Promise<KeySecretRecord | undefined> => {
  const row = await session.get(ownerOfSecret, { secretHash })
  if (row === undefined) return undefined
  const { validUntil, ...key } = row
  return { key: keyOf(key), validUntil }
}

/** A secret whose overlap has ended is as unknown as one that never was. */
const keyBySecret = statement((given: Given<{ secretHash: string }>) =>
  selectKeys
    .innerJoin("key_secrets", "key_secrets.key_id", "api_keys.id")
    .innerJoin("projects", "projects.id", "api_keys.project_id")
    .where("projects.disabled_at", "is", null)
    .where("key_secrets.secret_hash", "=", given.secretHash)
    .where((where) =>
      where.or([where("key_secrets.valid_until", "is", null), where("key_secrets.valid_until", ">", storeTime)]),
    ),
)

const findKey = async (session: Session, secretHash: string): Promise<ApiKeyRecord | undefined> => {
  const row = await session.get(keyBySecret, { secretHash })
  return row && keyOf(row)
}

/** In the order of their ids, to avoid deadlocks. */
const lockKeys = batchStatement<{ keyId: KeyId }, {}, unknown>({ keyId: "text" }, (item) =>
  query
    .selectFrom("api_keys")
    .innerJoin(item, (join) => join.onRef("item.keyId", "=", "api_keys.id"))
    .select("api_keys.id")
    .orderBy("api_keys.id")
    .forNoKeyUpdate("api_keys"),
)

/** Uses arrive late and out of order; `last_used_at` never moves back. */
const touch = batchStatement<{ keyId: KeyId; usedAt: number }, {}, unknown>(
  { keyId: "text", usedAt: "bigint" },
  (item) =>
    query
      .updateTable("api_keys")
      .from(item)
      .set((set) => ({ last_used_at: set.ref("item.usedAt") }))
      .whereRef("api_keys.id", "=", "item.keyId")
      .where((where) =>
        where.or([
          where("api_keys.last_used_at", "is", null),
          where("api_keys.last_used_at", "<", where.ref("item.usedAt")),
        ]),
      ),
)

const touchKeys = async (
  tx: Transaction,
  uses: ReadonlyArray<{ readonly keyId: KeyId; readonly usedAt: number }>,
): Promise<void> => {
  // One item per key, because an update changes a row once.
  const latest = new Map<KeyId, number>()
  for (const { keyId, usedAt } of uses) latest.set(keyId, Math.max(usedAt, latest.get(keyId) ?? usedAt))
  const keys = [...latest].map(([keyId, usedAt]) => ({ keyId, usedAt }))
  await Promise.all([tx.runBatch(lockKeys, keys, {}), tx.runBatch(touch, keys, {})])
}

export const makePostgresKeyDirectory = (db: Pick<Database, "read" | "write">): KeyDirectory["Service"] =>
  KeyDirectory.of({
    createProject: (project) => db.write("KeyDirectory.createProject", (tx) => createProject(tx, project)),
    disableProject: (projectId, disabled) =>
      db.write("KeyDirectory.disableProject", (tx) => disableProject(tx, projectId, disabled)),
    listProjects: db.read("KeyDirectory.listProjects", listProjects),
    createKey: (key) => db.write("KeyDirectory.createKey", (tx) => createKey(tx, key)),
    createFirstKey: (project, key) => db.write("KeyDirectory.createFirstKey", (tx) => createFirstKey(tx, project, key)),
    listKeys: db.read("KeyDirectory.listKeys", listKeys),
    limitKey: (keyId, limits) => db.write("KeyDirectory.limitKey", (tx) => limitKey(tx, keyId, limits)),
    revokeKey: (keyId) => db.write("KeyDirectory.revokeKey", (tx) => revokeKey(tx, keyId)),
    rotateKey: (rotation) => db.write("KeyDirectory.rotateKey", (tx) => rotateKey(tx, rotation)),
    identifyKey: (secretHash) => db.read("KeyDirectory.identifyKey", (session) => identifyKey(session, secretHash)),
    findKey: (secretHash) => db.read("KeyDirectory.findKey", (session) => findKey(session, secretHash)),
    touchKeys: (uses) => db.write("KeyDirectory.touchKeys", (tx) => touchKeys(tx, uses)),
  })
