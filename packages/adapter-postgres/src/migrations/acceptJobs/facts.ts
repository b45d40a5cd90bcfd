/** The lock that transactions which add jobs to a lane share, as `0006LaneLocks` defines it. */
export const laneLock = (id: string): string =>
  `hashtextextended(current_database() || ' "kiln".lanes mod 256 ' || ${id} % 256, 0)`

/** The lock that transactions which add jobs of a project share while there is room, and that one alone holds to count the jobs. */
export const capLock = `hashtextextended(current_database() || ' "kiln".queue ' || project_id, 0)`

/**
 * The lock that transactions share which add jobs of a project without `capLock`: those of callers, and jobs without a cap. Jobs that one of them
 * has numbered are not visible yet, so a count that is made meanwhile must not be remembered. Projects share 64 of them, so that a transaction
 * with jobs of many projects takes few.
 */
export const uncountedLock = `hashtextextended(current_database() || ' "kiln".queue uncounted ' || (hashtext(project_id) & 63), 0)`

/** Counts a project's unfinished jobs, up to its cap. */
export const unfinishedOf = (cap: string): string => `(
    SELECT count(*) FROM (
      SELECT FROM "kiln".lanes JOIN "kiln".queue ON queue.lane_id = lanes.id
      WHERE lanes.project_id = ${cap}.project_id LIMIT ${cap}.cap) AS unfinished)`

/** The highest number of a job so far, also of one that is not committed yet. */
export const lastNumber = `pg_sequence_last_value('"kiln".jobs_seq_seq'::regclass)`

export const nextNumber = `nextval('"kiln".jobs_seq_seq')`

/** Whether switches or prices have changed since the process read them. Without a row, nothing was ever set. */
export const boardDiffers = `coalesce((SELECT version FROM "kiln".board_version WHERE board_version.id = 1), '') <> board`
