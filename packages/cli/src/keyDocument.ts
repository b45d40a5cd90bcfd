import type { NewApiKey } from "@kiln/core/ports"

/** A key as `--json` prints it when it is made. */
export const keyDocument = (key: string, record: NewApiKey) => ({
  key,
  key_id: record.id,
  project_id: record.projectId,
  mode: record.mode,
  scopes: record.scopes,
})
