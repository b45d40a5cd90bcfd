import type { Tables } from "./Tables.ts"

/** What the names of kiln's tables begin with, since it may share the file with a program that has tables of its own. */
export const prefix = "kiln_"

const tables: Readonly<Record<keyof Tables, true>> = {
  lanes: true,
  fairness: true,
  jobs: true,
  job_data: true,
  checkpoints: true,
  files: true,
  charges: true,
  closed_ledger: true,
  store_time: true,
  purges: true,
  uploads: true,
  projects: true,
  api_keys: true,
  key_secrets: true,
  secrets: true,
  switches: true,
  paused_kinds: true,
  prices: true,
  workers: true,
  blob_lineage: true,
  served_kinds: true,
}

/** Takes a name without the prefix. */
export const isTable = (name: string): boolean => Object.hasOwn(tables, name)
