import type { NewApiKey } from "@kiln/core/ports"

/** Formats a new key as `--json` prints it. */
export const keyDocument = (key: string, record: NewApiKey) => ({
  key,
  key_id: record.id,
  project_id: record.projectId,
  mode: record.mode,
  scopes: record.scopes,
})
