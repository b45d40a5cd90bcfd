import type { JsonObject } from "@kiln/core/domain"
import type { NewApiKey } from "@kiln/core/ports"
import { limitFields } from "./commands/keyLimitFlag.ts"
import { formatTime } from "./Output.ts"

/** Formats a new key as `--json` prints it. */
export const keyDocument = (key: string, record: NewApiKey) => ({
  key,
  key_id: record.id,
  project_id: record.projectId,
  mode: record.mode,
  scopes: record.scopes,
})

/** The audit log's details of a new key. */
export const keyDetails = ({ expiresAt, limits = {}, mode, name, projectId, scopes }: NewApiKey): JsonObject => ({
  project_id: projectId,
  mode,
  scopes: [...scopes],
  ...(name !== null && { name }),
  ...(Object.keys(limits).length > 0 && { limits: limitFields(limits) }),
  ...(expiresAt !== null && { expires_at: formatTime(expiresAt) }),
})
