import type { ApiKeyRecord } from "@kiln/core/ports"
import { limitFields } from "./keyLimitFlag.ts"
import { formatTime } from "../Output.ts"

/** Whether a key works at a time. */
export const keyStatus = (key: ApiKeyRecord, now: number): "active" | "revoked" | "expired" => {
  if (key.revokedAt !== null) return "revoked"
  return key.expiresAt !== null && key.expiresAt <= now ? "expired" : "active"
}

/** Formats a key as `--json` prints it, without its secret. */
export const keyFields = (key: ApiKeyRecord, now: number) => ({
  key_id: key.id,
  project_id: key.projectId,
  mode: key.mode,
  scopes: key.scopes,
  limits: limitFields(key.limits),
  name: key.name,
  status: keyStatus(key, now),
  created_at: formatTime(key.createdAt),
  expires_at: formatTime(key.expiresAt),
  revoked_at: formatTime(key.revokedAt),
  last_used_at: formatTime(key.lastUsedAt),
})
