import type { KeyId, KeyMode, ProjectId } from "@kiln/core/domain"
import type { ApiKeyRecord, NewApiKey } from "@kiln/core/ports"
import { type Given, query, statement } from "../Statement.ts"
import type { Transaction } from "../Transaction.ts"

const projectById = statement((given: Given<{ id: ProjectId }>) =>
  query.selectFrom("projects").select("id").where("id", "=", given.id),
)

const insertKey = statement(
  (
    given: Given<{
      id: KeyId
      projectId: ProjectId
      mode: KeyMode
      scopes: string
      name: string | null
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
      created_at: given.now,
      expires_at: given.expiresAt,
    }),
)

/** The hash alone: nobody knows the secret any more. */
const insertSecret = statement((given: Given<{ secretHash: string; keyId: KeyId; now: number }>) =>
  query.insertInto("key_secrets").values({ secret_hash: given.secretHash, key_id: given.keyId, created_at: given.now }),
)

export const createKey = (tx: Transaction, { secretHash, ...key }: NewApiKey): ApiKeyRecord | undefined => {
  const { now } = tx
  if (tx.get(projectById, { id: key.projectId }) === undefined) return undefined
  const { expiresAt, id, mode, name, projectId, scopes } = key
  tx.run(insertKey, { id, projectId, mode, scopes: JSON.stringify(scopes), name, now, expiresAt })
  tx.run(insertSecret, { secretHash, keyId: id, now })
  return {
    id,
    projectId,
    mode,
    scopes: [...scopes],
    name,
    createdAt: now,
    expiresAt,
    revokedAt: null,
    lastUsedAt: null,
  }
}
