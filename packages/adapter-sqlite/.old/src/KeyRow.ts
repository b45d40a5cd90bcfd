import type { ApiKeyRecord } from "@kiln/core/ports"
import { decodeStrings } from "@kiln/core/ports"
import { query, type RowOf, statement } from "./Statement.ts"

export const selectKeys = query
  .selectFrom("api_keys")
  .select([
    "api_keys.id",
    "api_keys.project_id as projectId",
    "api_keys.mode",
    "api_keys.scopes",
    "api_keys.name",
    "api_keys.created_at as createdAt",
    "api_keys.expires_at as expiresAt",
    "api_keys.revoked_at as revokedAt",
    "api_keys.last_used_at as lastUsedAt",
  ])

/** In the order of their creation. */
export const allKeys = statement(() => selectKeys.orderBy("api_keys.seq"))

export const keyOf = (row: RowOf<typeof allKeys>): ApiKeyRecord => ({
  ...row,
  scopes: decodeStrings(row.scopes, `the scopes of ${row.id}`),
})
