/** Tables whose rows are removed by age, a little each day. */
const aging = ["jobs", "results", "attempts", "files", "uploads", "blobs", "blob_chunks"]

/** Tables whose rows live as long as a job or a removal. */
const churning = ["checkpoints", "purges"]

/**
 * Tells autovacuum when to make the space of removed rows usable again. By default, it waits until a fifth of a table is dead, which is a
 * lot of a large one, and of the files in it. `queue` has settings of its own.
 */
export const vacuumSettings = [
  ...aging.map(
    (table) => `ALTER TABLE "kiln".${table} SET (
  autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_analyze_scale_factor = 0.05,
  toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_vacuum_threshold = 1000);
`,
  ),
  ...churning.map(
    (
      table,
    ) => `ALTER TABLE "kiln".${table} SET (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000);
`,
  ),
].join("")
